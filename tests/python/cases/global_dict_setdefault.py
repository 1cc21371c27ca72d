# map | global at 6: index
index = {}


def operator(item):
    return index.setdefault(item, len(index))
