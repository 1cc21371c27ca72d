import csv
import io
import math
import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anabranch.connectors.files.csv import CsvParser, Header, header_of
from anabranch.connectors.files.rows import Position
from anabranch.errors import InputError
from tests import needs
from tests.connectors.files.kinds import Point, Trade


class Note(NamedTuple):
    text: str | None
    rank: int | None
    good: bool
    raw: bytes


COLUMNS = ("symbol", "price", "volume")


def parsed(kind, columns, data, delimiter=","):
    """Return the numbered items of some rows, and the bad rows among them."""
    bad = []
    parser = CsvParser(kind, columns, delimiter, "f.csv")
    return list(parser.parse(data, Position(1, 2), bad.append)), bad


ACCEPTED = {
    "columns are matched by name, others are left out": (
        Trade,
        ("volume", "note", "symbol", "price"),
        b"3,x,A,1.5\n",
        [Trade("A", 1.5, 3)],
    ),
    "without a header they are matched by position": (
        Trade,
        None,
        b"A,1.5,3\n",
        [Trade("A", 1.5, 3)],
    ),
    "quoted fields may hold delimiters, newlines and quotes": (
        Trade,
        COLUMNS,
        b'"A,\n""B""",1e3,+3\r\n',
        [Trade('A,\n"B"', 1000.0, 3)],
    ),
    "a quote within a field is a quote": (
        Trade,
        COLUMNS,
        b'5" pipe,1,2\n',
        [Trade('5" pipe', 1.0, 2)],
    ),
    "blank lines are skipped": (
        Trade,
        COLUMNS,
        b"\nA,1,2\n\r\n\nB,3,4",
        [Trade("A", 1.0, 2), Trade("B", 3.0, 4)],
    ),
    "an empty field is None where that may be": (
        Note,
        None,
        b',,true,\n"",7,0,xyz\n',
        [Note(None, None, True, b""), Note(None, 7, False, b"xyz")],
    ),
    "strings keep their white space": (str, None, b"  a \n", ["  a "]),
    "ints reach to the ends of 64 bits": (
        int,
        None,
        b"-9223372036854775808\n9223372036854775807\n007\n",
        [-(2**63), 2**63 - 1, 7],
    ),
    "floats may be infinite": (float, None, b"inf\n-Infinity\n", [math.inf, -math.inf]),
    "a dataclass is made by its constructor": (
        Point,
        ("y", "x"),
        b"1,2\n",
        [Point(2, 1)],
    ),
    "text is UTF-8": (str, None, "naïve 数\n".encode(), ["naïve 数"]),
    "a very long field is a field": (str, None, b"x" * 200_000, ["x" * 200_000]),
}


@pytest.mark.parametrize(
    ("kind", "columns", "data", "items"), ACCEPTED.values(), ids=ACCEPTED.keys()
)
def test_rows_that_are_read(kind, columns, data, items):
    numbered, bad = parsed(kind, columns, data)

    assert [] == bad
    assert items == [item for item, _ in numbered]
    assert list(range(1, len(items) + 1)) == [number for _, number in numbered]


REFUSED = {
    "a row with too few fields": (Trade, b"A,1\n", "must have 3 fields; has 2"),
    "a row with too many fields": (Trade, b"A,1,2,3\n", "must have 3 fields; has 4"),
    "a fraction for an int": (
        int,
        b"1.0\n",
        "column 'value' must be an int of 64 bits; got '1.0'",
    ),
    "white space around an int": (
        int,
        b" 1\n",
        "column 'value' must be an int of 64 bits; got ' 1'",
    ),
    "an underscore in an int": (
        int,
        b"1_0\n",
        "column 'value' must be an int of 64 bits; got '1_0'",
    ),
    "digits of another script": (
        int,
        "\u0661\n".encode(),
        "column 'value' must be an int of 64 bits; got '\u0661'",
    ),
    "an int beyond 64 bits": (
        int,
        b"9223372036854775808\n",
        "column 'value' must be an int of 64 bits; got '9223372036854775808'",
    ),
    "a word for a float": (
        float,
        b"ten\n",
        "column 'value' must be a float; got 'ten'",
    ),
    "an underscore in a float": (
        float,
        b"1_0.5\n",
        "column 'value' must be a float; got '1_0.5'",
    ),
    "white space around a float": (
        float,
        b"1.5 \n",
        "column 'value' must be a float; got '1.5 '",
    ),
    "nothing where a value must be": (
        Trade,
        b"A,,2\n",
        "column 'price' must be a float; got ''",
    ),
    "another word for a bool": (
        bool,
        b"yes\n",
        "column 'value' must be a bool (true or false); got 'yes'",
    ),
    "bytes that are not UTF-8": (
        str,
        b"caf\xe9\n",
        "column 'value' must be UTF-8 text; got 'caf\\udce9'",
    ),
    "a quote that never closes": (
        str,
        b'"abc\n',
        "must close its quotes, each before a delimiter or the end of the line; one is not",
    ),
    "text behind a closing quote": (
        str,
        b'"abc"d\n',
        "must close its quotes, each before a delimiter or the end of the line; one is not",
    ),
    "a quote that opens in the last line": (
        str,
        b'"',
        "must close its quotes, each before a delimiter or the end of the line; one is not",
    ),
    "what its constructor refuses": (
        Point,
        b"-1,2\n",
        "cannot be read: ValueError: x is negative",
    ),
}


@pytest.mark.parametrize(("kind", "data", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_rows_that_are_refused(kind, data, text):
    numbered, (bad,) = parsed(kind, None, data)

    assert [] == numbered
    assert (Position(1, 2), text) == (bad.at, bad.text)


def test_a_return_within_a_field_is_refused():
    """
    A carriage return ends no row, and only quotes let it be part of a field.
    """
    numbered, (bad,) = parsed(str, None, b'a\rb\n"a\rb"\n')

    assert [("a\rb", 2)] == numbered
    assert "a\rb" == bad.raw


def test_nothing_is_lost_around_bad_rows():
    """
    Good rows before, between and after bad ones come through with their own numbers.
    """
    data = b'1\nx\n\n"2"\n"3\n4"\n5\n"6'

    numbered, bad = parsed(int, None, data)

    assert [(1, 1), (2, 3), (5, 5)] == numbered
    assert [(2, 3), (4, 6), (6, 9)] == [tuple(b.at) for b in bad]
    assert ["x", '"3\n4"', '"6'] == [b.raw for b in bad]


def test_a_quote_that_is_not_closed_hides_no_other_row():
    """
    Its line is bad, and the rows behind it are read, whether later rows have quotes
    that would close it or not.
    """

    class Pair(NamedTuple):
        a: int
        b: str

    data = b'1,x\n2,"open\n3,y\n4,"the ""fourth"" one"\n5,"in\ntwo"\n6,"end'

    numbered, bad = parsed(Pair, None, data)

    good = [(1, "x"), (3, "y"), (4, 'the "fourth" one'), (5, "in\ntwo")]
    assert good == [tuple(item) for item, _ in numbered]
    assert [1, 3, 4, 5] == [row for _, row in numbered]
    assert [(2, 3, '2,"open'), (6, 8, '6,"end')] == [(*b.at, b.raw) for b in bad]


def test_good_rows_come_before_a_bad_one_is_reported():
    """
    Whoever stops at the bad row has had the rows before it.
    """
    events = []
    parser = CsvParser(int, None, ",", "f.csv")
    for item, _ in parser.parse(
        b"1\nx\n2\n", Position(1, 1), lambda _: events.append("bad")
    ):
        events.append(item)

    assert [1, "bad", 2] == events


def test_the_next_position_counts_rows_and_lines():
    """
    The next piece of a file goes on where this one ended.
    """
    parser = CsvParser(str, None, ",", "f.csv")
    ends = []

    def reading():
        ends.append(
            (yield from parser.parse(b'a\n\n"b\nc"\n', Position(10, 20), print))
        )

    assert [("a", 10), ("b\nc", 11)] == list(reading())
    assert [Position(12, 24)] == ends


@settings(max_examples=needs.count_examples(30, 100), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), max_size=5),
            st.floats(allow_nan=False),
            st.integers(-(2**63), 2**63 - 1),
        )
    ),
    bad_at=st.none() | st.integers(0, 5),
)
def test_row_by_row_and_column_by_column_agree(rows, bad_at):
    """
    A bad row in the piece changes nothing about the good ones, whatever they hold.
    """
    good = [Trade(*row) for row in rows]
    cells = [[*row] for row in rows]
    if bad_at is not None:
        cells.insert(bad_at, ["A", "x", "1"])
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(cells)

    numbered, bad = parsed(Trade, COLUMNS, text.getvalue().encode())

    assert good == [item for item, _ in numbered]
    assert (bad_at is not None) == bool(bad)


def fields_by_arrow(data, width):
    """What Arrow makes of rows that all have so many fields."""
    names = [f"f{n}" for n in range(width)]
    table = pyarrow.csv.read_csv(
        io.BytesIO(data),
        pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    return [tuple(row.values()) for row in table.to_pylist()]


@settings(max_examples=needs.count_examples(50, 200), deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.text('ab" \n', max_size=4), st.text('ab"', max_size=4)),
        min_size=1,
        max_size=4,
    ),
    quoted=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_arrow_reads_the_same_fields(rows, quoted):
    """
    Quotes in every place where the rows can be read.
    """

    class Pair(NamedTuple):
        a: str
        b: str

    flags = iter(quoted)
    cells = [[f'"{f}"' if next(flags) else f for f in row] for row in rows]
    data = "".join(",".join(row) + "\n" for row in cells).encode()
    numbered, bad = parsed(Pair, ("a", "b"), data)
    assume(not bad)

    assert [tuple(item) for item, _ in numbered] == fields_by_arrow(data, 2)


def test_a_missing_column_is_named_with_what_is_there():
    """
    The error lists the columns and guesses the one that was meant.
    """
    with pytest.raises(InputError) as error:
        CsvParser(Trade, ("Symbol", "price", "volume"), ",", "f.csv")

    assert (
        "f.csv: there must be a column 'symbol'; there is none; "
        "did you mean 'Symbol'? The columns are Symbol, price, volume"
    ) == str(error.value)


def test_a_column_that_is_there_twice_is_refused():
    with pytest.raises(InputError, match="'price' is there twice"):
        CsvParser(Trade, (*COLUMNS, "price"), ",", "f.csv")


def test_an_attribute_that_text_cannot_give_is_refused():
    class Odd(NamedTuple):
        tags: list[str]

    with pytest.raises(
        InputError, match=r"attribute 'tags' of Odd .* it is list\[str\]"
    ):
        CsvParser(Odd, ("tags",), ",", "f.csv")


def test_the_header_tells_where_rows_begin():
    """
    Blank lines may come first, and a name may hold a newline.
    """
    data = b'\n"a\nb";c\r\n1;2\n'

    header = header_of(data, ";")

    assert Header(("a\nb", "c"), 10, 3) == header
    assert b"1;2\n" == data[header.end :]
    assert header_of(b"\n") is None


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_header_with_another_delimiter_is_told_how_to_be_read(delimiter):
    wanted = f"say delimiter={delimiter!r}"

    with pytest.raises(InputError, match=re.escape(wanted)):
        CsvParser(Trade, (delimiter.join(Trade._fields),), ",", "f.csv")
