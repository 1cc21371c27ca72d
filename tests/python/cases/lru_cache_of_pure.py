# map | stateless
import functools


@functools.lru_cache(maxsize=None)
def slow(item):
    return item**2


def operator(item: int):
    return slow(item) + 1
