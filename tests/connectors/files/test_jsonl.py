import json
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.connectors.files.jsonl import (
    JsonParser,
    encode_jsonl,
    json_line,
    json_of_table,
    json_table,
)
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


class Mixed(NamedTuple):
    n: int
    x: float
    s: str
    b: bool | None


VALUES = [
    *(
        b"0",
        b"-0",
        b"-0.0",
        b"1",
        b"-7",
        b"01",
        b"+1",
        b"1.",
        b".5",
        b"1.5",
        b"1e3",
        b"1E-3",
    ),
    *(b"9223372036854775807", b"9223372036854775808", b"9007199254740993", b"9" * 400),
    *(b"0.1234567890123456789", b"4.9e-324", b"2.2250738585072011e-308", b"1e400"),
    *(b"1e-400", b"NaN", b"-Infinity", b"Infinity", b"Inf", b"nan", b"-0e1", b"0e0"),
    *(
        b"true",
        b"false",
        b"null",
        b"True",
        b"[]",
        b"[1]",
        b"{}",
        b"[" * 1100 + b"]" * 1100,
    ),
    *(b'""', b'"a"', b'"{"', b'"}"', b'"["', b'"-0"', b'"x: Inf"', b'"\\u0000"'),
    *(
        b'"\\ud800"',
        b'"\\ud83d\\ude00"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\x01"',
        b'"\t"',
    ),
    *(
        b'"\\/"',
        b'"\\x"',
        b'"\xe2\x82\xac"',
        b'"\x00"',
        b"'a'",
        b"1 2",
        b"",
        b'"a" "b"',
    ),
]
GOOD = {"n": b"1", "x": b"1.5", "s": b'"a"', "b": b"true"}
LINES = [
    *(b"", b" ", b"5", b"{}", b"null", b'{"n":1,"x":1,"s":"","b":null}'),
    b'{"n":1,"x":1,"s":"","b":null}{"n":2,"x":1,"s":"","b":null}',
    b'{"n":1,"x":1,"s":"","b":null} {"n":2,"x":1,"s":"","b":null}',
    b'{"n":1,"x":1,"s":"","b":null},',
    b'{"n":1,"x":1,"s":"","b":null} 5',
    b'\xef\xbb\xbf{"n":1,"x":1,"s":"","b":null}',
    b'{"n":1,"n":2,"x":1,"s":"","b":null}',
    b'{"n":1,"x":1,"s":"","z":1,"z":2}',
    b'{"\\u006e":1,"x":1,"s":"q"}\r',
    b'\r{"n":1,"x":1,"s":"q"}',
    b'{"n":1,"x":1,"s":"q"',
    b'"s":"q","n":1,"x":1}',
    *(b'{"n":1,"x":1,"s":"q","z":' + value + b"}" for value in VALUES),
    *(
        b"{"
        + b", ".join(
            b'"%s": %s' % (name.encode(), value if name == changed else given)
            for name, given in GOOD.items()
        )
        + b"}"
        for changed in GOOD
        for value in VALUES
    ),
]


def read_by_rows(lines):
    """Return what the parser of rows gives, and how many it refuses."""
    bad = []
    parser = JsonParser(Mixed, "m.jsonl")
    found = parser.parse(b"\n".join(lines) + b"\n", Position(1, 1), bad.append)
    return [repr(item) for item, _ in found], len(bad)


@pytest.mark.parametrize("between", [b"", b'{"n":2,"x":-0.5,"s":"e","b":false}'])
def test_a_table_of_json_is_what_the_parser_of_rows_gives(between):
    """To the last bit; a line that Arrow might read otherwise gives no table."""
    form = form_of(Mixed)
    tables = 0
    for line in LINES:
        lines = [between, line, between] if between else [line]
        table = json_table(b"\n".join(lines), form, len(lines))
        if table is not None:
            tables += 1
            items = [repr(Mixed(**row)) for row in table.to_pylist()]
            assert (items, 0) == read_by_rows(lines), line
    assert 30 < tables < len(LINES)


def test_lines_that_make_up_for_each_other_give_no_table():
    two = b'{"n":1,"x":1,"s":"","b":null}{"n":2,"x":1,"s":"","b":null}'

    assert json_table(two + b"\n ", form_of(Mixed), 2) is None
    assert json_table(two + b"\n\n", form_of(Mixed), 2) is None
    assert json_table(b'{"n":1,"x":1\n,"s":""}', form_of(Mixed), 2) is None


ENCODED = [
    *(1, -1, 2**70, 1.5, -0.0, 0.1, 1e300, math.inf, -math.inf, math.nan, None, True),
    *(
        "a",
        'é\u2028\x00\ud800"\\',
        [],
        {},
        [1, [2, {"a": "b"}]],
        {1: 2, None: 3, 1.5: 4},
    ),
]


@pytest.mark.parametrize("value", ENCODED, ids=repr)
def test_a_line_is_what_json_writes(value):
    expected = json.dumps(value, ensure_ascii=False) + "\n"

    assert expected == json_line(value)


class Row(NamedTuple):
    n: int
    x: float
    s: str
    b: bool


ROWS = st.builds(
    Row,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
    st.booleans(),
)


@given(st.lists(ROWS, min_size=1), st.booleans())
def test_a_table_is_written_as_its_rows_are(items, coded):
    form = form_of(Row)
    table = to_table(items, form)
    if coded:
        table = table.set_column(2, "s", table.column("s").dictionary_encode())

    lines = json_of_table(table, form, "\n")

    assert [json_line(item) for item in items] == lines.to_pylist()
    assert encode_jsonl(items) == "".join(lines.to_pylist()).encode()


class Named(NamedTuple):
    s: str


class Shouted(Named):
    @property
    def s(self) -> str:
        return self[0].upper()


class Optional(NamedTuple):
    s: str | None
    x: float | None


LEFT_TO_ROWS = {
    "a float that is no number": [math.nan, 1.0],
    "infinity": [math.inf],
    "bytes": [b"a"],
    "None": [Optional(None, 1.0)],
    "an attribute that is computed": [Shouted("a")],
}


@pytest.mark.parametrize("items", LEFT_TO_ROWS.values(), ids=LEFT_TO_ROWS)
def test_a_table_that_json_may_write_otherwise_is_left_to_the_rows(items):
    form = form_of(type(items[0]))

    assert json_of_table(to_table(items, form), form) is None


def test_a_scalar_of_a_table_is_the_whole_line():
    form = form_of(str)

    assert ['"a\\""'] == json_of_table(to_table(['a"'], form), form).to_pylist()
