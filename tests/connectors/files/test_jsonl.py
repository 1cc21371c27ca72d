from typing import Any, NamedTuple

import pytest

from anabranch.connectors.files.jsonl import JsonParser
from anabranch.connectors.files.rows import Position
from anabranch.errors import InputError


class Trade(NamedTuple):
    symbol: str
    price: float
    volume: int


class Loose(NamedTuple):
    note: str | None
    tags: list[str]
    extra: Any
    raw: bytes


def parsed(kind, data):
    """Return the numbered items of some lines, and the bad lines among them."""
    bad = []
    parser = JsonParser(kind, "f.jsonl")
    return list(parser.parse(data, Position(1, 1), bad.append)), bad


ACCEPTED = {
    "members are matched by name, others are left out": (
        Trade,
        b'{"volume": 3, "x": [], "price": 1.5, "symbol": "A"}\n',
        [Trade("A", 1.5, 3)],
    ),
    "lines of nothing are skipped": (int, b"\n1\r\n\n2", [1, 2]),
    "null and a missing member are None where that may be": (
        Loose,
        (
            b'{"note": null, "tags": ["a"], "extra": {"b": 1}, "raw": "c"}\n'
            b'{"tags": [], "extra": null, "raw": ""}\n'
        ),
        [Loose(None, ["a"], {"b": 1}, b"c"), Loose(None, [], None, b"")],
    ),
    "a scalar is the whole line": (str, b'"a"\n', ["a"]),
    "true is a bool": (bool, b"true\nfalse\n", [True, False]),
}


@pytest.mark.parametrize(
    ("kind", "data", "items"), ACCEPTED.values(), ids=ACCEPTED.keys()
)
def test_lines_that_are_read(kind, data, items):
    numbered, bad = parsed(kind, data)

    assert [] == bad
    assert items == [item for item, _ in numbered]


def test_an_int_becomes_a_float_where_one_is_needed():
    ((item, _),), _ = parsed(float, b"3\n")

    assert (3.0, float) == (item, type(item))


REFUSED = {
    "what is not JSON": (int, b"{1\n", "must be JSON; Expecting property name"),
    "text that is not UTF-8": (str, b'"\xe9"\n', "must be JSON; 'utf-8' codec"),
    "a value where an object must be": (
        Trade,
        b"3\n",
        "must be an object with the members symbol, price, volume; got 3",
    ),
    "a missing member": (
        Trade,
        b'{"symbol": "A", "price": 1, "vol": 2}\n',
        (
            "must have the member 'volume'; it is missing; did you mean 'vol'? "
            "The members are symbol, price, vol"
        ),
    ),
    "a string for an int": (
        Trade,
        b'{"symbol": "A", "price": 1, "volume": "2"}\n',
        "'volume' must be an int of 64 bits; got '2'",
    ),
    "a fraction for an int": (
        int,
        b"2.0\n",
        "'value' must be an int of 64 bits; got 2.0",
    ),
    "a bool for an int": (
        int,
        b"true\n",
        "'value' must be an int of 64 bits; got True",
    ),
    "a bool for a float": (float, b"true\n", "'value' must be a number; got True"),
    "null where a value must be": (
        str,
        b"null\n",
        "'value' must be a string; got None",
    ),
    "an int beyond 64 bits": (
        int,
        b"9223372036854775808\n",
        "'value' must be an int of 64 bits; got 9223372036854775808",
    ),
}


@pytest.mark.parametrize(("kind", "data", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_lines_that_are_refused(kind, data, text):
    numbered, (bad,) = parsed(kind, data)

    assert [] == numbered
    assert Position(1, 1) == bad.at
    assert bad.text.startswith(text)


def test_nothing_is_lost_around_bad_lines():
    numbered, bad = parsed(int, b"1\n\nx\n3\n{}\n")

    assert [(1, 1), (3, 3)] == numbered
    assert [(2, 3), (4, 5)] == [tuple(b.at) for b in bad]


def test_an_attribute_that_json_cannot_give_is_refused():
    class Odd(NamedTuple):
        values: set[complex]

    with pytest.raises(InputError, match="attribute 'values' must be"):
        JsonParser(Odd, "f.jsonl")
