"""What is left to be taken of files and lists, as the intakes tell."""

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engines.spark import file_intake
from anabranch.engines.spark.file_intake import FileIntake, ParquetIntake
from anabranch.engines.spark.intake import SequenceIntake
from anabranch.engines.spark.pickling import Pickler
from anabranch.graph.graph import Graph
from anabranch.graph.sources import ReadFiles


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
    pq.write_table(pa.table({"n": list(range(10))}), path)

    assert [(4, 6), (4, 2), (2, 0)] == taken_and_left(ParquetIntake("n", [path]), 4)


def test_lists_know_how_much_is_left():
    intake = SequenceIntake("n", range(5), Pickler(Graph(())))

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
