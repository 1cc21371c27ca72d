import gzip
import time
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.connectors.open import open_reader
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.site import Site
from anabranch.operators.sources import FromIterable, Generate
from anabranch.runtime.failures import skip, stop


class Trade(NamedTuple):
    symbol: str
    volume: int


ROWS = b"symbol,volume\nA,1\nB,2\n"
TRADES = [Trade("A", 1), Trade("B", 2)]


def test_a_csv_file_is_read(tmp_path, reader_of):
    (tmp_path / "t.csv").write_bytes(ROWS)

    assert TRADES == list(reader_of(tmp_path / "t.csv", "csv", Trade))


def test_a_reader_can_be_read_again(tmp_path, reader_of):
    (tmp_path / "t.csv").write_bytes(ROWS)
    reader = reader_of(tmp_path / "t.csv", "csv", Trade)

    assert TRADES == list(reader)
    assert TRADES == list(reader)


def test_a_byte_order_mark_is_not_part_of_the_header(tmp_path, reader_of):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + ROWS)

    assert TRADES == list(reader_of(tmp_path / "t.csv", "csv", Trade))


def test_a_compressed_file_is_read(tmp_path, reader_of):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(ROWS))

    assert TRADES == list(reader_of(tmp_path / "t.csv.gz", "csv", Trade))


def test_a_directory_is_read_in_the_order_of_names_without_hidden_files(
    tmp_path, reader_of
):
    """
    Every file has its header, and rows are counted within each file.
    """
    for name in ("part-1.csv", "part-0.csv", "_SUCCESS", ".part-2.csv"):
        (tmp_path / name).write_bytes(b"symbol,volume\n%s,1\n" % name.encode())
    reader = reader_of(tmp_path, "csv", Trade)

    numbered = list(reader.read_numbered())

    assert [(Trade("part-0.csv", 1), 1), (Trade("part-1.csv", 1), 2)] == numbered
    assert f"{tmp_path / 'part-1.csv'}, row 1" == reader.where(2)


def test_a_pattern_is_read_in_the_order_of_names(tmp_path, reader_of):
    for name in ("b.txt", "a.txt", "c.log"):
        (tmp_path / name).write_text(name + "\n")

    assert ["a.txt", "b.txt"] == list(reader_of(tmp_path / "*.txt", "text", str))


def test_rows_that_cross_the_pieces_of_a_file_are_whole(tmp_path, reader_of):
    """
    A file of several megabytes is read in pieces; nothing is lost between them.
    """
    count = 300_000
    with (tmp_path / "n.csv").open("w") as file:
        file.write("value\n")
        file.writelines(f"{n}\n" for n in range(count))

    assert list(range(count)) == list(reader_of(tmp_path / "n.csv", "csv", int))


def test_a_bad_row_stops_with_its_file_row_line_column_and_value(tmp_path, reader_of):
    """
    The error is all that a user needs to find the row, and says how to go on without.
    """
    path = tmp_path / "t.csv"
    path.write_bytes(b"symbol,volume\n\nA,1\nB,x\nC,3\n")
    items = []

    with pytest.raises(InputError) as error:
        items.extend(reader_of(path, "csv", Trade))

    assert (
        f"{path}, row 2 (line 4): column 'volume' must be an int of 64 bits; got 'x'; "
        'correct the file, or leave such rows out with on_error="skip" or '
        "ab.dead_letter(...); read by 'source' (job.py:7)"
    ) == str(error.value)


def test_bad_rows_can_be_skipped_with_nothing_lost_around_them(tmp_path, reader_of):
    path = tmp_path / "t.csv"
    path.write_bytes(b"symbol,volume\nA,1\nB\nC,3\n")
    reader = reader_of(path, "csv", Trade, skip)

    assert [(Trade("A", 1), 1), (Trade("C", 3), 3)] == list(reader.read_numbered())
    assert f"{path}, row 3" == reader.where(3)


def test_bad_rows_go_to_whoever_asks_for_failures(tmp_path, reader_of):
    """
    A failure tells the operator, the place, the row itself and what is wrong.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"symbol": "A", "volume": 1}\n{"symbol": "B"\n')
    lost = []

    assert TRADES[:1] == list(reader_of(path, "jsonl", Trade, lost.append))
    (failure,) = lost
    assert "source" == failure.operator
    assert f"{path}, row 2 (line 2)" == failure.where
    assert '{"symbol": "B"' == failure.item
    assert isinstance(failure.error, InputError)


def test_rows_before_a_bad_one_are_given_first(tmp_path, reader_of):
    (tmp_path / "t.csv").write_bytes(b"symbol,volume\nA,1\nB,x\n")
    items = iter(reader_of(tmp_path / "t.csv", "csv", Trade))

    assert Trade("A", 1) == next(items)
    with pytest.raises(InputError):
        next(items)


ALWAYS_FATAL = {
    "a file that is not there": (None, "does not exist"),
    "a header without a column": (
        b"symbol,size\nA,1\n",
        "there must be a column 'volume'",
    ),
    "an empty file": (b"", "must begin with a header; it is empty"),
    "a header that is not UTF-8": (b"caf\xe9,volume\n", "the header must be UTF-8"),
}


@pytest.mark.parametrize(
    ("data", "text"), ALWAYS_FATAL.values(), ids=ALWAYS_FATAL.keys()
)
def test_some_faults_cannot_be_skipped(tmp_path, reader_of, data, text):
    if data is not None:
        (tmp_path / "t.csv").write_bytes(data)

    with pytest.raises(InputError, match=text):
        list(reader_of(tmp_path / "t.csv", "csv", Trade, skip))


@pytest.mark.parametrize("cut", [5, 40])
def test_a_truncated_gzip_file_is_refused(tmp_path, reader_of, cut):
    """
    A file that was cut off must not pass for a short one, even if bad rows may.
    """
    whole = gzip.compress(ROWS + b"C,3\n" * 50)
    (tmp_path / "t.csv.gz").write_bytes(whole[:cut])

    with pytest.raises(InputError, match="must be a whole gzip file"):
        list(reader_of(tmp_path / "t.csv.gz", "csv", Trade, skip))


def test_what_is_no_gzip_file_is_refused(tmp_path, reader_of):
    (tmp_path / "t.csv.gz").write_bytes(ROWS)

    with pytest.raises(InputError, match="must be a whole gzip file"):
        list(reader_of(tmp_path / "t.csv.gz", "csv", Trade))


def test_an_empty_directory_is_refused(tmp_path, reader_of):
    (tmp_path / "_SUCCESS").touch()

    with pytest.raises(InputError, match="must find a file to read"):
        list(reader_of(tmp_path, "csv", Trade))


def test_a_failing_dead_letter_is_not_blamed_on_the_file(tmp_path, reader_of):
    """
    What a handler of failures raises comes out as it is.
    """
    (tmp_path / "t.csv").write_bytes(b"symbol,volume\nA,x\n")

    def full(_):
        msg = "disk full"
        raise OSError(msg)

    with pytest.raises(OSError, match=r"^disk full$"):
        list(reader_of(tmp_path / "t.csv", "csv", Trade, full))


def test_the_items_of_a_collection_are_numbered():
    reader = open_reader(Op("n", FromIterable([5, 6])), stop)

    assert [(5, 1), (6, 2)] == list(reader.read_numbered())
    assert "item 2 of n" == reader.where(2)


def test_a_generator_starts_afresh_for_each_reading():
    reader = open_reader(Op("n", Generate(lambda: iter([5, 6]))), stop)

    assert [5, 6] == list(reader)
    assert [5, 6] == list(reader)


def test_a_generator_that_fails_stops_with_its_place():
    """
    It cannot be asked for more, so what is lost is not passed over.
    """

    def failing():
        yield 1
        msg = "no more"
        raise ValueError(msg)

    reader = open_reader(Op("n", Generate(failing), site=Site("job.py", 3)), skip)

    with pytest.raises(InputError) as error:
        list(reader)
    assert (
        "source 'n' (job.py:3) must give items to its end; it failed after 1 of them: "
        "ValueError: no more"
    ) == str(error.value)


@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=pytest.mark.spark)]
)
@pytest.mark.parametrize("pure", [True, False])
def test_the_latency_of_a_generator_counts_from_birth(engine, pure):
    def numbers():
        if not pure:
            time.sleep(0.001)
        yield from range(3)

    out = ab.generate(
        numbers, int, born=lambda n: time.time() - 100 * (n + 1)
    ).to_list()

    metrics = ab.run(out, on=engine).metrics()

    assert [0, 1, 2] == out.items
    assert 300_000 <= metrics.latency.max_ms
    assert metrics.latency_from_reading.max_ms < 100_000


def test_a_born_that_fails_names_the_source():
    def numbers():
        yield from range(3)

    out = ab.generate(numbers, int, born=lambda n: "soon").to_list()

    with pytest.raises(InputError, match="born"):
        ab.run(out, on="local")
