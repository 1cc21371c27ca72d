"""A state that is copied between epochs goes on as in one thread.

What one thread gives is written out as the plain loop.
"""

import functools

import numpy as np
import pytest

import anabranch as ab
from tests.engines.spark.imitation import undisturbed

NUMBERS = [n * n % 7 + n // 5 for n in range(40)]


class Numbered(ab.Operator):
    """A cache of what it has computed."""

    def setup(self):
        self.given = 0
        self.number_of = functools.lru_cache(maxsize=2)(self._number)

    def _number(self, _):
        self.given += 1
        return self.given

    def process(self, n):
        yield self.number_of(n), self.number_of(2), self.number_of.cache_info()


class NumberedByClass(ab.Operator):
    """The cache belongs to the class: it knows the operator by its identity."""

    def setup(self):
        self.given = 0

    @functools.cache  # noqa: B019 - it keeps operators alive
    def number_of(self, _: int):
        self.given += 1
        return self.given

    def process(self, n: int):
        yield self.number_of(n)


class Ledger(ab.Operator):
    """A view of a dict."""

    def setup(self):
        self.accounts = {}
        self.balances = self.accounts.values()

    def process(self, n):
        self.accounts[n % 4] = self.accounts.get(n % 4, 0) + n
        yield sum(self.balances)


class Tail(ab.Operator):
    """A part of an array."""

    def setup(self):
        self.ring = np.zeros(3)
        self.tail = self.ring[1:]

    def process(self, n):
        self.tail[0] += n
        yield self.ring.tolist()


class Slots(ab.Operator):
    """A set of ints, whose order depends on its history."""

    def setup(self):
        self.free = set()

    def process(self, n):
        self.free.add(n * 16)
        self.free.add(n * 8 % 64)
        if len(self.free) > 5:
            yield self.free.pop()


class Words(ab.Operator):
    """A set of strings: it stays in this process, which alone has their hashes."""

    def setup(self):
        self.open = set()

    def process(self, n):
        self.open.add(str(n))
        if len(self.open) > 3:
            self.open.discard(str(n - 3))
            yield list(self.open)


@pytest.mark.parametrize(
    "kept", [Numbered, NumberedByClass, Ledger, Tail, Slots, Words]
)
def test_an_operator_with_parts_that_belong_together(kept, cluster_of):
    op = kept()
    op.setup()
    by_hand = [out for n in NUMBERS for out in op.process(n)]
    out = ab.from_iterable(NUMBERS, int).apply(kept).to_list()
    cluster_of(undisturbed)

    ab.run(out, on="spark", degree=2, epoch_items=3)

    assert by_hand == out.items


def make_step():
    ring = np.zeros(3)
    tail = ring[1:]

    def step(n):
        tail.fill(tail[0] + n)
        return ring.tolist()

    return step


def make_two():
    ring = np.zeros(3)
    tail = ring[1:]

    def step(n):
        ring.fill(ring[0] + n)
        tail.fill(n)
        return ring.tolist()

    return step


def make_table():
    table = np.zeros(4).reshape(2, 2)

    def step(n):
        table.fill(table[0, 0] + n)
        return table.tolist()

    return step


@pytest.mark.parametrize(
    ("make", "is_lifted"), [(make_step, False), (make_two, False), (make_table, True)]
)
def test_arrays_in_outer_variables(make, is_lifted, cluster_of):
    by_hand = [*map(make(), NUMBERS)]
    out = ab.from_iterable(NUMBERS, int).map(make(), name="step").to_list()
    (step,) = [op for op in ab.compile(out).plan.operators if op.name == "step"]
    cluster_of(undisturbed)

    ab.run(out, on="spark", degree=2, epoch_items=3)

    assert by_hand == out.items
    assert is_lifted == bool(step.lifted)


def history(n):
    """Return a set of few ints that has had others."""
    made = set()
    for k in range(n, n + 6):
        made |= {k * 8 % 64, k * 16}
        made.discard(k * 4)
    return made


def test_items_that_are_sets(cluster_of):
    by_hand = [tuple(history(n)) for n in NUMBERS]
    given = ab.from_iterable([history(n) for n in NUMBERS]).map(tuple).to_list()
    made = ab.from_iterable(NUMBERS, int).map(history).map(tuple).to_list()
    cluster_of(undisturbed)

    ab.run(given, made, on="spark", degree=2, epoch_items=3)

    assert by_hand == given.items
    assert by_hand == made.items


def test_a_set_in_an_outer_variable(cluster_of):
    def make():
        seen = set()

        def step(n):
            seen.add(n * 16 % 144)
            seen.discard(n * 8)
            return [each + n for each in seen]

        return step

    by_hand = [*map(make(), NUMBERS)]
    out = ab.from_iterable(NUMBERS, int).map(make()).to_list()
    cluster_of(undisturbed)

    ab.run(out, on="spark", degree=2, epoch_items=3)

    assert by_hand == out.items
