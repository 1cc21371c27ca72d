# map | stateless | forwards
from typing import NamedTuple


class Base(NamedTuple):
    a: int
    b: int


class Item(Base):
    @property
    def a(self):
        return 0


def operator(item):
    return Item(item.a, item.b)
