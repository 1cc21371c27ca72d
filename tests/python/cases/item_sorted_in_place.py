# map | global at 3: changes the input item
def operator(item):
    item.sort()
    return item
