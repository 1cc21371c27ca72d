# map | global at 6: seen
seen = []


def remember(x):
    seen.append(x)
    return x


def operator(item):
    return sorted(item, key=remember)
