"""The functions that workers call give the bytes that a writer gives."""

import io
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors.files.csv import CsvParser, encode_csv
from anabranch.connectors.files.jsonl import JsonParser, encode_jsonl
from anabranch.connectors.files.parquet import arrow_types, table_of
from anabranch.connectors.files.rows import Position
from anabranch.connectors.files.writer import open_writer
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteFiles
from tests import needs


class Record(NamedTuple):
    text: str
    number: float
    count: int | None
    good: bool
    raw: bytes


NAMES = Record._fields
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
RECORDS = st.lists(
    st.builds(
        Record,
        TEXT,
        st.floats(allow_nan=False),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        TEXT.map(str.encode),
    ),
    max_size=5,
)


@settings(max_examples=needs.count_examples(50, 150), deadline=None)
@given(records=RECORDS)
def test_csv_reads_back_as_it_was(records):
    """
    Whatever the text holds: quotes, newlines, carriage returns, nothing.
    """
    data = encode_csv(records, NAMES, header=False)

    parser = CsvParser(Record, NAMES, ",", "f.csv")
    back = [item for item, _ in parser.parse(data, Position(1, 1), print)]
    assert records == back
    assert list(map(repr, records)) == list(map(repr, back))


@settings(max_examples=needs.count_examples(30, 100), deadline=None)
@given(records=RECORDS)
def test_jsonl_reads_back_as_it_was(records):
    parser = JsonParser(Record, "f.jsonl")

    numbered = parser.parse(encode_jsonl(records), Position(1, 1), print)
    assert records == [item for item, _ in numbered]


def test_parquet_reads_back_as_it_was():
    records = [Record("a", 1.5, None, True, b"b"), Record("c", 2.0, 3, False, b"")]
    buffer = io.BytesIO()

    pq.write_table(table_of(records, NAMES, arrow_types(Record)), buffer)

    rows = pq.read_table(buffer).to_pylist()
    assert [record._asdict() for record in records] == rows


@settings(max_examples=needs.count_examples(20, 50), deadline=None)
@given(records=RECORDS)
def test_parts_are_the_bytes_of_a_writer(tmp_path_factory, records):
    """
    Parts that are encoded apart, the first with the header, are the one file.
    """
    path = tmp_path_factory.mktemp("parts") / "out.csv"
    writer = open_writer(Op("sink", WriteFiles(str(path), "csv")), Record)
    for record in records:
        writer.write(record)
    writer.commit()

    parts = [
        encode_csv(records[:2], NAMES, header=True),
        encode_csv(records[2:], NAMES, header=False),
    ]
    assert path.read_bytes() == b"".join(parts)


def test_the_first_item_gives_the_columns_where_nothing_else_does():
    assert b"value_1\n1\n" == encode_csv([(1,)], None, header=True)
    assert b"" == encode_csv([], None, header=True)
    assert b"a,b\n" == encode_csv([], ("a", "b"), header=True)


def test_items_that_are_not_alike_are_refused():
    with pytest.raises(OutputError, match="the same attributes"):
        encode_csv([(1, 2), 3], None, header=True)
