"""States can be looked at without the program that they are of."""

import enum
import functools
import io
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import anabranch as ab
from anabranch.epochs.checkpoint.contents import _Reader, _stand_in, plain
from anabranch.epochs.transport.pickle import PickledNames, Pickler
from anabranch.language.drafts import build_graph


class Side(enum.Enum):
    BUY = 1


class Trade(NamedTuple):
    symbol: str


@dataclass(frozen=True)
class Sum:
    total: int


@dataclass(frozen=True, slots=True)
class Slotted:
    total: int


class Unknown:
    def __init__(self, n):
        self.n = n


def test_values_of_classes_that_are_not_at_hand_are_plain_data():
    sinks = [ab.from_iterable([], kind).to_list() for kind in (Trade, Sum, Slotted)]
    names = PickledNames({"job:Side": Side, "job:Unknown": Unknown})
    pickler = Pickler(build_graph(sinks), names)
    state = [Trade("A"), Sum(3), Slotted(4), Side.BUY, Unknown(5)]
    types = ["Trade(symbol: str)", "Sum(total: int)", "Slotted(total: int)"]

    data = io.BytesIO(pickler.dumps(state))
    found = plain(_Reader(data, [_stand_in(text) for text in types]).load())

    assert [{"symbol": "A"}, {"total": 3}, {"total": 4}, "BUY", {"n": 5}] == found


class Hooked(ab.Operator):
    def setup(self):
        self.n = 0
        self.parts = [self]

    def process(self, item):
        return []


def test_a_state_that_contains_itself_has_an_end_as_plain_data():
    sinks = [ab.from_iterable([]).apply(Hooked).to_list()]
    pickler = Pickler(build_graph(sinks), PickledNames({"job:Hooked": Hooked}))
    operator = Hooked()
    operator.setup()
    operator.n = 3

    found = plain(_Reader(io.BytesIO(pickler.dumps(operator)), [Hooked]).load())

    assert {"n": 3, "parts": ["..."]} == found


def test_a_function_in_a_state_is_not_made_to_be_looked_at():
    sinks = [ab.from_iterable([]).apply(Hooked).to_list()]
    pickler = Pickler(build_graph(sinks), PickledNames({"job:Hooked": Hooked}))
    operator = Hooked()
    operator.n, operator.hook = 3, lambda: operator.n

    found = plain(_Reader(io.BytesIO(pickler.dumps(operator)), [Hooked]).load())

    assert {"n": 3, "hook": {}} == found


class Price(Decimal):
    """A value of a library, with an attribute that the library does not know."""


class Cached(ab.Operator):
    def setup(self):
        self.seen = {}
        self.view = self.seen.keys()
        self.double = functools.lru_cache(maxsize=2)(self._double)
        self.price = Price("1.5")
        self.price.unit = "EUR"

    def _double(self, n):
        self.seen[n] = True
        return 2 * n

    def process(self, item):
        yield self.double(item)


def test_what_is_rebuilt_with_more_than_its_class_can_be_looked_at():
    sinks = [ab.from_iterable([]).apply(Cached).to_list()]
    names = PickledNames({"job:Cached": Cached, "job:Price": Price})
    pickler = Pickler(build_graph(sinks), names)
    operator = Cached()
    operator.setup()
    operator.double(3)

    found = plain(_Reader(io.BytesIO(pickler.dumps(operator)), [Cached]).load())

    assert {"3": True} == found["seen"]
    assert {"seen", "view", "double", "price"} == found.keys()
