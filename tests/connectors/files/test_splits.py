import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors.files.splits import (
    JSON_LINES,
    LINES,
    RowFormat,
    count_rows,
    last_row_end,
    layout_of,
    pieces,
)
from anabranch.operators.sources import ReadFiles
from tests import needs

CSV = RowFormat(quoted=True)

LAST_ROW_ENDS = {
    "the last newline ends the last row": (b"a\nb\nc", 4),
    "a newline in quotes ends no row": (b'a\n"b\nc', 2),
    "a newline behind closed quotes ends a row": (b'a\n"b\nc"\nd', 8),
    "a doubled quote does not close": (b'a\n"b""\nc', 2),
    "a doubled quote that is all of a field is no opening one": (b'a,""\nb', 5),
    "a quote within a field opens nothing": (b'5" pipe\n6" pipe\n7', 16),
    "what follows a closing quote is not quoted": (b'"a"b"\nc"\n', 9),
    "an opening quote may follow a delimiter": (b'a,"b\n",c\nd', 9),
    "without a newline there is no row end": (b"abc", 0),
    "a field that is not closed yet may hide all that follows": (b'"a\nb\nc\n', 0),
    "a quote that closes in the middle of a field opens none": (b'"a\nb"c\nd', 7),
    "nothing has no row end": (b"", 0),
}


@pytest.mark.parametrize(
    ("data", "end"), LAST_ROW_ENDS.values(), ids=LAST_ROW_ENDS.keys()
)
def test_last_row_end(data, end):
    assert end == last_row_end(data, CSV)


ROW_COUNTS = {
    "rows end with newlines": (b"a\nb\n", CSV, 2),
    "the last row may lack its newline": (b"a\nb", CSV, 2),
    "blank lines are no rows": (b"\na\n\n\r\nb\n\n", CSV, 2),
    "a blank line in quotes belongs to its row": (b'a,"\n\n"\nb,c\n', CSV, 2),
    "a line of nothing but returns is blank": (b"a\n\r\r\n\r", CSV, 1),
    "every line of text is a row": (b"\na\n\n", LINES, 3),
    "quotes mean nothing in JSON lines": (b'"a\n"b\n\n', JSON_LINES, 2),
    "a quote that is never closed hides nothing": (b'a,"\nb,c\nd', CSV, 3),
    "a quote that closes in the middle hides nothing": (b'"a\nb"c\nd', CSV, 3),
    "nothing holds no rows": (b"", CSV, 0),
}


@pytest.mark.parametrize(
    ("data", "layout", "rows"), ROW_COUNTS.values(), ids=ROW_COUNTS.keys()
)
def test_count_rows(data, layout, rows):
    assert rows == count_rows(data, layout)


def test_the_layout_follows_from_the_format():
    """
    Only CSV has quotes, and only text has blank rows.
    """
    assert RowFormat(quoted=True, delimiter=";") == layout_of(
        ReadFiles("f", "csv", str, delimiter=";")
    )
    assert JSON_LINES == layout_of(ReadFiles("f", "jsonl", str))
    assert LINES == layout_of(ReadFiles("f", "text", str))


def rows_by_csv_module(data):
    """What Python's own reader makes of bytes, line by line; errors count as rows."""
    reader = csv.reader(io.StringIO(data.decode(), newline="\n"))
    rows = []
    while True:
        try:
            rows.append(next(reader))
        except StopIteration:
            return [row for row in rows if row]
        except csv.Error:
            rows.append(["<error>"])


def rows_by_hand(data):
    """The rows of bytes, found character by character."""
    text, rows, row = data.decode(), [], ""
    while text:
        size = _field_size(text)
        row, text = row + text[:size], text[size:]
        if row.endswith("\n") or not text:
            rows.append(row)
            row = ""
    return [row for row in rows if row.strip("\r\n")]


def _field_size(text):
    """How long the first field of a text is, with the mark that ends it."""
    at = 0
    if text.startswith('"'):
        close = 1
        while text[close : close + 2] == '""' or text[close : close + 1] not in {
            '"',
            "",
        }:
            close += 2 if text[close] == '"' else 1
        if close < len(text) and text[close + 1 : close + 2] in {"", ",", "\n", "\r"}:
            at = close + 1
    while at < len(text) and text[at] not in ",\n":
        if text[at] == "\r" and text[at:].lstrip("\r")[:1] not in {"", "\n"}:
            return (text + "\n").index("\n", at) + 1  # it hides the rest of the line
        at += 1
    return at + 1


CONTENT = st.text(alphabet='ab,"\n\r', max_size=60).map(str.encode)
WELL_FORMED = st.lists(
    st.lists(st.text(alphabet='ab,"\n', max_size=6), min_size=2, max_size=3), max_size=8
)


@settings(max_examples=needs.count_examples(100, 300), deadline=None)
@given(data=CONTENT, size=st.integers(1, 20))
def test_pieces_of_any_content_hold_the_rows_of_the_whole(data, size):
    """
    However a file is cut, its pieces give the rows that it gives as a whole, and
    `count_rows` says how many they are.
    """
    cut = list(pieces(io.BytesIO(data), CSV, size))

    assert data == b"".join(cut)
    assert rows_by_hand(data) == [row for piece in cut for row in rows_by_hand(piece)]
    assert len(rows_by_hand(data)) == sum(count_rows(p, CSV) for p in cut)


@settings(max_examples=needs.count_examples(30, 100), deadline=None)
@given(
    rows=WELL_FORMED,
    end=st.sampled_from(["\n", "\r\n"]),
    unended=st.booleans(),
    size=st.integers(1, 30),
)
def test_pieces_are_whole_rows_as_the_csv_module_counts_them(rows, end, unended, size):
    """
    Pieces follow one another without a gap, and never cut a quoted field.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    data = text.getvalue().encode()
    data = data.removesuffix(end.encode()) if unended else data

    found = list(pieces(io.BytesIO(data), CSV, size))

    assert data == b"".join(found)
    inside = [rows_by_csv_module(piece) for piece in found]
    assert [len(each) for each in inside] == [count_rows(piece, CSV) for piece in found]
    assert rows == [row for each in inside for row in each]
