# map | global at 6: partial
import functools


def remember(seen, item):
    seen.append(item)
    return item


operator = functools.partial(remember, [])
