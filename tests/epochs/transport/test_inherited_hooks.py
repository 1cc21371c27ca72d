"""A class that inherits a hook of a library keeps the attributes that the user added."""

import datetime as dt
import io
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import PurePosixPath

import numpy as np
import pandas as pd
import pytest

from anabranch.epochs.transport.digests import digest_value
from anabranch.epochs.transport.losses import find_library_hook
from anabranch.epochs.transport.pickle import (
    PickledNames,
    ValuePickler,
    ValueUnpickler,
)
from anabranch.errors import EngineError


class Signal(np.ndarray):
    def __new__(cls, values):
        return np.asarray(values).view(cls)

    def __array_finalize__(self, made_of):
        self.tag = getattr(made_of, "tag", None)


class Day(dt.datetime):
    tag = 0


class Span(dt.timedelta):
    __slots__ = ("tag",)


class Price(Decimal):
    tag = 0


class Share(Fraction):
    tag = 0


class Address(IPv4Address):
    tag = 0


class Place(PurePosixPath):
    tag = 0


class Count(Counter):
    tag = 0


class Groups(defaultdict):
    tag = 0


@dataclass(frozen=True, slots=True)
class Point:
    x: int


class Marked(Point):
    """Has attributes that the hooks of a dataclass do not know."""

    tag = 0


class Doubled(Decimal):
    """A copy is made by its constructor, which doubles it again."""

    def __new__(cls, value):
        return super().__new__(cls, 2 * Decimal(value))


class Level(np.float64):
    """NumPy makes a plain number of it."""


class Column(pd.Series):
    """pandas knows which attributes travel."""


class Title(str):  # noqa: SLOT000 - it has attributes
    tag = 0


MADE = {
    "array": lambda: Signal([1.0, 2.0]),
    "datetime": lambda: Day(2026, 1, 2),
    "timedelta with slots": lambda: Span(3),
    "decimal": lambda: Price("1.50"),
    "fraction": lambda: Share(1, 3),
    "address": lambda: Address("1.2.3.4"),
    "path": lambda: Place("a/b"),
    "counter": lambda: Count("abb"),
    "defaultdict": lambda: Groups(list, {1: [2]}),
    "dataclass with slots": lambda: Marked(3),
}


def copy(value, *reads):
    names = PickledNames(reads=frozenset(reads))
    buffer = io.BytesIO()
    ValuePickler(buffer, names).dump(value)
    buffer.seek(0)
    return ValueUnpickler(buffer, names).load()


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_an_added_attribute_travels(make):
    value = make()
    object.__setattr__(value, "tag", [value, 7])  # it may lead to the object itself

    same, tag = copy([value, value])[0], copy(value).tag

    assert (type(value), 7) == (type(same), tag[1])
    assert np.all(same == make())
    assert tag[0].tag is tag


def test_what_a_constructor_computes_again_is_a_loss():
    with pytest.raises(EngineError, match="the value of a Doubled is not the same"):
        copy(Doubled("1.5"))


def test_a_class_that_a_library_leaves_out_is_a_loss():
    with pytest.raises(EngineError, match=r"made by generic\.__reduce__"):
        copy(Level(1.5))


def test_an_attribute_that_a_library_leaves_out_is_a_loss_if_it_is_read():
    value = Column([1.0, 2.0])
    value.__dict__["unit"] = "m"

    assert [1.0, 2.0] == copy(value, "values").tolist()
    with pytest.raises(EngineError, match=r"Column\.unit is not the same"):
        copy(value, "unit")


def test_a_digest_covers_the_value_of_a_subclass():
    assert digest_value(Title("a")) != digest_value(Title("b"))
    assert digest_value(Title("a")).whole
    assert not digest_value(Day(2026, 1, 2)).whole
    assert not digest_value(Signal([1.0])).whole


def test_a_class_with_the_hooks_of_its_decorator_has_no_others():
    assert find_library_hook(Point) is None
    assert find_library_hook(Marked) == (Point, "__getstate__")
    assert Point(1) == copy(Point(1))
