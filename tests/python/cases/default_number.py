# map | stateless
def operator(item, factor=3):
    return item * factor
