# map | global: changes
import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    n: int

    @functools.cached_property
    def parts(self):
        return [self.n]


def operator(item):
    item.parts.append(1)
    return len(item.parts)
