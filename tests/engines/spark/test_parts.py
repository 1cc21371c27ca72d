"""Arrow writes CSV exactly as the row encoder does, or leaves it to it."""

from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engines.spark.parts import csv_of_table
from anabranch.runtime.columns import form_of, to_table
from anabranch.runtime.writing.csv import encode_csv


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
