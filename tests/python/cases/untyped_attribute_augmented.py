# map | global at 4: changes the input item
def operator(item):
    n = item.n
    n += 1
    return n
