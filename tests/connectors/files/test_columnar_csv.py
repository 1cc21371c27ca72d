"""Text by compiled kernels: what Python's own `csv`, `int`, `float` and `repr` give."""

import csv
import io
import math
import random
import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from anabranch.connectors.files import columnar_csv
from anabranch.connectors.files.arrow_items import form_of
from anabranch.connectors.files.columnar_csv import BEHIND, ColumnReader, write_table
from anabranch.connectors.files.csv import encode_rows
from anabranch.runtime.compiled.program import WHEN_VARIABLE


class Row(NamedTuple):
    n: int
    name: str
    x: float


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setenv(WHEN_VARIABLE, "at once")


def read(text, kind=Row, *, columns=None, delimiter=",", rows=10):
    data = text if isinstance(text, bytes) else text.encode()
    reader = ColumnReader(form_of(kind), columns, delimiter)
    table = reader.read(data + bytes(BEHIND), len(data), rows)
    return (
        None if table is None else list(zip(*table.to_pydict().values(), strict=True))
    )


def write(table):
    parts = write_table(table)
    return None if parts is None else b"".join(map(bytes, parts))


def bits(values):
    return [struct.pack("<d", value) for value in values]


def odd_floats(rng, count):
    """Return floats of every size, short and long ones, and those at powers of two."""
    found = [0.0, -0.0, math.inf, -math.inf, 5e-324, 1e16, 1e-4, 9007199254740993.0]
    found += [1e22, 1e23, 123456789012345680.0, 2.2250738585072014e-308, 0.1, 1 / 3]
    for _ in range(count):
        found.append(struct.unpack("<d", rng.randbytes(8))[0])
        found.append(rng.random() * 10.0 ** rng.randrange(-25, 25))
        found.append(round(rng.random() * 1000, rng.randrange(6)))
        found.append(float(rng.randrange(-(2**60), 2**60)))
        power = 2.0 ** rng.randrange(-1074, 1023)
        found += [power, math.nextafter(power, 0), math.nextafter(power, math.inf)]
    return found


def test_rows_are_read_as_columns():
    text = "1,a,0.5\n-20,,1e3\n300,bc,-7.25\n"

    assert [(1, "a", 0.5), (-20, "", 1000.0), (300, "bc", -7.25)] == read(text)


def test_the_last_row_may_lack_its_newline():
    assert [(1, "a", 0.5), (2, "b", 12.5)] == read("1,a,0.5\n2,b,12.5")
    assert [("x", 1), ("", 2)] == read(
        "1,x\n2,", NamedTuple("P", [("s", str), ("n", int)]), columns=("n", "s")
    )


def test_more_rows_than_were_expected_are_read():
    text = "".join(f"{n},s{n % 3},{n}.5\n" for n in range(5000))

    assert [(n, f"s{n % 3}", n + 0.5) for n in range(5000)] == read(text, rows=3)


def test_columns_are_found_by_name_and_others_passed_over():
    text = "zz;0.5;7;a\ny;1.5;8;b\n"

    found = read(text, columns=("other", "x", "n", "name"), delimiter=";")

    assert [(7, "a", 0.5), (8, "b", 1.5)] == found


@pytest.mark.parametrize(
    "text",
    [
        '1,"a",0.5\n',  # quotes
        "1,a,0.5\r\n",  # returns
        "1,a\0,0.5\n",
        "1,a,0.5\n\n2,b,1.5\n",  # a blank line
        "\n1,a,0.5\n",
        "1,a\n",  # fields
        "1,a,0.5,2\n",
        "1,a,\n",
        ",a,0.5\n",
        "+1,a,0.5\n",
        "1.0,a,0.5\n",
        " 1,a,0.5\n",
        "1 ,a,0.5\n",
        "1_0,a,0.5\n",
        "1234567890123456789,a,0.5\n",  # perhaps beyond 64 bits
        "0x1,a,0.5\n",
        "1,a,nan\n",
        "1,a,inf\n",
        "1,a,.5\n",
        "1,a,5.\n",
        "1,a,1e\n",
        "1,a,1e+\n",
        "1,a,0.5 \n",
        "1,a,--5\n",
        "1,a,1e400\n",
        "1,a,4e-324\n",
        "1,a,0.12345678901234567890\n",
        b"1,\xff,0.5\n",
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_others(text):
    assert read(text) is None


def test_too_many_words_are_left_to_others():
    text = "".join(f"{n},word {n},0.5\n" for n in range(40_000))

    assert read(text, rows=50_000) is None


def test_types_that_kernels_do_not_know_are_left_to_others():
    class Flag(NamedTuple):
        on: bool

    class Perhaps(NamedTuple):
        n: int | None

    assert read("true\n", Flag) is None
    assert read("1\n", Perhaps) is None


def test_codes_go_on_from_text_to_text():
    reader = ColumnReader(form_of(str), None, ",")
    texts = [b"a\nb\na\n", b"c\na\n"]

    tables = [reader.read(text + bytes(BEHIND), len(text), 3) for text in texts]

    assert [["a", "b", "a"], ["c", "a"]] == [t.column(0).to_pylist() for t in tables]


def test_words_of_any_length_are_told_apart():
    rng = random.Random(3)
    words = ["", "é", "x" * 7, "x" * 8, "x" * 9, "y" * 8, "x" * 300]
    words += ["".join(rng.choices("ab", k=rng.randrange(20))) for _ in range(500)]

    assert words[1:] == [
        w
        for w, _ in read(
            "".join(f"{w},1\n" for w in words[1:]),
            NamedTuple("P", [("w", str), ("n", int)]),
            rows=600,
        )
    ]


def test_floats_are_read_as_python_reads_them():
    rng = random.Random(5)
    texts = [repr(x) for x in odd_floats(rng, 3000) if 1e-300 < abs(x) < 1e300]
    texts += [
        f"{rng.randrange(10**18)}e{rng.randrange(-300, 290)}" for _ in range(3000)
    ]
    texts += [str(2 * rng.randrange(2**52, 2**53) + 1) for _ in range(1000)]  # half-way
    texts += ["-0.0", "0", "000.5", "0e10", "1E5", "1e+05"]

    found = read("".join(f"{text}\n" for text in texts), float, rows=len(texts))

    assert bits(map(float, texts)) == bits(x for (x,) in found)


def test_floats_are_written_as_repr_writes_them():
    floats = [*odd_floats(random.Random(7), 5000), math.nan]

    text = write(pa.table({"x": pa.array(floats, pa.float64())}))

    assert list(map(repr, floats)) == text.decode().splitlines()


def test_integers_and_bools_are_written_as_python_writes_them():
    rng = random.Random(8)
    ints = [0, 9, 10, -1, 99_999_999, 100_000_000, 10**16 - 1, 10**16, 2**63 - 1]
    ints += [
        -(2**63),
        *(rng.randrange(10 ** rng.randrange(1, 19)) for _ in range(2000)),
    ]
    flags = [rng.random() < 0.5 for _ in ints]

    text = write(pa.table({"n": ints, "b": flags}).slice(3))

    expected = [f"{n},{str(b).lower()}" for n, b in zip(ints, flags, strict=True)]
    assert expected[3:] == text.decode().splitlines()


WORDS = ["a", "", "b,c", 'd"e', "f\ng", "h\ri", "é", '"', "x" * 50]


@pytest.mark.parametrize("coded", [False, True])
def test_texts_are_quoted_where_they_must_be(coded):
    rng = random.Random(9)
    names = [rng.choice(WORDS) for _ in range(300)]
    array = pa.array(names)
    table = pa.table(
        {"s": array.dictionary_encode() if coded else array, "n": range(300)}
    )

    assert encode_rows(zip(names, range(300), strict=True)) == write(table)
    assert encode_rows(zip(names[5:], range(5, 300), strict=True)) == write(
        table.slice(5)
    )
    assert encode_rows([(name,) for name in names]) == write(table.select(["s"]))


def test_a_row_longer_than_the_room_is_written():
    long = "z" * (3 << 20)

    text = write(pa.table({"s": ["a", long, "b"], "n": [1, 2, 3]}))

    assert [["a", "1"], [long, "2"], ["b", "3"]] == _rows(text)


def _rows(text):
    csv.field_size_limit(1 << 30)
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


def test_many_rows_are_written_part_by_part():
    rows = [(n, f"s{n % 10}", n / 7) for n in range(100_000)]
    columns = [pa.array(c) for c in zip(*rows, strict=True)]
    table = pa.table(
        [columns[0], columns[1].dictionary_encode(), columns[2]], names="nsx"
    )
    two = pa.concat_tables([table.slice(0, 70_000), table.slice(70_000)])

    assert len(list(write_table(table))) > 1
    assert encode_rows(rows) == write(table) == write(two)


def test_nulls_and_other_types_are_left_to_others():
    assert write(pa.table({"n": [1, None]})) is None
    assert write(pa.table({"n": pa.array([1, 2], pa.int32())})) is None
    assert write(pa.table({"n": [b"a"]})) is None


def test_a_process_with_few_rows_loads_no_kernels(monkeypatch):
    monkeypatch.setenv(WHEN_VARIABLE, "hot")
    monkeypatch.setattr(columnar_csv, "_loading", columnar_csv._Loading())

    assert write(pa.table({"n": np.arange(1000)})) is None
    assert read("1,a,0.5\n") is None
