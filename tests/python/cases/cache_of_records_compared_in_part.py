# map | global: mixes up what is equal
import functools
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    number: int
    name: str = field(compare=False)


@functools.lru_cache(maxsize=None)
def greet(item):
    return f"Hello {item.name}"


def operator(item: Item):
    return greet(item)
