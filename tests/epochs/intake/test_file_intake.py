"""What is left to be taken of files and lists, as the intakes tell."""

import gzip
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.connectors.files.input_files import read_range
from anabranch.epochs.intake import files as file_intake
from anabranch.epochs.intake.files import FileIntake, ParquetIntake
from anabranch.epochs.intake.intake import FilePiece
from anabranch.epochs.intake.items import ListedIntake
from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import InputError
from anabranch.graph.graph import Graph
from anabranch.operators.sources import ReadFiles


class Volume(NamedTuple):
    symbol: str
    volume: int


def taken_and_left(intake, rows):
    """Take until the end; what was taken at a time, and what the intake said was left."""
    found = []
    while not intake.ended:
        taken = sum(piece.rows for piece in intake.take(rows, 2, exactly=True))
        found.append((taken, intake.waiting()))
    return found


def test_text_files_know_how_much_is_left(tmp_path):
    """
    All rows are of the same length here; with others it would be about as many.
    """
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text("1234\n" * 6)
    paths[1].write_text("5678\n" * 4)
    intake = FileIntake("read", ReadFiles(str(tmp_path), "text", None), paths)

    assert intake.waiting() is None
    assert [(4, 6), (4, 2), (2, 0)] == [
        one for one in taken_and_left(intake, 4) if one[0]
    ]


def test_parquet_files_know_how_much_is_left(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"value": list(range(10))}), path)

    intake = ParquetIntake("n", ReadFiles(str(path), "parquet", int), [path])

    assert [(4, 6), (4, 2), (2, 0)] == taken_and_left(intake, 4)


def test_lists_know_how_much_is_left(spark):
    share = spark.sparkContext.broadcast
    intake = ListedIntake("n", range(5), Pickler(Graph(())), share)

    assert [(3, 2), (2, 0)] == taken_and_left(intake, 3)


def test_long_rows_make_an_epoch_of_fewer(tmp_path, monkeypatch):
    monkeypatch.setattr(file_intake, "_ENOUGH_BYTES", 50)
    path = tmp_path / "long.txt"
    path.write_text(("x" * 29 + "\n") * 10)
    intake = FileIntake("read", ReadFiles(str(path), "text", None), [path])

    one_by_one = []
    while not intake.ended:
        taken = sum(piece.rows for piece in intake.take(10, 2, exactly=False))
        one_by_one.append(taken)

    assert [3, 3, 3, 1] == [rows for rows in one_by_one if rows]


def test_a_row_far_longer_than_those_before_is_read_in_a_few_blocks(
    tmp_path, monkeypatch
):
    """
    The rows before it say that a few bytes are enough for an epoch.
    """
    path = tmp_path / "long.txt"
    path.write_text("a\nb\n" + "x" * 100_000 + "\n" + "c\n" * 50_000)
    blocks = []

    def read(path, start, size):
        blocks.append(size)
        return read_range(path, start, size)

    monkeypatch.setattr(file_intake, "read_range", read)
    intake = FileIntake("read", ReadFiles(str(path), "text", None), [path])

    first = intake.take(2, 1, exactly=True)
    second = intake.take(2, 1, exactly=False)

    assert [2] == [piece.rows for piece in first]
    assert [(2, 100_003)] == [(p.rows, p.end - p.start) for p in second]
    assert 25 > len(blocks)


def compressed(path, lines):
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_a_compressed_file_is_handed_out_in_ranges_of_its_content(tmp_path, rows):
    lines = [f"{n}\n" for n in range(30)]
    path = compressed(tmp_path / "n.txt.gz", lines)
    intake = FileIntake("read", ReadFiles(str(path), "text", None), [path])
    taken = []
    while not intake.ended:
        taken += intake.take(rows, 2, exactly=True)
    intake.close()

    content = "".join(lines).encode()
    assert all(isinstance(piece, FilePiece) for piece in taken)
    assert content == b"".join(content[piece.start : piece.end] for piece in taken)
    assert [content[: piece.start].count(b"\n") + 1 for piece in taken] == [
        piece.row for piece in taken
    ]


def test_rows_before_the_damage_are_handed_out_first(tmp_path):
    whole = gzip.compress("".join(f"{n:06}\n" for n in range(90_000)).encode())
    path = tmp_path / "cut.txt.gz"
    path.write_bytes(whole[: len(whole) // 2])
    intake = FileIntake("read", ReadFiles(str(path), "text", None), [path])
    rows = sum(piece.rows for piece in intake.take(10**6, 2, exactly=False))

    assert 10_000 < rows < 90_000
    with pytest.raises(InputError, match="must be a whole gzip file"):
        intake.take(1, 1, exactly=False)


@pytest.mark.parametrize("degree", [1, 3])
def test_compressed_files_are_read_like_elsewhere(tmp_path, degree):
    for name in ("a", "b"):
        rows = [f"{name}{n},{n}\n" for n in range(70)]
        compressed(tmp_path / f"{name}.csv.gz", ["symbol,volume\n", *rows])
    out = ab.read_csv(tmp_path, Volume).to_list()
    ab.run(out, on="spark", degree=degree, epoch_items=33)

    assert [Volume(f"{name}{n}", n) for name in "ab" for n in range(70)] == out.items
