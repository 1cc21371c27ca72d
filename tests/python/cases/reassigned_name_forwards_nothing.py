# map | stateless | forwards b
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(item):
    a = item.a
    if item.b:
        a = 0
    return Item(a, item.b)
