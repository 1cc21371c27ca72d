# map | stateless
import functools


def operator(item):
    return functools.reduce(lambda a, b: a + b, item, 0)
