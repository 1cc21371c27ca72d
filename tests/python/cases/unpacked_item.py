# map | stateless | forwards a
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(item):
    a, b = item
    return Item(a, b + 1)
