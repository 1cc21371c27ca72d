"""Arrow writes CSV exactly as the row encoder does, or leaves it to it."""

import subprocess
import sys
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.files import csv as csv_format
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.connectors.files.csv import (
    cells,
    csv_of_rows,
    csv_of_table,
    encode_csv,
    encode_rows,
)


class Row(NamedTuple):
    n: int
    x: float
    s: str


int64 = st.integers(-(2**63), 2**63 - 1)
plain = st.text(st.characters(codec="utf-8", exclude_characters='",\r\n'))


@given(st.lists(st.builds(Row, int64, st.floats(), plain), min_size=1))
def test_arrow_writes_what_the_row_encoder_writes(items):
    fast = csv_of_table(to_table(items, form_of(Row)))

    assert encode_csv(items, Row._fields, header=False) == fast


EDGES = [
    0.0,
    -0.0,
    1.0,
    1e-4,
    9.999e-5,
    1e9,
    1e10,
    99999999999.5,
    1e15,
    1e16,
    1e22,
    5e-324,
    1e300,
    123456789.0,
]


@pytest.mark.parametrize("value", [*EDGES, *(-x for x in EDGES)])
def test_floats_at_the_edges_of_notations_are_written_as_python_does(value):
    items = [Row(1, value, "a"), Row(2, 0.5, "b")]

    fast = csv_of_table(to_table(items, form_of(Row)))

    assert encode_csv(items, Row._fields, header=False) == fast


@pytest.mark.parametrize("text", ["a,b", 'a"b', "a\nb", "a\rb"])
def test_what_needs_quotes_is_left_to_the_row_encoder(text):
    assert csv_of_table(to_table([Row(1, 1.0, text)], form_of(Row))) is None


@given(
    st.lists(st.text(alphabet='ab",\r\n\u00e9', max_size=4), max_size=8),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_a_text_that_needs_quotes_is_left_to_the_row_encoder(texts, start, length):
    """
    Only the texts of the slice count, not those around it in the same memory.
    """
    numbers = pa.array(range(len(texts)), pa.int64())
    table = pa.table({"n": numbers, "text": pa.array(texts, pa.string())})
    part = table.slice(min(start, len(texts)), length)
    marked = any(set(text) & set('",\r\n') for text in part["text"].to_pylist())

    assert marked == (csv_of_table(part) is None)


anything = st.one_of(
    int64, st.integers(), st.floats(), st.booleans(), st.none(), st.text(), plain
)


@given(st.lists(st.tuples(int64, st.floats(), plain), min_size=1))
def test_plain_rows_are_written_as_the_row_encoder_does(rows):
    assert encode_rows(rows) == csv_of_rows(rows)


@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=5))
def test_rows_of_anything_are_written_alike_or_left_to_the_row_encoder(rows):
    written = encode_rows([cells(row, ("a", "b")) for row in rows])

    assert csv_of_rows(rows) in (None, written)


ODD = {
    "a number over 64 bits": [(1, "a"), (2**63, "b")],
    "rows of different lengths": [(1, "a"), (1,)],
    "texts that are not UTF-8": [(1, "\ud800")],
    "types that differ in a column": [(1, "a"), (1.0, "b")],
    "a bool": [(True, "a")],
    "an empty text alone, which has quotes": [("",)],
    "no rows": [],
    "no columns": [(), ()],
}


@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_what_arrow_cannot_write_is_left_to_the_row_encoder(rows):
    assert csv_of_rows(rows) is None


def test_nothing_of_it_imports_pandas():
    """
    That would take longer than what is written.
    """
    program = """
import sys
from anabranch.connectors.files.arrow_items import form_of, values_of
from anabranch.connectors.files.csv import csv_table
from anabranch.connectors.files import csv as csv_format
from anabranch.connectors.files.csv import csv_of_rows

assert csv_of_rows([(1, "a", 0.25), (2, "\u00e9", 1.0), (3, "", 1e300)])
table = csv_table(b"1\\n2\\n", form_of(int), 2)
assert values_of(table.column("value")) == [1, 2]
table = csv_table(b"a\\na\\n", form_of(str), 2)
assert values_of(table.column("value")) == ["a", "a"]
print("pandas" in sys.modules)
"""
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert made.stdout == "False\n"


def test_more_text_than_offsets_can_tell_is_left_to_the_other_writer(monkeypatch):
    rows = [("abc", 1), ("defg", 2)]
    assert csv_of_rows(rows) == b"abc,1\ndefg,2\n"

    monkeypatch.setattr(csv_format, "_MOST_BYTES", 6)

    assert csv_of_rows(rows) is None
