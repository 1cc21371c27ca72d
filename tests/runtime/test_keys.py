"""Keys: equality, canonical bytes, stable hashes and the order of finishing."""

from __future__ import annotations

import datetime as dt
import enum
import math
import subprocess
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import OperatorError
from anabranch.operators.getters import key_getter
from anabranch.runtime.keys import (
    in_key_order,
    key_bytes,
    key_hash,
    key_rank,
    rank_bytes,
)

ZONES = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    RED = "red"


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from([*Colour, *Level, *Word, "red", 1, 2]),
    st.dates(),
    st.datetimes(timezones=ZONES),
    st.times(timezones=ZONES),
    st.uuids(),
)
KEYS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4
)
EQUAL = {
    "numbers by value": (1, 1.0, True, Level.LOW),
    "zeros": (0, 0.0, -0.0, False),
    "strings and their enums": ("red", Word.RED),
    "tuples of equals": ((1, "a"), (1.0, "a")),
    "a moment in two zones": (
        dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    ),
    "a time of day in two zones": (
        dt.time(12, tzinfo=dt.UTC),
        dt.time(13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    ),
}
DIFFERENT = {
    "a number and its text": (1, "1"),
    "text and bytes": ("a", b"a"),
    "nothing and empty": (None, "", (), b""),
    "nesting": (("a", "b"), (("a",), "b"), ("a", ("b",))),
    "text that looks like two": (("a", "b"), ("as1:b",)),
    "a date and its midnight": (
        dt.date(2026, 1, 1),
        dt.datetime(2026, 1, 1),  # noqa: DTZ001 - without a zone on purpose
    ),
    "an enum and its value": (Colour.RED, 1, "RED"),
    "an id and its bytes": (uuid.UUID(int=7), uuid.UUID(int=7).bytes),
}


@pytest.mark.parametrize("keys", EQUAL.values(), ids=EQUAL)
def test_equal_keys_have_equal_bytes(keys):
    assert 1 == len(set(keys))

    assert 1 == len({key_bytes(key) for key in keys})


@pytest.mark.parametrize("keys", DIFFERENT.values(), ids=DIFFERENT)
def test_different_keys_have_different_bytes(keys):
    assert len(keys) == len({key_bytes(key) for key in keys})


@given(KEYS, KEYS)
def test_bytes_are_equal_exactly_if_keys_are(one, two):
    """
    A dictionary by key and a store by bytes tell the same keys apart.
    """
    assert (one == two) == (key_bytes(one) == key_bytes(two))


@given(KEYS, KEYS)
def test_equal_keys_have_equal_hashes(one, two):
    if one == two:
        assert key_hash(one) == key_hash(two)


@given(st.lists(KEYS, unique=True, max_size=8), st.randoms())
def test_the_order_of_keys_does_not_depend_on_their_arrival(keys, rng):
    shuffled = rng.sample(keys, len(keys))

    assert in_key_order(keys) == in_key_order(shuffled)


@given(st.lists(st.integers() | st.floats(allow_nan=False) | st.booleans()))
def test_numbers_are_ordered_by_value(numbers):
    assert sorted(numbers) == in_key_order(numbers)


@given(st.lists(st.tuples(st.text(max_size=2), st.integers(-2, 2))))
def test_tuples_are_ordered_from_left_to_right(keys):
    def compare(one, two):
        for a, b in zip(one, two, strict=True):
            if a != b:
                return -1 if a < b else 1
        return 0

    assert sorted(keys, key=cmp_to_key(compare)) == in_key_order(keys)


def test_types_are_ordered_nothing_numbers_text_bytes_tuples_others():
    keys = [dt.date(2026, 1, 1), (1,), b"x", "x", 7, None]

    assert keys[::-1] == in_key_order(keys)


class Pair(NamedTuple):
    a: int
    b: str


def test_one_attribute_is_the_key_itself_and_several_are_a_tuple():
    assert 1 == key_getter(("a",))(Pair(1, "x"))
    assert ("x", 1) == key_getter(("b", "a"))(Pair(1, "x"))


@pytest.mark.parametrize("key", [[1], {1}, frozenset({1}), {"a": 1}, object()])
def test_what_cannot_be_a_key_is_refused_with_its_type(key):
    with pytest.raises(OperatorError, match=f"of type {type(key).__name__}"):
        key_bytes(key)


def test_nan_is_refused_since_it_does_not_equal_itself():
    with pytest.raises(OperatorError, match="NaN"):
        key_bytes(("a", float("nan")))


def test_hashes_are_the_same_in_another_process():
    """
    Python's own hash of a string differs from process to process; ours must not.
    """
    code = "from anabranch.runtime.keys import key_hash; print(key_hash(('red', 3)))"
    printed = subprocess.check_output(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "12345"}, text=True
    )

    assert key_hash(("red", 3)) == int(printed)


@given(KEYS, KEYS)
def test_bytes_of_rank_have_the_order_of_keys(one, two):
    ranks, raw = (key_rank(one), key_rank(two)), (rank_bytes(one), rank_bytes(two))

    assert (ranks[0] < ranks[1], ranks[0] == ranks[1]) == (
        raw[0] < raw[1],
        raw[0] == raw[1],
    )


@given(KEYS, KEYS)
def test_no_bytes_of_rank_begin_with_those_of_another_key(one, two):
    short, long = sorted((rank_bytes(one), rank_bytes(two)), key=len)

    assert short == long or not long.startswith(short)


@given(
    st.lists(
        st.one_of(st.integers(), st.floats(allow_nan=False), st.fractions()),
        min_size=2,
    )
)
def test_times_have_the_order_of_numbers_whatever_their_type(times):
    expected = sorted(times)

    assert expected == sorted(times, key=lambda time: rank_bytes((time, 0)))


ALIKE = [
    [1, 1.0, True, Decimal(1), Decimal("1.00"), Fraction(1), 1 + 0j, np.int8(1)],
    [0.5, Decimal("0.5"), Fraction(1, 2), 0.5 + 0j, np.float32(0.5)],
    [0.0, -0.0, 0, Decimal("-0"), Fraction(0), -0j],
    [Decimal("0.1"), Fraction(1, 10)],
    [math.inf, Decimal("Infinity")],
    [10**400, Decimal(10) ** 400, Fraction(10**400)],
    [Fraction(10**400, 3)],
    [1j, np.complex64(1j)],
]


@pytest.mark.parametrize("keys", ALIKE, ids=str)
def test_numbers_that_are_equal_are_one_key_whatever_their_type(keys):
    """
    A table of states takes them for one, so where they go may not depend on the type.
    """
    assert 1 == len({key_bytes(key) for key in keys})
    assert 1 == len({key_rank(key) for key in keys})
    assert 1 == len({rank_bytes(key) for key in keys})


def test_numbers_that_differ_are_keys_of_their_own():
    assert len(ALIKE) == len({key_bytes(keys[0]) for keys in ALIKE})
    assert key_bytes(0.1) != key_bytes(Decimal("0.1"))


@pytest.mark.parametrize("key", [Decimal("nan"), complex(0, math.nan)])
def test_any_number_that_does_not_equal_itself_is_refused(key):
    with pytest.raises(OperatorError, match="must equal itself"):
        key_bytes(key)


LONG = 10**5000


@pytest.mark.parametrize(
    ("one", "other"),
    [(LONG, -LONG), (LONG, LONG + 1), (Fraction(1, LONG), LONG)],
    ids=["sign", "next", "fraction"],
)
def test_numbers_of_thousands_of_digits_are_keys(one, other):
    assert key_bytes(one) != key_bytes(other)
    assert key_bytes(one) == key_bytes(one * 1)
