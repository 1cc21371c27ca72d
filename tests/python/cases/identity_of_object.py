# map | global at 3: memory
def operator(item):
    return id(item)
