# map | stateless
import functools


def doubled(function):
    @functools.wraps(function)
    def wrapper(item):
        return function(item) * 2

    return wrapper


@doubled
def operator(item):
    return item + 1
