# map | global at 7: seen
seen = []


def operator(item):
    pair = (item, seen)
    pair[1].append(item)
    return item
