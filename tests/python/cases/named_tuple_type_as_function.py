# aggregate by a | keyed | push 0..1 | forwards a
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


class Out(NamedTuple):
    a: int
    n: int


def operator(items):
    return Out(items[0].a, len(items))
