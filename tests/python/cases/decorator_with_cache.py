# map | global
import functools


def remembered(function):
    cache = {}

    @functools.wraps(function)
    def inner(item):
        if item not in cache:
            cache[item] = len(cache)
        return cache[item]

    return inner


@remembered
def operator(item):
    return item
