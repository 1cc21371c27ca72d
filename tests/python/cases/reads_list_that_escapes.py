# map | global at 13: allowed
allowed = ["a"]


def extend(names):
    allowed.extend(names)


hooks = {"extend": extend}


def operator(item):
    return item in allowed
