# map | global at 7: total
total = [0]


def operator(item):
    alias = total
    alias[0] += item
    return alias[0]
