# map | global at 9: count
import functools

count = {"n": 0}


@functools.lru_cache
def number(item):
    count["n"] += 1
    return count["n"]


def operator(item):
    return number(item)
