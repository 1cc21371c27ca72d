# map | stateless
import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    words: tuple[str, ...]

    @functools.cached_property
    def longest(self):
        return max(self.words, key=len, default="")


def operator(item):
    return item.longest.upper()
