# map | stateless
import functools


def scale(factor, item):
    return factor * item


operator = functools.partial(scale, 3)
