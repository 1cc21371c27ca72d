# scan by a | keyed | push 1..1 | forwards a
from typing import NamedTuple

initial = 0


class Item(NamedTuple):
    a: str
    n: int


def operator(state, item):
    total = state + item.n
    return total, Item(item.a, total)
