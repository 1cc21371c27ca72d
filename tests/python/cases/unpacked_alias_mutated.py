# map | global at 7: seen
seen = []


def operator(item):
    first, second = item, seen
    second.append(first)
    return item
