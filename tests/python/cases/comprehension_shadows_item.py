# flat_map | stateless | forwards
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    parts: tuple


def operator(item):
    return [Item(item.a, ()) for item in item.parts]
