# map | global at 6: seen
seen = []


def operator(item):
    return list(map(lambda x: seen.append(x) or x, item))
