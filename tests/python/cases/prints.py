# map | global at 3: output
def operator(item):
    print(item)
    return item
