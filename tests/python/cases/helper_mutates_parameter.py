# map | global at 6: changes the global seen
seen = []


def remember(where, what):
    where.append(what)


def operator(item):
    remember(seen, item)
    return item
