# map | global at 6: cache
cache = {"a": 1}


def operator(item):
    del cache["a"]
    return item
