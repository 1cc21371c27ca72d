# flat_map | stateless | push 0.. | forwards a
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    words: str


def operator(item):
    return [Item(item.a, word) for word in item.words.split()]
