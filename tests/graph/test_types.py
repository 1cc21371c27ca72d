"""Tuple types: their attributes, and what annotations say about functions."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from anabranch.graph.types import (
    fields_of,
    find_return_element_type,
    find_return_pair_type,
    find_return_type,
    optional_of,
    parameter_type,
    type_name,
    why_not_tuple_type,
)


class Trade(NamedTuple):
    symbol: str
    price: float | None


@dataclasses.dataclass(frozen=True)
class Quote:
    symbol: str
    size: int


@dataclasses.dataclass
class Loose:
    symbol: str


FIELDS = {
    "a NamedTuple": (Trade, {"symbol": str, "price": float | None}),
    "a frozen dataclass": (Quote, {"symbol": str, "size": int}),
    "a scalar has none": (int, None),
    "a plain tuple has none": (tuple, None),
    "an unknown type has none": (None, None),
    "an annotation that is no class has none": (list[int], None),
}


@pytest.mark.parametrize(("tuple_type", "fields"), FIELDS.values(), ids=FIELDS)
def test_fields(tuple_type, fields):
    assert fields == fields_of(tuple_type)


REASONS = {
    "a NamedTuple may": (Trade, None),
    "a frozen dataclass may": (Quote, None),
    "a scalar may": (bytes, None),
    "a dataclass that can change may not": (Loose, "dataclass Loose is not frozen"),
    "a dict may not": (
        dict,
        "dict is neither a NamedTuple, a frozen dataclass nor a scalar",
    ),
}


@pytest.mark.parametrize(("tuple_type", "why"), REASONS.values(), ids=REASONS)
def test_what_may_be_read(tuple_type, why):
    assert why == why_not_tuple_type(tuple_type)


def test_optional_attributes():
    assert int is optional_of(int | None)
    assert int is optional_of(typing.Optional[int])  # noqa: UP045 - the older spelling
    assert optional_of(int) is None
    assert optional_of(int | str) is None


def test_names_for_messages():
    assert ("Trade", "unknown", "list[int]") == (
        type_name(Trade),
        type_name(None),
        type_name(list[int]),
    )


class Doubler:
    def __call__(self, n: int) -> float:
        return n * 2.0

    def method(self, n: int) -> str:
        return str(n)


def typed(a: int, b: Trade) -> Trade: ...
def untyped(a, b): ...
def vague(a: Any) -> Any: ...
def nothing(a: int) -> None: ...
def unresolved(a: int) -> NoSuchType: ...  # noqa: F821 - on purpose


RETURNED = {
    "a function": (typed, Trade),
    "a function without annotations": (untyped, None),
    "Any says nothing": (vague, None),
    "None says nothing": (nothing, None),
    "a name that cannot be found says nothing": (unresolved, None),
    "a partial": (functools.partial(typed, 1), Trade),
    "a callable object": (Doubler(), float),
    "a bound method": (Doubler().method, str),
    "a lambda": (lambda n: n, None),
    "a builtin": (len, None),
}


@pytest.mark.parametrize(("function", "made"), RETURNED.values(), ids=RETURNED)
def test_returned_type(function, made):
    assert made is find_return_type(function)


def as_list(x) -> list[Trade]: ...
def as_iterator(x) -> Iterator[int]: ...
def as_iterable(x) -> Iterable[str]: ...
def as_generator(x) -> Generator[int, None, str]: ...
def as_bare_list(x) -> list: ...
def as_dict(x) -> dict[str, int]: ...


ELEMENTS = {
    "a list": (as_list, Trade),
    "an iterator": (as_iterator, int),
    "an iterable": (as_iterable, str),
    "a generator": (as_generator, int),
    "a list of anything": (as_bare_list, None),
    "a dict is not read as items": (as_dict, None),
}


@pytest.mark.parametrize(("function", "made"), ELEMENTS.values(), ids=ELEMENTS)
def test_returned_element_type(function, made):
    assert made is find_return_element_type(function)


def pair(s, x) -> tuple[int, Trade]: ...
def triple(s, x) -> tuple[int, int, Trade]: ...


def test_returned_pair_type():
    assert Trade is find_return_pair_type(pair)
    assert find_return_pair_type(triple) is None
    assert find_return_pair_type(untyped) is None


def test_parameter_type():
    assert (int, Trade) == (parameter_type(typed, 0), parameter_type(typed, 1))
    assert parameter_type(typed, 2) is None
    assert parameter_type(untyped, 0) is None
