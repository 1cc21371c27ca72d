# map | global at 8: ids
import itertools

ids = itertools.count()


def operator(item):
    return next(ids), item
