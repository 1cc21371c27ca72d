# aggregate | global: changes
from operator import attrgetter
from typing import NamedTuple

SEEN = []


class Item(NamedTuple):
    value: int

    @property
    def rank(self):
        SEEN.append(self.value)
        return len(SEEN)


def operator(items):
    return sorted(items, key=attrgetter("rank"))
