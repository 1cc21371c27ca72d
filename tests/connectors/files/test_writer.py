import datetime as dt
import enum
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from anabranch.connectors.files.csv import encode_csv
from anabranch.connectors.files.jsonl import encode_jsonl
from anabranch.connectors.files.writer import open_writer
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteFiles


class Trade(NamedTuple):
    symbol: str
    price: float | None
    good: bool


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


HALF = Trade("ä\ud800", 0.1, True)
TRADES = [Trade('a,"b"\n', 0.1, True), Trade("", None, False)]


def writer_of(path, form, kind=None):
    return open_writer(Op("sink", WriteFiles(str(path), form)), kind)


def written(path, form, items, kind=None):
    """Write items and return what stands in the file."""
    writer = writer_of(path, form, kind)
    for item in items:
        writer.write(item)
    writer.commit()
    return path.read_bytes()


CSV = {
    "attributes are the header, fields are quoted where they must be": (
        TRADES,
        b'symbol,price,good\n"a,""b""\n",0.1,true\n,,false\n',
    ),
    "a dataclass has its fields": ([Point(1, 2)], b"x,y\n1,2\n"),
    "a scalar is a value": ([1.5, 2], b"value\n1.5\n2\n"),
    "a tuple has numbered values": ([(1, "a")], b"value_1,value_2\n1,a\n"),
    "floats read back as they are": (
        [0.1 + 0.2, 1e300],
        b"value\n0.30000000000000004\n1e+300\n",
    ),
    "bytes are their text": (["é".encode()], "value\né\n".encode()),
    "dates, enums and NumPy numbers are plain": (
        [(dt.date(2026, 1, 31), Colour.RED, np.float64(0.5), np.int64(3))],
        b"value_1,value_2,value_3,value_4\n2026-01-31,red,0.5,3\n",
    ),
    "a row of nothing is not a blank line": ([None, ""], b'value\n""\n""\n'),
    "a carriage return is quoted": (["a\r", "b"], b'value\n"a\r"\nb\n'),
}


@pytest.mark.parametrize(("items", "data"), CSV.values(), ids=CSV.keys())
def test_csv(tmp_path, items, data):
    assert data == written(tmp_path / "out.csv", "csv", items)


JSONL = {
    "attributes are members": (
        TRADES,
        (
            b'{"symbol": "a,\\"b\\"\\n", "price": 0.1, "good": true}\n'
            b'{"symbol": "", "price": null, "good": false}\n'
        ),
    ),
    "a scalar is the line, a tuple a list": ([1, ("a", b"b")], b'1\n["a", "b"]\n'),
    "tuples and dataclasses inside are objects": (
        [(Point(1, 2), [TRADES[1]], {"n": np.int64(3)})],
        b'[{"x": 1, "y": 2}, [{"symbol": "", "price": null, "good": false}], {"n": 3}]\n',
    ),
    "text stays readable": (["数"], '"数"\n'.encode()),
}


@pytest.mark.parametrize(("items", "data"), JSONL.values(), ids=JSONL.keys())
def test_jsonl(tmp_path, items, data):
    assert data == written(tmp_path / "out.jsonl", "jsonl", items)


def test_parquet_has_columns_of_the_annotated_types(tmp_path):
    """
    None is a null, and an int in a float column a float.
    """
    path = tmp_path / "out.parquet"
    written(path, "parquet", [Trade("a", 1, True), Trade("b", None, False)], Trade)

    table = pq.read_table(path)
    assert ["string", "double", "bool"] == [str(t) for t in table.schema.types]
    assert [["a", "b"], [1.0, None], [True, False]] == [c.to_pylist() for c in table]


def test_parquet_without_annotations_takes_the_types_of_the_values(tmp_path):
    path = tmp_path / "out.parquet"
    written(path, "parquet", [(1, "a"), (2, "b")])

    assert {"value_1": [1, 2], "value_2": ["a", "b"]} == pq.read_table(path).to_pydict()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_many_items_keep_their_order(tmp_path, form, reader_back):
    """
    More items than are held at once.
    """
    path = tmp_path / f"out.{form}"
    written(path, form, range(20_000), int)

    assert list(range(20_000)) == reader_back(path, form, int)


EMPTY = {
    "a header, where the type is known": ("csv", Trade, b"symbol,price,good\n"),
    "nothing, where it is not": ("csv", None, b""),
    "no lines": ("jsonl", Trade, b""),
}


@pytest.mark.parametrize(("form", "kind", "data"), EMPTY.values(), ids=EMPTY.keys())
def test_no_items_are_a_valid_output(tmp_path, form, kind, data):
    assert data == written(tmp_path / f"out.{form}", form, [], kind)


def test_no_items_are_a_valid_parquet_file(tmp_path):
    written(tmp_path / "out.parquet", "parquet", [], Trade)

    table = pq.read_table(tmp_path / "out.parquet")
    assert (["symbol", "price", "good"], 0) == (table.column_names, table.num_rows)


def test_a_directory_holds_parts_and_a_mark_of_success(tmp_path):
    writer = writer_of(tmp_path / "out", "csv")
    writer.write(1)
    writer.commit()

    files = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert ["_SUCCESS", "part-00000.csv"] == files
    assert b"value\n1\n" == (tmp_path / "out" / "part-00000.csv").read_bytes()


@pytest.mark.parametrize("name", ["out.csv", "out", "deep/er/out.csv"])
def test_nothing_is_visible_before_the_end(tmp_path, name):
    """
    A run that breaks off leaves no file that could be taken for a result.
    """
    writer = writer_of(tmp_path / name, "csv")
    for n in range(20_000):
        writer.write(n)

    assert not (tmp_path / name).exists()
    writer.abort()
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["out.csv", "out"])
def test_what_is_there_is_never_written_over(tmp_path, name):
    occupied = tmp_path / name
    if name == "out":
        occupied.mkdir()
        occupied = occupied / "precious"
    occupied.write_text("precious")

    with pytest.raises(OutputError, match="remove it, write to another path"):
        writer_of(tmp_path / name, "csv")
    assert "precious" == occupied.read_text()


def test_what_appears_while_running_is_not_written_over_either(tmp_path):
    writer = writer_of(tmp_path / "out.csv", "csv")
    writer.write(1)
    (tmp_path / "out.csv").write_text("precious")

    with pytest.raises(OutputError, match="must not exist yet"):
        writer.commit()
    assert ["out.csv"] == [path.name for path in tmp_path.iterdir()]
    assert "precious" == (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize("name", ["out.csv", "out"])
def test_an_empty_place_may_be_used(tmp_path, name):
    if name == "out":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).touch()
    writer = writer_of(tmp_path / name, "csv")
    writer.write(1)

    writer.commit()

    files = [path for path in tmp_path.rglob("*.csv") if path.is_file()]
    assert [b"value\n1\n"] == [path.read_bytes() for path in files]


MISFITS = {
    "other attributes than the header": (
        "csv",
        Trade,
        Point(1, 2),
        "the same attributes",
    ),
    "a tuple of another length": ("csv", None, (1, 2, 3), "the same attributes"),
    "a list in a CSV column": ("csv", None, ([1], 2), "must be a scalar"),
    "bytes that are no text": ("csv", None, (b"\xff", 1), "must be text in UTF-8"),
    "what JSON has no form for": ("jsonl", None, object(), "to be written as JSON"),
    "a word in a column of numbers": ("parquet", Point, Point("a", 2), "must be int64"),
    "half a surrogate pair in CSV": ("csv", Trade, HALF, "'symbol' must be text that"),
    "half a surrogate pair in Parquet": (
        "parquet",
        Trade,
        HALF,
        "'symbol' must be text that UTF-8 can hold",
    ),
    "such a text in a column of unknown type": (
        "parquet",
        None,
        (5, "\udc80"),
        "'value_2' must be text that UTF-8 can hold",
    ),
    "an int beyond 64 bits": ("parquet", Point, Point(2**63, 2), "must be int64"),
}


@pytest.mark.parametrize(
    ("form", "kind", "misfit", "text"), MISFITS.values(), ids=MISFITS.keys()
)
def test_an_item_that_does_not_fit_is_refused_alone(tmp_path, form, kind, misfit, text):
    """
    The items around it are written.
    """
    good = {Trade: TRADES[1], Point: Point(3, 4), None: (5, 6)}[kind]
    path = tmp_path / f"out.{form}"
    writer = writer_of(path, form, kind)
    writer.write(good)

    with pytest.raises(OutputError, match=text):
        writer.write(misfit)
    writer.write(good)
    writer.commit()

    clean = written(tmp_path / f"clean.{form}", form, [good, good], kind)
    assert clean == path.read_bytes()


def test_items_that_were_accepted_are_not_lost_without_a_word(tmp_path):
    """
    Columns without a known type are only checked as a whole, when they are written.
    Whoever passes over that error meets it again at the end.
    """
    writer = writer_of(tmp_path / "out.parquet", "parquet")
    writer.write((1,))
    writer.write(("a",))

    with pytest.raises(OutputError, match="'value_1' must be of one type"):
        writer.commit()
    assert [] == list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(OutputError, match=r"out\.csv must be writable"):
        writer_of(tmp_path / "file" / "out.csv", "csv")


MANY = {
    "tuples": ("csv", [Trade("a", 0.5, True), Trade("b", None, False)] * 5000),
    "numbers in tuples": ("csv", [("a", 0.5), ("b", 1.0)] * 5000),
    "scalars": ("csv", list(range(9000))),
    "dataclasses": ("csv", [Point(1, 2), Point(3, 4)] * 5000),
    "texts that need quotes": ("csv", [(1, 'a,"b"'), (2, "c\r"), (3, "")] * 3000),
    "numbers of all sizes": ("csv", [(2**80, 1e300), (1, 0.0), (-1, 1e-9)] * 3000),
    "JSON": ("jsonl", [{"a": 1}, [2]] * 5000),
    "Parquet": ("parquet", [Point(1, 2), Point(3, 4)] * 5000),
}


@pytest.mark.parametrize(("form", "items"), MANY.values(), ids=MANY)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_items_are_written_at_once_as_the_encoders_say(tmp_path, form, items, size):
    path = tmp_path / f"t.{form}"
    writer = writer_of(path, form)
    for start in range(0, len(items), size):
        assert writer.write_all(items[start : start + size])
    writer.commit()

    match form:
        case "csv":
            assert encode_csv(items, None, header=True) == path.read_bytes()
        case "jsonl":
            assert encode_jsonl(items) == path.read_bytes()
        case _:
            assert [vars(item) for item in items] == pq.read_table(path).to_pylist()


MISFITS = {
    "another type": [Point(1, 2), Trade("a", 1.0, True)],
    "no scalar": [Point(1, 2), Point(1, [2])],
    "a tuple of another length": [(1, 2), (1, 2, 3)],
}


@pytest.mark.parametrize("items", MISFITS.values(), ids=MISFITS)
def test_where_one_item_does_not_fit_none_is_written_at_once(tmp_path, items):
    writer = writer_of(tmp_path / "t.csv", "csv")
    good = items[:1]
    assert writer.write_all(good)

    assert not writer.write_all(items)

    with pytest.raises(OutputError):
        writer.write(items[1])
    writer.commit()
    assert 2 == len((tmp_path / "t.csv").read_text().splitlines())


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_text_without_a_form_in_utf8_is_found_among_many(tmp_path, form):
    writer = writer_of(tmp_path / f"out.{form}", form, Trade)
    writer.write(TRADES[0])

    assert not writer.write_all([TRADES[0], HALF, TRADES[1]])
    assert writer.write_all([Trade("äöü", None, True), Trade("é", 1.5, False)])

    writer.commit()


def test_json_keeps_half_a_surrogate_pair(tmp_path):
    """
    Escaped, as it stood in the file that it was read from; other letters stay.
    """
    texts = ["ä", "\ud800", "\udfff!"]

    found = written(tmp_path / "out.jsonl", "jsonl", texts)

    assert '"ä"\n"\\ud800"\n"\\udfff!"\n'.encode() == found == encode_jsonl(texts)
    assert texts == list(map(json.loads, found.splitlines()))


NOON = dt.datetime(2026, 1, 1, 12)  # noqa: DTZ001 - one without a zone
DRIFTS = {
    "floats among ints": ([1, 2], [3.0]),
    "other members of a dict": ([{"a": 1}], [{"b": 2}]),
    "datetimes with a zone among others": ([NOON], [NOON.replace(tzinfo=dt.UTC)]),
    "ints among floats": ([1.5], [3]),
    "lists of floats among lists of ints": ([[1]], [[2.0]]),
}


@pytest.mark.parametrize(("before", "after"), DRIFTS.values(), ids=DRIFTS)
def test_a_later_row_group_of_other_types_is_refused_and_not_bent(
    tmp_path, monkeypatch, before, after
):
    monkeypatch.setattr("anabranch.connectors.files.writer._HELD_ITEMS", 1)
    writer = writer_of(tmp_path / "out.parquet", "parquet")
    for value in before:
        writer.write((value, 1))

    with pytest.raises(OutputError, match=r"'value_1' must be of one type|data loss"):
        writer.write((after[0], 1))

    writer.abort()


SAME = {
    "text after nothing": [None, "a"],
    "something in a list after nothing": [[None], [], ["a"]],
    "a UUID after nothing": [None, uuid.UUID(int=1)],
    "something in a dict after nothing": [{"a": None}, {"a": [None]}, {"a": [1]}],
    "nothing later on": ["a", None],
    "an empty list": [[1], []],
    "a coarser decimal": [Decimal("1.55"), Decimal("1.5")],
    "a finer decimal": [Decimal("1.5"), Decimal("1.55")],
    "another zone": [
        NOON.replace(tzinfo=dt.UTC),
        NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
    ],
}


@pytest.mark.parametrize("values", SAME.values(), ids=SAME)
def test_a_later_row_group_may_differ_where_its_values_stay(
    tmp_path, monkeypatch, values
):
    monkeypatch.setattr("anabranch.connectors.files.writer._HELD_ITEMS", 1)
    path = tmp_path / "out.parquet"

    written(path, "parquet", [(value,) for value in values])

    assert values == pq.read_table(path).column("value_1").to_pylist()


def test_datetimes_with_and_without_a_zone_in_one_row_group_are_refused(tmp_path):
    writer = writer_of(tmp_path / "out.parquet", "parquet")
    writer.write((NOON,))
    writer.write((NOON.replace(tzinfo=dt.UTC),))

    with pytest.raises(OutputError, match="'value_1' must all have a zone, or none"):
        writer.commit()


@pytest.mark.parametrize("value", [dt.timedelta.max, 2**70], ids=["timedelta", "int"])
def test_a_value_beyond_64_bits_is_not_said_to_be_of_another_type(tmp_path, value):
    items = [(type(value)(1),), (value,)]
    with pytest.raises(OutputError, match=r"'value_1' must fit Parquet; .* too large"):
        written(tmp_path / "out.parquet", "parquet", items, None)
