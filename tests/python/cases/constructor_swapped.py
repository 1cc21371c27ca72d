# map | stateless | forwards
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(item):
    return Item(item.b, item.a)
