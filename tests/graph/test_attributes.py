from typing import Any, NamedTuple, Protocol

import pytest

from anabranch.graph.types import attribute_type, is_number, lacks, may_be, there_is
from tests.language.types import Quote, Trade


class Pair(NamedTuple):
    trade: Trade
    other: Any


class HasPrice(Protocol):
    price: float


def test_what_there_is_names_the_likeliest_first():
    assert "did you mean 'Symbol'? The columns are ts, Symbol" == there_is(
        "symbol", ["ts", "Symbol"], "column"
    )
    assert "the attributes are ts, price" == there_is("qqq", ["ts", "price"])


@pytest.mark.parametrize("name", ["ts", "value", "count"])
def test_attributes_properties_and_methods_are_there(name):
    assert not lacks(Trade, name)


@pytest.mark.parametrize("name", ["simbol", "ts.when"])
def test_other_names_are_not(name):
    assert lacks(Trade, name)


def test_a_dotted_name_goes_through_the_attributes():
    assert not lacks(Pair, "trade.symbol")
    assert lacks(Pair, "trade.simbol")
    assert not lacks(Pair, "other.anything")
    assert str is attribute_type(Pair, "trade.symbol")
    assert attribute_type(Pair, "other") is None


COMPATIBLE = [
    (Trade, Trade),
    (Trade, tuple),
    (tuple, Trade),
    (int, float),
    (bool, int),
    (Trade, Trade | Quote),
    (int | None, int),
    (list[int], list),
    (None, Trade),
    (Trade, Any),
    (Trade, object),
    (Trade, HasPrice),
    (Trade, "Trade"),
]


@pytest.mark.parametrize(("given", "needed"), COMPATIBLE, ids=str)
def test_types_that_may_serve(given, needed):
    assert may_be(given, needed)


INCOMPATIBLE = [
    (Trade, Quote),
    (int, str),
    (str, float),
    (Trade, int),
    (Trade, list[Trade]),
    (Trade, Quote | None),
]


@pytest.mark.parametrize(("given", "needed"), INCOMPATIBLE, ids=str)
def test_types_that_cannot_serve(given, needed):
    assert not may_be(given, needed)


def test_numbers():
    assert [True, True, True, True, False, False] == [
        is_number(kind) for kind in (int, float | None, bool, Any, str, str | None)
    ]
