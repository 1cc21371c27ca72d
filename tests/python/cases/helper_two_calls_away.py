# map | global at 6: count
count = {"n": 0}


def bump():
    count["n"] += 1


def log(item):
    bump()
    return item


def operator(item):
    return log(item)
