# map | stateless | forwards
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(item):
    item = Item(item.b, item.a)
    return Item(item.a, item.b)
