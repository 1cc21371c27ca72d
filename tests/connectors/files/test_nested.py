"""Values inside of values are of their types, from JSON lines and from Parquet."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.connectors.files.nested import Misfit, converter
from anabranch.connectors.files.parquet import arrow_types, table_of
from anabranch.errors import GraphError, InputError
from anabranch.graph.shapes import shape_of

UUID = uuid.UUID(int=7)


class In(NamedTuple):
    a: int
    b: float


@dataclass(frozen=True, kw_only=True)
class Home:
    city: str
    inside: In | None = None
    size: int = field(init=False, default=3)


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Named(TypedDict, total=False):
    n: int
    when: dt.date


class Node(NamedTuple):
    value: int
    rest: Node | None


Count = NewType("Count", int)

JSON = {
    "records in a list": (list[In], [{"a": 1, "b": 2, "c": 0}], [In(1, 2.0)]),
    "decimals in a dict": (
        dict[str, Decimal],
        {"x": "1.10", "y": 2},
        {"x": Decimal("1.10"), "y": Decimal(2)},
    ),
    "floats in a list": (list[float], [1, 2.5], [1.0, 2.5]),
    "any number of values": (tuple[int, ...], [1, 2], (1, 2)),
    "a tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "a set": (set[int], [1, 1, 2], {1, 2}),
    "a frozenset of strings": (frozenset[str], ["a"], frozenset({"a"})),
    "keys that are ints": (dict[int, list[In]], {"7": []}, {7: []}),
    "keys that are members": (dict[Side, int], {"buy": 1}, {Side.BUY: 1}),
    "dates and times in a list": (
        list[dt.datetime],
        ["2026-01-31T12:00:00+01:00"],
        [dt.datetime.fromisoformat("2026-01-31T12:00:00+01:00")],
    ),
    "a date": (dt.date, "2026-01-31", dt.date(2026, 1, 31)),
    "a time": (dt.time, "12:30", dt.time(12, 30)),
    "a UUID": (uuid.UUID, str(UUID), UUID),
    "a member": (Side, "sell", Side.SELL),
    "several flags": (Rights, 3, Rights.READ | Rights.WRITE),
    "a literal": (Literal["a", 1], 1, 1),
    "a union": (int | str | None, "x", "x"),
    "a union of numbers": (int | float, 1, 1),
    "a union with a list": (list[In] | int, [{"a": 1, "b": 1}], [In(1, 1.0)]),
    "a dataclass": (
        Home,
        {"city": "Rome", "inside": {"a": 1, "b": 1}},
        Home(city="Rome", inside=In(1, 1.0)),
    ),
    "a member that is missing": (Home, {"city": "Rome"}, Home(city="Rome")),
    "a TypedDict": (Named, {"when": "2026-01-31"}, {"when": dt.date(2026, 1, 31)}),
    "a type that contains itself": (
        Node,
        {"value": 1, "rest": {"value": 2, "rest": None}},
        Node(1, Node(2, None)),
    ),
    "a type with another name": (Annotated[Count, "of items"], 4, 4),
    "anything in a list": (list[Any], [{"a": [1]}], [{"a": [1]}]),
    "bytes in a list": (list[bytes], ["a"], [b"a"]),
}


@pytest.mark.parametrize(("kind", "data", "expected"), JSON.values(), ids=JSON)
def test_what_json_becomes(kind, data, expected):
    found = converter(shape_of(kind))(data)

    assert repr(expected) == repr(found)
    assert expected == found


MISFITS = {
    "a string in a list of ints": (
        list[int],
        [1, "x"],
        "[1] must be an int of 64 bits",
    ),
    "true is no int": (dict[str, int], {"a": True}, "['a'] must be an int of 64 bits"),
    "an int beyond 64 bits": (list[int], [2**63], "[0] must be an int of 64 bits"),
    "null inside": (list[In], [None], "[0] must be an object with the members a, b"),
    "deep inside": (
        list[Home],
        [{"city": "Rome", "inside": {"a": "x", "b": 1}}],
        "[0].inside.a must be an int of 64 bits; got 'x'",
    ),
    "a member that must be there": (In, {"a": 1}, " must have the member 'b'"),
    "too few": (tuple[int, str], [1], " must be tuple[int, str]; got [1]"),
    "no such member": (Side, "hold", " must be one of 'buy', 'sell'; got 'hold'"),
    "no such literal": (Literal[1], True, " must be one of 1; got True"),
    "no date": (dt.date, "31.1.2026", " must be a date in ISO format"),
    "no decimal": (Decimal, "1_0", " must be a decimal number; got '1_0'"),
    "a key that is no int": (dict[int, int], {"a": 1}, "['a'] must be an int of 64"),
    "none of a union": (int | str, [], " must be int | str; got []"),
    "what cannot be in a set": (set[Any], [[]], " must be made of values that can be"),
}


@pytest.mark.parametrize(("kind", "data", "text"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_is_refused_with_its_place(kind, data, text):
    with pytest.raises(Misfit) as caught:
        converter(shape_of(kind))(data)

    misfit = caught.value
    assert f"{misfit.path} must {misfit.must}".startswith(text)


class Prices(NamedTuple):
    name: str
    prices: list[Decimal]
    rates: list[float]
    other: Any


def test_a_decimal_is_what_was_written_and_a_float_stays_a_float(tmp_path):
    line = '{"name": "a", "prices": [0.10], "rates": [0.10], "other": {"x": 0.5}}'
    (tmp_path / "p.jsonl").write_text(line + "\n")
    out = ab.read_jsonl(str(tmp_path / "p.jsonl"), Prices).to_list()

    ab.run(out, on="sequential")

    expected = Prices("a", [Decimal("0.10")], [0.1], {"x": 0.5})
    assert repr([expected]) == repr(out.items)


class Alike(NamedTuple):
    either: In | Home


class Odd(NamedTuple):
    values: list[complex]


class ByRecord(NamedTuple):
    table: dict[In, int]


NOT_JSON = {
    "members that look alike": (Alike, "In and Home cannot be told apart in JSON"),
    "a type of which nothing is known": (Odd, "nothing in JSON is a complex"),
    "keys that are records": (ByRecord, "a key in JSON is a string, and no In"),
}


@pytest.mark.parametrize(("kind", "why"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_type_that_json_cannot_give_is_refused_before_anything_runs(kind, why):
    with pytest.raises(GraphError, match=why):
        ab.compile(ab.read_jsonl("nowhere.jsonl", kind).to_list())


STRUCT = pa.struct([("a", pa.int32()), ("b", pa.float32()), ("c", pa.string())])
ARROW = {
    "records in a list": (
        list[In],
        pa.list_(STRUCT),
        [{"a": 1, "b": 2.0, "c": ""}],
        [In(1, 2.0)],
    ),
    "a map": (
        dict[str, float],
        pa.map_(pa.string(), pa.int64()),
        [("x", 1)],
        {"x": 1.0},
    ),
    "a dictionary that is nothing else": (
        dict,
        pa.map_(pa.string(), pa.int64()),
        [("x", 1)],
        {"x": 1},
    ),
    "a struct as a dict": (
        dict[str, int],
        pa.struct([("x", pa.int64())]),
        {"x": 1},
        {"x": 1},
    ),
    "a struct as a tuple": (
        tuple[int, str],
        pa.struct([("_1", pa.int64()), ("_2", pa.string())]),
        {"_1": 1, "_2": "a"},
        (1, "a"),
    ),
    "a record or nothing": (In | None, STRUCT, None, None),
    "a dataclass": (
        Home,
        pa.struct([("city", pa.string())]),
        {"city": "Rome"},
        Home(city="Rome"),
    ),
    "a set": (frozenset[int], pa.list_(pa.int64()), [1, 1], frozenset({1})),
    "a member": (Side, pa.string(), "buy", Side.BUY),
    "a member in a dictionary of strings": (
        Side,
        pa.dictionary(pa.int32(), pa.string()),
        "buy",
        Side.BUY,
    ),
    "a UUID in bytes": (uuid.UUID, pa.binary(16), UUID.bytes, UUID),
    "a decimal": (Decimal, pa.decimal128(5, 2), Decimal("1.50"), Decimal("1.50")),
    "times in a list": (
        list[dt.datetime],
        pa.list_(pa.timestamp("us")),
        [dt.datetime(2026, 1, 31)],  # noqa: DTZ001 - Arrow has such
        [dt.datetime(2026, 1, 31)],  # noqa: DTZ001
    ),
    "a span of time": (
        dt.timedelta,
        pa.duration("us"),
        dt.timedelta(1),
        dt.timedelta(1),
    ),
    "a union": (int | str, pa.string(), "x", "x"),
}


def read_parquet(folder, annotation, held, value):
    kind = make_dataclass("Column", [("v", annotation)], frozen=True)
    path = folder / "v.parquet"
    pq.write_table(pa.table({"v": pa.array([value], held)}), path)
    out = ab.read_parquet(str(path), kind).to_list()
    ab.run(out, on="sequential")
    (item,) = out.items
    return item.v


@pytest.mark.parametrize(
    ("annotation", "held", "value", "expected"), ARROW.values(), ids=ARROW
)
def test_what_parquet_becomes(tmp_path, annotation, held, value, expected):
    found = read_parquet(tmp_path, annotation, held, value)

    assert repr(expected) == repr(found)
    assert expected == found


NOT_ARROW = {
    "a struct that lacks an attribute": (
        In,
        pa.struct([("a", pa.int64())]),
        {"a": 1},
        "'v' must hold In; it holds struct<a: int64>",
    ),
    "a list for a dict": (dict[str, int], pa.list_(pa.int64()), [1], "it holds list"),
    "strings for ints": (list[int], pa.list_(pa.string()), ["1"], "it holds list"),
    "numbers for a date": (dt.date, pa.int64(), 1, "must hold date; it holds int64"),
    "null inside": (list[int], pa.list_(pa.int64()), [None], r"v\[0\]' must be int"),
    "a member that is none": (Side, pa.string(), "hold", "must be one of 'buy'"),
}


@pytest.mark.parametrize(
    ("annotation", "held", "value", "text"), NOT_ARROW.values(), ids=NOT_ARROW
)
def test_what_parquet_cannot_give_is_refused(tmp_path, annotation, held, value, text):
    with pytest.raises(InputError, match=text):
        read_parquet(tmp_path, annotation, held, value)


def test_a_field_that_the_constructor_does_not_take_needs_no_column(tmp_path):
    (tmp_path / "home.jsonl").write_text(json.dumps({"city": "Rome"}) + "\n")
    out = ab.read_jsonl(str(tmp_path / "home.jsonl"), Home).to_list()

    ab.run(out, on="sequential")

    assert [Home(city="Rome")] == out.items


def test_records_in_a_tuple_without_a_type_stay_records_in_parquet():
    table = table_of([((In(1, 2.5),),)], None, {})

    assert [[{"a": 1, "b": 2.5}]] == table.column(0).to_pylist()


def test_a_number_of_either_kind_is_a_column_of_floats_whichever_part_has_it():
    kind = make_dataclass("Reading", [("value", int | float | None)], frozen=True)
    kinds = [table_of([kind(v)], None, arrow_types(kind)) for v in (1, 2.5, None)]

    assert ["double"] * 3 == [str(one.schema.types[0]) for one in kinds]
