# map | stateless
from typing import NamedTuple


class Item(NamedTuple):
    n: int


def operator(item):
    n = item.n
    n += 1
    return n
