"""A script with classes of its own; `test_as_main.py` runs it."""

import enum
import functools
from dataclasses import dataclass
from typing import NamedTuple

import anabranch as ab


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Order(NamedTuple):
    key: int
    side: Side


class City:
    def __init__(self, name):
        self.name = name


@dataclass(frozen=True, kw_only=True)
class Named:
    n: int
    s: str


class OddError(Exception):
    def __init__(self, n, why):
        super().__init__(why)
        self.n = n


@functools.cache
def square(n):
    return n * n


class Ends(ab.Operator):
    def setup(self):
        self.seen = []

    def process(self, order):
        self.seen.append(order)
        return []

    def finish(self):
        return [Order(len(self.seen), self.seen[-1].side)]


def evens(n):
    if n % 2:
        raise OddError(n, "is odd")
    return n


orders = [Order(n % 2, list(Side)[n % 2]) for n in range(8)]
named = [Named(n=n % 2, s="x") for n in range(8)]
count = lambda n, item: (n + 1, item)
lost = []
source = ab.from_iterable(orders)
sinks = [
    source.key_by("side").scan(lambda n, o: (n + 1, (o.side is Side.BUY, n)), 0),
    source.key_by("key").window(count=3).aggregate(lambda w: w[-1]),
    source.key_by("key").apply(Ends),
    ab.from_iterable([City("Rome"), City("Oslo")]).map(lambda c: c.name),
    ab.from_iterable(named, Named).key_by("n").scan(count, 0, type=Named),
    ab.from_iterable(range(4)).map(square),
    ab.from_iterable(range(4)).map(evens),
]
sinks = [sink.to_list() for sink in sinks]
if __name__ == "__main__":
    ab.run(*sinks, on_error=ab.dead_letter(lost.append), epoch_items=4, degree=2)
    buy, sell = Side.BUY, Side.SELL
    a, b = [[s.items for s in sinks][i] for i in (0, 1)]
    assert [(True, 0), (False, 0), (True, 1), (False, 1)] == a[:4], a
    assert [Order(0, buy), Order(1, sell), Order(0, buy), Order(1, sell)] == b, b
    assert all(type(o) is Order for o in b)
    assert [Order(4, buy), Order(4, sell)] == sinks[2].items
    assert ["Rome", "Oslo"] == sinks[3].items
    assert named == sinks[4].items
    assert [0, 1, 4, 9] == sinks[5].items
    assert [0, 2] == sinks[6].items
    assert [(1, 1), (3, 3)] == [(f.item, f.error.n) for f in lost], lost
    assert all(type(failure.error) is OddError for failure in lost)
