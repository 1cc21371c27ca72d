"""Arrow reads CSV exactly as the parser of rows does, or leaves it to it."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.files.arrow_items import form_of, values_of
from anabranch.connectors.files.csv import CsvParser, csv_table


class Row(NamedTuple):
    n: int
    x: float
    s: str


def read(data, rows, **options):
    table = csv_table(data, form_of(Row), rows, **options)
    if table is None:
        return None
    return list(zip(*(values_of(table.column(name)) for name in "nxs"), strict=True))


def test_columns_are_chosen_by_name():
    data, columns = b"a;0.5;-;1\nb c;1e3;-;2\n", ("s", "x", "other", "n")

    found = read(data, 2, columns=columns, delimiter=";")

    assert [(1, 0.5, "a"), (2, 1000.0, "b c")] == found


LEFT = {
    "a hexadecimal number": b"0x1,1,a\n",
    "blanks before a number": b"1, 1,a\n",
    "blanks behind a number": b"1 ,1,a\n",
    "a tab before a number": b"1,\t1,a\n",
    "a nan with an argument": b"1,nan(7),a\n",
    "a nan with an empty argument": b"1,nan(),a\n",
    "a byte order mark, which is a part of the text here": b"\xef\xbb\xbf1,1,a\n",
    "a quote": b'1,1,"a"\n',
    "a return": b"1,1,a\r\n",
    "no number": b"1,one,a\n",
    "an empty number": b"1,,a\n",
    "another number of fields": b"1,1\n",
    "text that is not UTF-8": b"1,1,\xff\n",
    "nothing": b"",
}


@pytest.mark.parametrize("data", LEFT.values(), ids=LEFT)
def test_what_arrow_reads_otherwise_is_left_to_the_parser_of_rows(data):
    assert read(data, 1) is None


def test_a_table_of_another_number_of_rows_is_not_taken():
    assert read(b"1,1,a\n2,2,b\n", 3) is None


@pytest.mark.parametrize("kind", [bool, bytes])
def test_types_that_arrow_reads_otherwise_are_left_to_the_parser_of_rows(kind):
    assert csv_table(b"1\n", form_of(kind), 1) is None


number = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.text("0123456789.e-+infatyINF(x ", max_size=6),
)


@given(st.lists(st.tuples(number, number), min_size=1, max_size=4))
def test_numbers_are_read_alike_or_left(rows):
    data = "".join(f"{n},{x},s\n" for n, x in rows).encode()
    slow = CsvParser(Row, None, ",", "f.csv").at_once(data)

    found = read(data, len(rows))

    assert found is None or repr(found) == repr([tuple(row) for row in slow])
