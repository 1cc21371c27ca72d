# map | stateless
allowed = ["a"]


def extend(names):
    allowed.extend(names)


extend(["b"])


def operator(item):
    return item in allowed
