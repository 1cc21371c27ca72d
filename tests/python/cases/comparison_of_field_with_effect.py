# aggregate | global: changes
from typing import NamedTuple

SEEN = []


class Rank:
    def __lt__(self, other):
        SEEN.append(other)
        return len(SEEN) % 2 == 0


class Item(NamedTuple):
    rank: Rank
    value: int


def operator(items):
    return max(items).value
