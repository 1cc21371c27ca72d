"""Keys and states of regions on Spark: the same as one thread has, failures too."""

import math
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.unit.states import remembers_nothing
from anabranch.graph.graph import Op
from anabranch.operators.custom import Scan

pytestmark = pytest.mark.spark


class Reading(NamedTuple):
    k: Any
    n: int


@dataclass(frozen=True)
class Tick:
    ts: int
    price: float

    @property
    def hour(self):
        return self.ts // 4


@ab.declare(state="stateless")
class Twice(ab.Operator):
    def process(self, item):
        return [item, item]


class Fussy(ab.Operator):
    def setup(self):
        self.sum = 0

    def process(self, item):
        self.sum += item.n
        return []

    def finish(self):
        if self.sum % 2:
            msg = f"{self.sum} is odd"
            raise ValueError(msg)
        return [self.sum]


class Hooked(ab.Operator):
    """An operator whose attributes reach it: the state, and defaults that hide its loss."""

    n = 0
    hook = None

    def setup(self):
        self.hook = self.odd
        self.handlers = {True: self.odd, False: lambda: self.add(10)}

    def odd(self):
        self.add(1)
        self.hook = self.even

    def even(self):
        self.add(100)
        self.hook = self.odd

    def add(self, count):
        self.n += count

    def process(self, item):
        self.hook()
        self.handlers[item.n % 3 == 0]()
        return [(item, self.n)]


class Forgetful(ab.Operator):
    """An operator with a pickled form that lacks a part of its state."""

    def setup(self):
        self.seen = {}

    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        self.seen = {}

    def process(self, item):
        self.seen[item.n % 5] = item
        return [len(self.seen)]


def count(n, item):
    return n + 1, (n, item)


def kept(n, item: Reading) -> tuple[int, Reading]:
    return n + 1, item


def readings(*keys):
    return ab.from_iterable([Reading(k, n) for n, k in enumerate(keys)])


def typed():
    return ab.from_iterable([Reading("ab"[n % 2], n) for n in range(8)], Reading)


def ticks():
    source = ab.from_iterable([Tick(ts, 1.0) for ts in range(12)], Tick)
    return source.map(lambda tick: tick, type=Tick)


PROGRAMS = {
    "a property is the key": lambda: ticks().key_by("hour").scan(count, 0),
    "a stateless operator stands under another key": lambda: (
        typed().key_by("k").scan(kept, 0).key_by("n").apply(Twice, type=Reading)
    ),
    "a block of one item stands under no key": lambda: (
        typed()
        .key_by("k")
        .scan(kept, 0)
        .key_by()
        .block(lambda items: [items[0].n], pop=1, push=1)
    ),
    "a key is NaN": lambda: readings("a", math.nan, "a").key_by("k").scan(count, 0),
    "a key has NaN inside": lambda: (
        readings(("a", 1), ("a", math.nan)).key_by("k").window(count=2).aggregate(len)
    ),
    "a key cannot be hashed": lambda: readings("a", [], "a").key_by("k").scan(count, 0),
    "an item has no key": lambda: (
        ab.from_iterable([Reading("a", 1), SimpleNamespace(n=2), Reading("a", 3)])
        .key_by("k")
        .scan(count, 0)
    ),
    "a key fails at the end": lambda: (
        readings("a", "b", "a", "b", "c").key_by("k").apply(Fussy)
    ),
    "attributes of each key reach their operator": lambda: (
        typed().key_by("k").apply(Hooked)
    ),
    "attributes of the only state reach their operator": lambda: typed().apply(Hooked),
    "an operator has a pickled form of its own": lambda: (
        typed().key_by("k").apply(Forgetful)
    ),
    "the only state fails at the end": lambda: readings("a", "b").apply(Fussy),
}


def run(program, on, **options):
    lost = []
    out = program().to_list()
    ab.run(out, on=on, on_error=ab.dead_letter(lost.append), **options)
    return repr(out.items), sorted(failure.text for failure in lost)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_region_gives_and_refuses_what_one_thread_does(program):
    expected = run(program, "sequential")

    assert expected == run(program, "spark", degree=2, epoch_items=4)


def test_an_error_that_holds_on_to_a_lock_is_told_in_words():
    out = readings("a").map(fail_with_a_lock).to_list()
    lost = []

    ab.run(out, on_error=ab.dead_letter(lost.append))

    (failure,) = lost
    assert "RuntimeError: HeldError: no" in failure.text
    assert "test_keyed_regions.py" in failure.text


class HeldError(Exception):
    pass


def fail_with_a_lock(item):
    error = HeldError("no")
    error.lock = threading.Lock()
    raise error


REGIONS = {
    "no region": ((), False, False),
    "by the same key": (("k",), True, False),
    "by a part of the key": (("j",), True, False),
    "by another key": (("n",), True, True),
    "by range": ((), True, True),
}


@pytest.mark.parametrize(
    ("key", "replicated", "expected"), REGIONS.values(), ids=REGIONS
)
def test_only_a_state_of_the_regions_key_is_kept(key, replicated, expected):
    own = ("j", "k") if key == ("j",) else ("k",)
    op = Op("count", Scan(count, 0), key=own)
    unit = SimpleNamespace(key=key, replicated=replicated)

    layout = SimpleNamespace(stateless=frozenset())
    assert expected == remembers_nothing(layout, unit, op)
