# map | global at 6: last
last = {}


def operator(item):
    last["item"] = item
    return item
