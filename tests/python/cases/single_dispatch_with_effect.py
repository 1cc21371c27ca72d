# map | global
import functools

SEEN = []


@functools.singledispatch
def handle(value):
    return value


@handle.register
def _(value: int):
    SEEN.append(value)
    return len(SEEN)


def operator(item):
    return handle(item)
