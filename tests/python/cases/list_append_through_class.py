# map | global at 6: seen
seen = []


def operator(item):
    list.append(seen, item)
    return item
