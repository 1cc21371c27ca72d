# map | global: changes
import functools
from dataclasses import dataclass

SEEN = []


@dataclass(frozen=True)
class Item:
    n: int

    @functools.cached_property
    def number(self):
        SEEN.append(self.n)
        return len(SEEN)


def operator(item):
    return item.number
