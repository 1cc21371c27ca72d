"""Files in chunks: the same items and numbers as one by one, whatever the pieces."""

import gzip
import itertools
import threading
from typing import Generic, NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors import reader as reading
from anabranch.connectors.files.values import plain_tuple
from anabranch.connectors.open import open_reader
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import FromIterable, Generate, ReadFiles
from anabranch.runtime.failures import stop
from tests import needs
from tests.connectors.files.kinds import Point, Trade

T = TypeVar("T")


class Large(Trade):
    """
    A tuple with a constructor of the user's.
    """

    def __new__(cls, symbol, price, volume):
        if volume < 0:
            msg = "volume is negative"
            raise ValueError(msg)
        return super().__new__(cls, symbol, price, volume)


HEADER = b"symbol,price,volume\n"


@pytest.fixture
def small_pieces(monkeypatch):
    """
    Read pieces of 16 to 64 bytes instead of many thousands.
    """
    monkeypatch.setattr(reading, "_FIRST_BYTES", 16)
    monkeypatch.setattr(reading, "_MOST_BYTES", 64)


def flat(chunks):
    return [
        pair for items, numbers in chunks for pair in zip(items, numbers, strict=True)
    ]


def told(failures):
    return [(failure.where, failure.item, str(failure.error)) for failure in failures]


def both_ways(reader_of, path, form, kind, limit=3, **options):
    """Return the items and the failures, in chunks and one by one."""
    fast, slow = [], []
    chunks = reader_of(path, form, kind, fast.append, **options).chunks(lambda: limit)
    numbered = reader_of(path, form, kind, slow.append, **options).read_numbered()
    return (flat(chunks), told(fast)), (list(numbered), told(slow))


FILES = {
    "rows": (Trade, HEADER + b"A,1.5,1\nB,2.0,2\nC,0.1,3\nD,4,4\n"),
    "no rows": (Trade, HEADER),
    "a header without a newline": (Trade, HEADER[:-1]),
    "no final newline": (Trade, HEADER + b"A,1.5,1\nB,2.5,2"),
    "newlines within quotes, at the ends of pieces": (
        Trade,
        HEADER + b"".join(b'"a\nb\n%d,""",%d,%d\n' % (n, n, n) for n in range(20)),
    ),
    "blank lines": (Trade, HEADER + b"\nA,1.5,1\n\n\nB,2.5,2\n\n"),
    "ends of lines with returns": (Trade, HEADER + b"A,1.5,1\r\nB,2.5,2\r\n"),
    "a row longer than a piece": (
        Trade,
        HEADER + b"A,1,1\n" + b"x" * 500 + b",2,2\nB,3,3\n",
    ),
    "a byte order mark at the start of a row": (
        Trade,
        b"\xef\xbb\xbf" + HEADER + b"A,1,1\n\xef\xbb\xbfB,2,2\n" * 9,
    ),
    "columns in another order, and others": (
        Trade,
        b"volume,note,symbol,price\n1,x y,A,1.5\n2,,B,2.5\n",
    ),
    "strings with blanks and an x": (Trade, HEADER + b"a x,1,1\n (b),2,2\n"),
    "a number that is none": (Trade, HEADER + b"A,1,1\nB,2,x\nC,3,3\nD,4,4\n"),
    "what Arrow takes for a number": (
        Trade,
        HEADER + b"A, 1,1\nB,1,0x1\nC,nan(1),1\nD,1 ,1\nE,inf,1\nF,+1,+1\nG,1,1\n",
    ),
    "too few fields, and too many": (Trade, HEADER + b"A,1\nB,1,1\nC,1,1,1\nD,1,1\n"),
    "bad rows, first, last and in a row": (
        Trade,
        HEADER + b"A,x,1\nB,x,1\nC,1,1\nD,x,1\n",
    ),
    "text that is not UTF-8": (Trade, HEADER + b"A,1,1\n\xff,2,2\nB,3,3\n"),
    "text that is not UTF-8, in another column": (
        Trade,
        b"symbol,price,volume,note\nA,1,1,\xff\nB,2,2,x\n",
    ),
    "a quote that never closes": (Trade, HEADER + b'A,1,1\nB,"2,2\nC,3,3\nD,4,4\n'),
    "a return within a field": (Trade, HEADER + b"A,1,1\nB\rC,2,2\nD,3,3\n"),
    "an int beyond 64 bits": (Trade, HEADER + b"A,1,9223372036854775808\nB,1,1\n"),
    "a constructor of the user's": (Large, HEADER + b"A,1,1\nB,2,2\n"),
    "a constructor that raises": (Large, HEADER + b"A,1,1\nB,2,-2\nC,3,3\nD,4,-4\n"),
    "a dataclass": (Point, b"x,y\n1,2\n3,4\n"),
    "a dataclass that raises": (Point, b"x,y\n1,2\n-3,4\n5,6\n"),
    "ints": (int, b"value\n1\n2\n\n3\n"),
    "strings": (str, b"value\na\n b\n"),
    "bools, which Arrow reads otherwise": (bool, b"value\ntrue\n1\nfalse\nyes\n0\n"),
    "values that may be missing": (int | None, b"value,other\n1,\n,x\n3,y\nz,\n"),
}


@pytest.mark.parametrize(("kind", "data"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("limit", [1, 3, 1000])
@pytest.mark.usefixtures("small_pieces")
def test_chunks_are_what_is_read_one_by_one(tmp_path, reader_of, kind, data, limit):
    """
    The same items, numbers, and rows that are refused, each in its order.
    """
    (tmp_path / "t.csv").write_bytes(data)

    chunked, one_by_one = both_ways(reader_of, tmp_path / "t.csv", "csv", kind, limit)

    assert one_by_one == chunked


@pytest.mark.parametrize(("kind", "data"), FILES.values(), ids=FILES)
def test_large_pieces_give_the_same(tmp_path, reader_of, kind, data):
    (tmp_path / "t.csv").write_bytes(data)

    chunked, one_by_one = both_ways(reader_of, tmp_path / "t.csv", "csv", kind)

    assert one_by_one == chunked


def test_the_numbers_behind_a_bad_row_are_those_of_the_rows(tmp_path, reader_of):
    (tmp_path / "t.csv").write_bytes(HEADER + b"A,1,1\nB,x,2\nC,3,3\nD,4,4\n")
    failures = []
    reader = reader_of(tmp_path / "t.csv", "csv", Trade, failures.append)

    chunks = list(reader.chunks(lambda: 2))

    assert chunks == [
        ([Trade("A", 1.0, 1), Trade("C", 3.0, 3)], [1, 3]),
        ([Trade("D", 4.0, 4)], [4]),
    ]
    (failure,) = failures
    assert f"{tmp_path / 't.csv'}, row 2 (line 3)" == failure.where
    assert "column 'price' must be a float; got 'x'" in str(failure.error)


@pytest.mark.usefixtures("small_pieces")
def test_numbers_go_on_in_pieces_behind_one_with_a_bad_row(tmp_path, reader_of):
    rows = [b"S%d,1.5,%d\n" % (n, n) for n in range(1, 101)]
    rows[9] = b"S10,none,10\n"
    (tmp_path / "t.csv").write_bytes(HEADER + b"".join(rows))
    failures = []
    reader = reader_of(tmp_path / "t.csv", "csv", Trade, failures.append)

    found = flat(reader.chunks(lambda: 7))

    assert [n for n in range(1, 101) if n != 10] == [number for _, number in found]
    assert all(item.volume == number for item, number in found)
    assert [f"{tmp_path / 't.csv'}, row 10 (line 11)"] == [f.where for f in failures]


def test_what_comes_before_a_row_that_stops_it_all_is_given(tmp_path, reader_of):
    (tmp_path / "t.csv").write_bytes(HEADER + b"A,1,1\nB,2,2\nC,x,3\nD,4,4\n")
    chunks = reader_of(tmp_path / "t.csv", "csv", Trade, stop).chunks(lambda: 100)

    assert ([Trade("A", 1.0, 1), Trade("B", 2.0, 2)], [1, 2]) == next(chunks)
    with pytest.raises(InputError, match=r"row 3 \(line 4\).*job\.py:7"):
        next(chunks)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("bad", [b"", b"x,y,z\n"])
def test_several_files_some_compressed_are_read_one_behind_the_other(
    tmp_path, reader_of, bad
):
    for name in "abc":
        rows = b"".join(b"%s%d,%d,1\n" % (name.encode(), n, n) for n in range(9))
        (tmp_path / f"{name}.csv").write_bytes(HEADER + rows + bad)
    packed = gzip.compress((tmp_path / "b.csv").read_bytes())
    (tmp_path / "b.csv").unlink()
    (tmp_path / "b.csv.gz").write_bytes(packed)

    chunked, one_by_one = both_ways(reader_of, tmp_path, "csv", Trade)

    assert 27 == len(chunked[0])
    assert one_by_one == chunked


def test_the_place_of_an_item_in_the_second_file_is_told(tmp_path, reader_of):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_bytes(HEADER + b"A,1,1\nB,2,2\n")
    reader = reader_of(tmp_path, "csv", Trade)

    list(reader.chunks(lambda: 10))

    assert f"{tmp_path / 'b.csv'}, row 2" == reader.where(4)


def test_what_comes_before_the_damage_of_a_compressed_file_is_given(
    tmp_path, reader_of
):
    rows = b"".join(b"S%d,%d,1\n" % (n * 7919 % 1000, n) for n in range(100_000))
    whole = gzip.compress(HEADER + rows)
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    reader = reader_of(tmp_path / "t.csv.gz", "csv", Trade)

    found, slow = [], []
    with pytest.raises(InputError, match="damaged or cut off"):
        found.extend(
            pair for chunk in reader.chunks(lambda: 999) for pair in flat([chunk])
        )
    with pytest.raises(InputError, match="damaged or cut off"):
        slow.extend(reader.read_numbered())

    assert len(found) > 10_000
    assert slow == found


OTHER_FORMATS = {
    "lines": ("text", str, b"a\n\nb\r\nc"),
    "lines that are not UTF-8": ("text", str, b"a\n\xff\nb\n"),
    "JSON lines": ("jsonl", int, b"1\n2\n\n3\n"),
    "JSON lines, some bad": ("jsonl", int, b'1\n"2"\n{\n3\n'),
    "no lines": ("text", str, b""),
}


@pytest.mark.parametrize(
    ("form", "kind", "data"), OTHER_FORMATS.values(), ids=OTHER_FORMATS
)
@pytest.mark.usefixtures("small_pieces")
def test_other_formats_are_read_in_chunks_too(tmp_path, reader_of, form, kind, data):
    (tmp_path / "t").write_bytes(data * 9)

    chunked, one_by_one = both_ways(reader_of, tmp_path / "t", form, kind)

    assert one_by_one == chunked


def test_a_chunk_has_no_more_items_than_are_wanted_at_the_time(tmp_path, reader_of):
    (tmp_path / "n.csv").write_text("value\n" + "7\n" * 100)
    wanted = itertools.chain([1, 2, 4], itertools.repeat(50))

    chunks = reader_of(tmp_path / "n.csv", "csv", int).chunks(lambda: next(wanted))

    assert [1, 2, 4, 50, 43] == [len(items) for items, _ in chunks]


def test_pieces_begin_small_and_grow_to_a_bound(tmp_path, reader_of, monkeypatch):
    """
    The first items are soon there, and a huge file is never held whole.
    """
    sizes = []
    original = reading.ChunkParser.parse

    def parse(self, data, *arguments):
        sizes.append(len(data))
        return original(self, data, *arguments)

    monkeypatch.setattr(reading.ChunkParser, "parse", parse)
    (tmp_path / "n.csv").write_text("value\n" + "1234567\n" * 500_000)

    chunks = reader_of(tmp_path / "n.csv", "csv", int).chunks(lambda: 8192)

    assert 500_000 == sum(len(items) for items, _ in chunks)
    assert sizes[0] <= 1 << 16
    assert max(sizes) <= (1 << 19) + 8
    assert len(sizes) < 16


def test_the_next_piece_alone_is_read_beside_the_work_on_a_table(
    tmp_path, reader_of, monkeypatch
):
    monkeypatch.setattr(reading, "_FIRST_BYTES", 300)
    monkeypatch.setattr(reading, "_MOST_BYTES", 300)
    read, second = [], threading.Event()
    original = reading.ChunkParser._table_of

    def table_of(self, data, form):
        read.append(threading.current_thread())
        if len(read) == 2:
            second.set()
        return original(self, data, form)

    monkeypatch.setattr(reading.ChunkParser, "_table_of", table_of)
    rows = [("A", n + 0.5, n) for n in range(200)]
    text = "".join(f"{s},{x},{n}\n" for s, x, n in rows)
    (tmp_path / "t.csv").write_bytes(HEADER + text.encode())
    chunks = reader_of(tmp_path / "t.csv", "csv", Trade).chunks(lambda: 7, lambda: True)

    items, numbers = next(chunks)

    assert second.wait(20)
    assert 2 == len(read)  # so that a file is not held whole
    assert threading.current_thread() is not read[1]
    whole, places = list(items[:]), list(numbers)
    for items, numbers in chunks:
        whole += items[:]
        places += numbers
    assert rows == [tuple(item) for item in whole]
    assert list(range(1, 201)) == places


def test_a_bad_row_behind_tables_is_told_once_those_before_it_are_given(
    tmp_path, reader_of, monkeypatch
):
    monkeypatch.setattr(reading, "_FIRST_BYTES", 300)
    monkeypatch.setattr(reading, "_MOST_BYTES", 300)
    text = "A,1.5,1\n" * 100 + "A,no number,1\n" + "A,1.5,1\n" * 100
    (tmp_path / "t.csv").write_bytes(HEADER + text.encode())
    chunks = reader_of(tmp_path / "t.csv", "csv", Trade).chunks(lambda: 7, lambda: True)
    seen = []

    with pytest.raises(InputError, match="row 101 "):
        seen.extend(len(items) for items, _ in chunks)

    assert 100 == sum(seen)


def test_what_may_be_long_in_coming_is_not_read_in_chunks(tmp_path):
    followed = ReadFiles(str(tmp_path), "csv", int, follow=True)
    for kind in (FromIterable("ab"), Generate(lambda: iter("ab")), followed):
        assert open_reader(Op("n", kind), stop).chunks(lambda: 1) is None


fields = st.one_of(
    st.integers(-99, 99).map(str),
    st.floats().map(repr),
    st.text(alphabet="ab0x(n,\"'\r\n \ufeff\u00e9", max_size=5),
    st.sampled_from(["0x1", "nan()", "1e5", "+1", " 1", "1_0", "", "infinity", "1."]),
)


@settings(max_examples=needs.count_examples(50, 150), deadline=None)
@given(st.lists(st.lists(fields, min_size=3, max_size=3), max_size=6), st.booleans())
def test_any_text_is_read_alike(tmp_path_factory, rows, ended):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    text = "\n".join(",".join(row) for row in rows) + "\n" * ended
    path.write_bytes(HEADER + text.encode())

    def read(as_chunks):
        failures = []
        kind = ReadFiles(str(path), "csv", Trade)
        reader = open_reader(Op("source", kind), failures.append)
        found = (
            flat(reader.chunks(lambda: 2))
            if as_chunks
            else list(reader.read_numbered())
        )
        return repr(found), told(failures)

    assert read(as_chunks=False) == read(as_chunks=True)


class Several(Generic[T], NamedTuple):  # noqa: PYI059 - the odd order is the point
    items: T


class Extended(Trade):
    def value(self):
        return self.price * self.volume


PLAIN = {"plain": (Trade, True), "with a method": (Extended, True)}
NOT_PLAIN = {
    "with a constructor": (Large, False),
    "behind another base": (Several, False),
    "a tuple of nothing": (tuple, False),
    "a dataclass": (Point, False),
}


@pytest.mark.parametrize(
    ("kind", "plain"), [*PLAIN.values(), *NOT_PLAIN.values()], ids=[*PLAIN, *NOT_PLAIN]
)
def test_which_tuples_are_made_without_code_of_the_users(kind, plain):
    assert plain == plain_tuple(kind)
