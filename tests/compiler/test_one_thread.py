"""What is no reason for a whole program to run as one thread."""

from __future__ import annotations

import logging
import sqlite3

import pytest

import anabranch as ab

PRICES = list(range(10))  # nobody writes it
RESULTS: list[int] = []


def numbers():
    return ab.from_iterable(list(range(100)), int)


def triple(n: int) -> int:
    return n * 3


def price(n) -> int:
    return PRICES[n % 10]


def read_file(n):
    with open(f"{n}.txt") as file:  # noqa: PTH123 - as many a user writes it
        return len(file.read())


def log(n):
    logging.getLogger(__name__).info("%s", n)
    return n


def import_late(n):
    import wave

    return wave.open(n).getnframes()


class Stores(ab.Operator):
    def setup(self):
        self.connection = sqlite3.connect(":memory:")

    def process(self, n):
        self.connection.cursor().execute("select ?", (n,))
        yield n


WITH_PACKAGES = {
    "a file": lambda s: s.map(read_file),
    "a log": lambda s: s.map(log).map(triple).map(log),
    "an import": lambda s: s.map(import_late),
    "a database": lambda s: s.apply(Stores),
}


@pytest.mark.parametrize("apply", WITH_PACKAGES.values(), ids=WITH_PACKAGES)
def test_what_a_package_does_holds_up_nobody_else(apply):
    s = apply(numbers()).map(price, name="price")
    plan = ab.compile(s.for_each(RESULTS.append), on="local").plan

    assert ("", ()) == (plan.one_thread, plan.together)
    assert any(region.operators[-1] == "price" for region in plan.regions)
