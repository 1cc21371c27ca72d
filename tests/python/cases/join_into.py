# join by a | keyed | push 0.. | forwards a
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(left, right):
    return Item(right.a, left.b + right.b)
