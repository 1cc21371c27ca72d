"""Programs that tell objects apart by identity are not given copies, all others are.

Expected items are those of the plain loop that each case writes out.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.compiler.options import LOCAL, SPARK
from anabranch.errors import PlanError
from anabranch.language.drafts import build_graph

MISSING: Any = object()
NAN = float("nan")
DEFAULTS = {"v": math.nan}
NUMBERS = list(range(24))


class Node:
    """Equals itself alone."""


class Named:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Item(NamedTuple):
    k: int
    v: Any = MISSING


@dataclass(frozen=True)
class Box:
    node: Node


@dataclass(frozen=True)
class Lying:
    """Its default is not of the type it says."""

    k: int
    v: float = MISSING


class Price(NamedTuple):
    k: str
    v: float


ROOT = Node()
NODES = [ROOT, Node(), Node()]
OFFSETS = {node: 10 * place for place, node in enumerate(NODES)}
ANA = Named("Ana")


def numbers():
    return ab.from_iterable(NUMBERS, int)


def blank(n: int):
    return MISSING if n % 3 == 0 else n


def fill(n: int) -> Item:
    return Item(n % 4) if n % 3 == 0 else Item(n % 4, n)


def lie(n: int) -> Lying:
    return Lying(n % 4) if n % 3 == 0 else Lying(n % 4, float(n))


def total(state, item):
    state += 0 if item.v is MISSING else 1
    return state, (item.k, state)


def price(n: int) -> Price:
    return Price("ab"[n % 2], math.nan if n % 3 == 0 else 1.0)


def price_by_default(n: int) -> Price:
    return Price("ab"[n % 2], DEFAULTS["v"] if n % 3 == 0 else 1.0)


def node_of(n: int):
    return NODES[n % 3]


def gather(state, n):
    state |= {math.nan}
    return state, (n, len(state))


class Last(ab.Operator):
    def setup(self):
        self.last = MISSING

    def process(self, n):
        yield n, self.last is MISSING
        self.last = MISSING if n % 8 < 4 else n


class Changes(ab.Operator):
    def setup(self):
        self.last = None

    def process(self, item):
        if item != self.last:
            yield item.k
        self.last = item


def place(state, n):
    return NODES[n % 3], (n, state is ROOT)


def index(state, n):
    return NODES[n % 3], (n, state in NODES)


ASKING = {
    "sentinel in a filter": lambda: (
        numbers().map(blank).filter(lambda v: v is not MISSING)
    ),
    "sentinel in a map": lambda: (
        numbers().map(blank).map(lambda v: "none" if v is MISSING else v)
    ),
    "sentinel of a package": lambda: (
        numbers()
        .map(lambda n: dataclasses.MISSING if n % 3 else n)
        .filter(lambda v: v is not dataclasses.MISSING)
    ),
    "sentinel as a default": lambda: numbers().map(fill).key_by("k").scan(total, 0),
    "sentinel of another type": lambda: numbers().map(lie).key_by("k").scan(total, 0),
    "sentinel in an Operator": lambda: numbers().key_by(lambda n: n % 4).apply(Last),
    "key of a table": lambda: (
        numbers().map(lambda n: NODES[n % 3]).map(lambda v: OFFSETS.get(v, -1))
    ),
    "element of a list": lambda: (
        numbers().map(lambda n: NODES[n % 3]).map(lambda v: v in NODES)
    ),
    "equality": lambda: numbers().map(lambda n: NODES[n % 3]).map(lambda v: v == ROOT),
    "parts of a display": lambda: (
        numbers().map(node_of).map(lambda v: (v, 1) == (ROOT, 1))
    ),
    "generated __eq__": lambda: (
        numbers().map(node_of).map(lambda v: Box(v) == Box(ROOT))
    ),
    "a function that compares": lambda: (
        numbers().map(node_of).map(lambda v: operator.contains(NODES, v))
    ),
    "a method of a table": lambda: numbers().map(node_of).map(OFFSETS.get),
    "a method of a set": lambda: (
        numbers().map(node_of).map(lambda v: frozenset(NODES).isdisjoint([v]))
    ),
    "an operator on sets": lambda: (
        numbers().map(node_of).map(lambda v: len({v} & set(NODES)))
    ),
    "a table made in the call": lambda: (
        numbers().map(node_of).map(lambda v: dict.fromkeys(NODES, 1)[v])
    ),
    "NaN in a set of the state": lambda: (
        numbers().key_by(lambda n: n % 4).scan(gather, frozenset())
    ),
    "state by is": lambda: numbers().key_by(lambda n: n % 4).scan(place, None),
    "state by in": lambda: numbers().key_by(lambda n: n % 4).scan(index, None),
    "NaN in a set": lambda: (
        numbers().map(price).key_by("k").window(count=4)
    ).aggregate(lambda w: len({one.v for one in w})),
    "NaN of a table": lambda: (
        numbers().map(price_by_default).key_by("k").window(count=4)
    ).aggregate(lambda w: len({one.v for one in w})),
    "NaN in counts": lambda: (
        numbers().map(price).key_by("k").window(count=4).aggregate(c=ab.counts("v"))
    ),
    "NaN in a tuple": lambda: numbers().map(price).key_by("k").apply(Changes),
    "NaN in tuples that are ordered": lambda: (
        numbers().map(price).window(count=4)
    ).aggregate(lambda w: w[0] < w[1]),
    "NaN in tuples that are sorted": lambda: (
        numbers().map(price).window(count=4)
    ).aggregate(lambda w: sorted(w)[1].k),
    "NaN through a filter": lambda: (
        numbers().map(price).filter(lambda one: one.k == "a").key_by("k")
    ).apply(Changes),
}


def plan_for(stream, target):
    return compile_graph(build_graph([stream.to_list()]), target).plan


@pytest.mark.parametrize("program", ASKING.values(), ids=ASKING)
def test_who_asks_for_identity_is_given_no_copies(program):
    why = plan_for(program(), SPARK).one_thread
    assert "must not be given copies" in why


@pytest.mark.parametrize("program", ASKING.values(), ids=ASKING)
def test_the_threads_of_one_process_have_no_copies(program):
    assert not plan_for(program(), LOCAL).one_thread


def test_items_are_the_objects_themselves_on_spark():
    kept = numbers().map(blank).filter(lambda v: v is not MISSING).to_list()
    found = numbers().map(lambda n: NODES[n % 3]).map(OFFSETS.get).to_list()
    first = numbers().key_by(lambda n: n % 4).apply(Last).to_list()
    sizes = (
        (numbers().map(price).window(count=6)).aggregate(
            lambda w: len({one.v for one in w})
        )
    ).to_list()

    ab.run(kept, on="spark")
    ab.run(found, on="spark")
    ab.run(first, on="spark", epoch_items=7)
    ab.run(sizes, on="spark")

    assert [n for n in NUMBERS if n % 3] == kept.items
    assert [n % 3 * 10 for n in NUMBERS] == found.items
    # The last one of a key was four numbers before.
    assert [(n, n < 4 or (n - 4) % 8 < 4) for n in NUMBERS] == first.items
    assert [2, 2, 2, 2] == sizes.items


def test_a_checkpoint_would_make_copies(tmp_path):
    kept = numbers().map(blank).filter(lambda v: v is not MISSING).to_list()
    with pytest.raises(PlanError, match=r"must not be given copies.*checkpoint="):
        ab.run(kept, on="spark", checkpoint=tmp_path / "here")


def test_explain_gives_advice_that_is_true_of_any_object():
    sink = numbers().map(blank).filter(lambda v: v is not MISSING).to_list()
    text = " ".join(ab.explain(sink).split())
    assert (
        "The whole program runs as one thread: filter must not be given copies: v is "
        "not MISSING asks for identity, which a copy in another process loses; use None "
        "or an Enum member, or a class with an __eq__ and ==." in text
    )


class Seen(ab.Operator):
    """Looks up with a sentinel that it never keeps."""

    def setup(self):
        self.seen = {}

    def process(self, n):
        known = self.seen.get(n, MISSING)
        if known is MISSING:
            yield n
        self.seen[n] = True


def get(table: dict[str, int]):
    found = table.get("a", MISSING)
    return 0 if found is MISSING else found


HARMLESS = {
    "None": lambda: (
        numbers().map(lambda n: None if n % 3 else n).filter(lambda v: v is not None)
    ),
    "True": lambda: numbers().map(lambda n: n % 3 == 0).filter(lambda v: v is True),
    "Ellipsis": lambda: (
        numbers().map(lambda n: ... if n % 3 else n).filter(lambda v: v is not ...)
    ),
    "a member": lambda: (
        numbers()
        .map(lambda n: Color.RED if n % 3 else Color.BLUE)
        .filter(lambda v: v is Color.RED)
    ),
    "a type": lambda: (
        numbers().map(lambda n: "" if n % 3 else n).filter(lambda v: type(v) is int)
    ),
    "a singleton of a package": lambda: (
        numbers()
        .map(lambda n: pd.NA if n % 3 else n)
        .filter(lambda v: v is not pd.NA)
        .filter(lambda v: v is not pd.NaT)
    ),
    "a class": lambda: (
        numbers().map(lambda n: int if n % 3 else str).filter(lambda v: v is int)
    ),
    "a sentinel of the call": lambda: numbers().map(lambda n: {"a": n}).map(get),
    "a sentinel of an Operator": lambda: numbers().key_by(lambda n: n % 4).apply(Seen),
    "an __eq__": lambda: (
        numbers().map(lambda n: ANA if n % 3 else Named("Bo")).map(lambda v: v == ANA)
    ),
    "objects made in the call": lambda: numbers().map(lambda n: Node() is Node()),
    "NaN as a number": lambda: numbers().map(price).filter(lambda p: p.v == p.v),
    "NaN that is asked for": lambda: (
        numbers().map(price).filter(lambda p: not math.isnan(p.v))
    ),
    "NaN among numbers": lambda: (numbers().map(price).window(count=4)).aggregate(
        lambda w: max(w, key=lambda one: one.v).k
    ),
    "keys beside a NaN": lambda: (
        numbers().map(price).key_by("k").window(count=4)
    ).aggregate(lambda w: collections.Counter(one.k for one in w)["a"]),
    "a table beside a NaN": lambda: (
        numbers().map(price).map(lambda p: {"a": 1.0, "b": 2.0}.get(p.k, 0.0))
    ),
}


@pytest.mark.parametrize("program", HARMLESS.values(), ids=HARMLESS)
def test_what_a_copy_keeps_is_compared_in_parallel(program):
    plan = plan_for(program(), SPARK)
    assert not plan.one_thread
    assert plan.regions
