# map | global at 3: handed in
def operator(item):
    return item.function(3)
