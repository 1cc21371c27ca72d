# map | stateless
import functools
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Item:
    number: int
    at: Point
    unit: ClassVar[str] = "m"
    size: int = field(init=False, default=2)


@functools.lru_cache(maxsize=None)
def show(item, more):
    return f"{item.number} {more[0].x}"


def operator(item: Item):
    return show(item, (item.at, 1))
