# map | stateless
TABLE = {"a": 1, "b": 2}


def operator(item):
    return TABLE.get(item, 0) + TABLE["a"]
