# aggregate | global: one for the whole stream
from bisect import bisect_right
from typing import NamedTuple

EDGES = [0.0, 1.0, 5.0, 10.0]


class Item(NamedTuple):
    value: float


def operator(items):
    counts = [0] * (len(EDGES) + 1)
    for item in items:
        counts[bisect_right(EDGES, item.value)] += 1
    total = sum(counts)
    return tuple(round(n / total, 4) for n in counts)
