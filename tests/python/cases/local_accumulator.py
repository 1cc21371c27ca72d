# map | stateless
def operator(item):
    total = 0
    for x in item:
        total += x
    return total
