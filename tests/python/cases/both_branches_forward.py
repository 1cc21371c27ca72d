# map | stateless | forwards a
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(item):
    if item.a > 3:
        return item
    return item._replace(b=0) if item.b else Item(item.a, 1)
