"""What one of our sinks writes, our source reads back equal; or the sink refuses it."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.connectors.avro import AvroEncoder
from anabranch.connectors.kafka import KafkaMessage, KafkaSource
from anabranch.connectors.lines import LineEncoder
from anabranch.errors import (
    ArgumentError,
    GraphError,
    InputError,
    OperatorError,
    OutputError,
)
from tests import needs

FORMATS = ("csv", "jsonl", "parquet")


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Inner(NamedTuple):
    n: int
    text: str | None
    day: dt.date


@dataclass(frozen=True)
class Point:
    x: float
    tags: list[str]
    at: dt.datetime


ZONES = st.sampled_from(
    [None, dt.UTC, dt.timezone(dt.timedelta(hours=-5)), dt.timezone.max]
)
FIRST, LAST = map(dt.datetime.fromisoformat, ("1700-01-01", "2200-01-01"))
TIMES = st.datetimes(FIRST, LAST, timezones=ZONES)
INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SOME = TEXTS.filter(bool)  # in CSV an empty text of `str | None` is None
FLOATS = st.floats(allow_nan=False)
DAYS = st.dates()
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    int: INTS,
    float: FLOATS,
    bool: st.booleans(),
    str: TEXTS,
    bytes: st.binary(max_size=4),
    str | None: st.none() | SOME,
    int | None: st.none() | INTS,
    dt.datetime: TIMES,
    dt.datetime | None: st.none() | TIMES,
    dt.date: DAYS,
    dt.time: st.times(timezones=st.none() | st.just(dt.UTC)),
    dt.timedelta: st.timedeltas(dt.timedelta(-99999), dt.timedelta(99999)),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=3),
    uuid.UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Colour | None: st.none() | st.sampled_from(Colour),
    Literal["a", 7]: st.sampled_from(["a", 7]),
    int | str: INTS | TEXTS,
    Inner: st.builds(Inner, INTS, st.none() | TEXTS, DAYS),
    Point: st.builds(Point, FLOATS, st.lists(TEXTS, max_size=2), TIMES),
    list[int]: st.lists(INTS, max_size=3),
    list[Inner]: st.lists(st.builds(Inner, INTS, st.none(), DAYS), max_size=2),
    list[int | None]: st.lists(st.none() | INTS, max_size=3),
    dict[str, int]: st.dictionaries(TEXTS, INTS, max_size=2),
    dict[str, float | None]: st.dictionaries(TEXTS, st.none() | FLOATS, max_size=2),
    tuple[int, str]: st.tuples(INTS, TEXTS),
}
ROWS = st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3).flatmap(
    lambda kinds: st.tuples(
        st.just(kinds),
        st.lists(st.tuples(*(KINDS[kind] for kind in kinds)), min_size=1, max_size=4),
    )
)


def check(form, rows, folder):
    """Write rows and read them back: they must be equal, or be refused."""
    kinds, values = rows
    made = NamedTuple("Made", [(f"a{n}", kind) for n, kind in enumerate(kinds)])
    items = [made(*row) for row in values]
    path = folder / f"{uuid.uuid4().hex}.{form}"
    out = getattr(ab, f"read_{form}")(path, made).to_list()
    try:
        stream = ab.from_iterable(items, made)
        ab.run(getattr(stream, f"write_{form}")(path), on="sequential")
    except (GraphError, OperatorError, OutputError):
        return  # said in time: nothing was written
    try:
        ab.run(out, on="sequential")
    except GraphError:
        return  # said before anything runs

    assert items == out.items
    assert [tuple(map(type, one)) for one in items] == [
        tuple(map(type, one)) for one in out.items
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_values_come_back(tmp_path_factory, form):
    folder = tmp_path_factory.mktemp(form)

    @settings(max_examples=60, derandomize=True)
    @given(ROWS)
    def test(rows):
        check(form, rows, folder)

    test()


@pytest.mark.long
@pytest.mark.parametrize("form", FORMATS)
def test_many_values_come_back(tmp_path_factory, form):
    """More than 5,000 values; a file takes some milliseconds, so each has several."""
    folder = tmp_path_factory.mktemp(form)

    @settings(max_examples=1100)
    @given(ROWS)
    def test(rows):
        check(form, rows, folder)

    test()


def check_message(form, rows):
    """Make messages of rows and read them: they must be equal, or be refused."""
    kinds, values = rows
    made = NamedTuple("Made", [(f"a{n}", kind) for n, kind in enumerate(kinds)])
    items = [made(*row) for row in values]
    source = KafkaSource("localhost:9092", "topic", made, form)
    try:
        ab.compile(ab.read(source, made).to_list())
        encoder: Any = LineEncoder(form, made)
        if form == "avro":
            encoder = AvroEncoder(made, None, None, "topic")
    except (ArgumentError, GraphError):
        return  # said before anything is sent
    lines, refused = encoder.encode_all(items)
    kept = [item for item, _ in lines]
    messages = [
        KafkaMessage(line, None, (), None, "topic", 0, offset)
        for offset, (_, line) in enumerate(lines)
    ]

    found = source.decode(messages)

    assert kept == list(found)
    assert [tuple(map(type, one)) for one in kept] == [
        tuple(map(type, one)) for one in found
    ]
    assert len(items) == len(kept) + len(refused)


@pytest.mark.parametrize("form", ["csv", "jsonl", "avro"])
def test_values_of_messages_come_back(form):
    @settings(max_examples=needs.count_examples(60, 2000), deadline=None)
    @given(ROWS)
    def test(rows):
        check_message(form, rows)

    test()


NAIVE = dt.datetime.fromisoformat("2026-01-01T05:00:00")
MIXED = {
    "a zone and none": [
        NAIVE,
        NAIVE.replace(tzinfo=dt.UTC),
    ],
    "a zone in a time": [dt.time(1, tzinfo=dt.UTC)],
    "dates and datetimes": [dt.date(2026, 1, 1), NAIVE],
    "texts and bytes": ["a", b"a"],
    "ints and floats": [1, 2.5],
    "other keys": [{"a": 1}, {"b": 2}],
    "other keys inside": [[{"a": 1}], [{"b": 2}]],
}


@pytest.mark.parametrize("values", MIXED.values(), ids=MIXED)
def test_parquet_does_not_make_one_of_several_kinds(tmp_path, values):
    path = tmp_path / "out.parquet"

    with pytest.raises(OutputError, match=r"must be of one type|must all have a zone"):
        ab.run(ab.from_iterable(values).write_parquet(path), on="sequential")

    assert not path.exists()


def test_kinds_are_not_mixed_by_later_rows(tmp_path):
    values = [NAIVE] * 8192 + [NAIVE.replace(tzinfo=dt.UTC)] * 8192

    with pytest.raises(OutputError, match="those before are timestamp"):
        ab.run(
            ab.from_iterable(values).write_parquet(tmp_path / "out.parquet"),
            on="sequential",
        )


TEXT_TYPES = {
    "one": (Colour, "b", "must be one of r, g; got 'b'"),
    "number": (Decimal, "1_0", "must be a decimal number"),
    "length": (dt.timedelta, "P", "must be a duration in ISO format"),
    "date": (dt.date, "1.2.2026", "must be a date in ISO format"),
}


@pytest.mark.parametrize(("kind", "text", "why"), TEXT_TYPES.values(), ids=TEXT_TYPES)
def test_a_field_that_is_no_value_is_told(tmp_path, kind, text, why):
    path = tmp_path / "in.csv"
    path.write_text(f"value\n{text}\n")
    made = NamedTuple("Made", [("value", kind)])  # noqa: UP014

    with pytest.raises(InputError, match=why):
        ab.run(ab.read_csv(path, made).to_list(), on="sequential")
