# map | global at 4: changes the input item
def operator(item):
    total = item.values
    total += [1]
    return total
