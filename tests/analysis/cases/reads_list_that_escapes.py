# map | global at 10: allowed
allowed = ["a"]


def extend(names):
    allowed.extend(names)


def operator(item):
    return item in allowed
