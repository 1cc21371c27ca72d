# flat_map | stateless | push 1..2 | forwards a
from typing import NamedTuple


class Item(NamedTuple):
    a: int
    b: int


def operator(item):
    yield item
    if item.b:
        yield item._replace(b=0)
