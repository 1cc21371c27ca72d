# map | global at 13: cached result
import functools


@functools.lru_cache
def words(item):
    return item.split()


def operator(item):
    found = words(item)
    # the cache keeps this very list
    found.append("end")
    return found
