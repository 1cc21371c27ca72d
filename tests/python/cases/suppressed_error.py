# map | stateless
import contextlib


def operator(item):
    with contextlib.suppress(ValueError):
        return int(item)
    return 0
