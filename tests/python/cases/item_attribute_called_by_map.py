# map | global
def operator(item):
    return list(map(item.function, [1, 2]))
