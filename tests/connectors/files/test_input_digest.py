"""A file that was rewritten before the place where a job reads on is refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from anabranch.connectors.files import input_files
from anabranch.epochs.intake.files import FileIntake, ParquetIntake
from anabranch.errors import CheckpointError
from anabranch.operators.sources import ReadFiles

ROWS = 200


class Number(NamedTuple):
    n: int


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(input_files, "BLOCK_BYTES", 64)


def write(path: Path, rows: int = ROWS, ends: str = "") -> Path:
    text = "n\n" + "".join(f"{n}\n" for n in range(rows)) + ends
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def intake(*paths: Path) -> FileIntake:
    return FileIntake("numbers", ReadFiles(str(paths[0]), "csv", Number), paths)


def read(reader: FileIntake, rows: int) -> object:
    """Read about so many rows; return the position as a checkpoint would have it."""
    taken = 0
    while taken < rows and not reader.ended:
        taken += sum(piece.rows for piece in reader.take(7, 2, exactly=True))
    return json.loads(json.dumps(reader.position()))


def later(path: Path) -> None:
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 10**9))


@pytest.mark.parametrize("name", ["numbers.csv", "numbers.csv.gz"])
@pytest.mark.parametrize("rows", [0, 7, 105])
def test_a_file_that_has_not_changed_is_read_on(tmp_path, name, rows):
    path = write(tmp_path / name)
    position = read(intake(path), rows)

    again = intake(path)
    again.seek(position)

    assert position == json.loads(json.dumps(again.position()))
    assert read(intake(path), rows + 49) == read(again, 49)


@pytest.mark.parametrize("name", ["numbers.csv", "numbers.csv.gz"])
def test_a_file_that_has_grown_or_was_copied_is_read_on(tmp_path, name):
    path = write(tmp_path / name)
    position = read(intake(path), 100)
    write(path, ends="more\n")
    later(path)

    again = intake(path)
    again.seek(position)

    assert position["offset"] == again.position()["offset"]


@pytest.mark.parametrize("at", [0, 5, 70, 150, 250, 300])
@pytest.mark.parametrize("same_time", [False, True])
def test_a_file_that_was_rewritten_is_refused(tmp_path, at, same_time):
    """
    With the time and the size of before, its ends alone tell.
    """
    path = write(tmp_path / "numbers.csv")
    position = read(intake(path), 100)
    assert 312 == position["offset"]  # four blocks, and 56 bytes
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    if same_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if 64 <= at < 256:
            intake(path).seek(position)  # the time says that nothing was changed
            return
    else:
        later(path)

    with pytest.raises(CheckpointError, match=r"numbers\.csv was changed before byte"):
        intake(path).seek(position)


def test_what_comes_behind_the_position_may_change(tmp_path):
    path = write(tmp_path / "numbers.csv")
    position = read(intake(path), 100)
    data = path.read_bytes()
    path.write_bytes(data[: position["offset"]] + b"other\n")
    later(path)
    again = intake(path)

    again.seek(position)

    assert position["offset"] == again.position()["offset"]


def test_a_file_that_is_shorter_is_refused(tmp_path):
    path = write(tmp_path / "numbers.csv")
    position = read(intake(path), 100)
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(CheckpointError, match="was read up to"):
        intake(path).seek(position)


def test_files_that_were_read_to_their_end_are_remembered(tmp_path):
    paths = [write(tmp_path / f"{name}.csv", 10) for name in "abc"]
    position = read(intake(*paths), 25)
    later(paths[0])

    intake(*paths).seek(position)  # another time alone is none of its business
    paths[0].write_text("n\n9\n9\n")

    with pytest.raises(CheckpointError, match="one of the 2 files that were read"):
        intake(*paths).seek(position)


def test_a_file_that_has_grown_after_it_was_read_to_its_end_is_refused(tmp_path):
    """
    Nobody would read the rows that were added.
    """
    paths = [write(tmp_path / f"{name}.csv", 10) for name in "ab"]
    position = read(intake(*paths), 14)
    write(paths[0], 11)

    with pytest.raises(CheckpointError, match="one of the 1 files that were read"):
        intake(*paths).seek(position)


def test_a_position_of_an_older_format_has_no_fingerprint(tmp_path):
    paths = [write(tmp_path / f"{name}.csv", 10) for name in "abc"]
    position = read(intake(*paths), 15)
    old = {k: v for k, v in position.items() if k not in ("print", "passed")}

    again = intake(*paths)
    again.seek(old)

    assert None is again.position()["passed"]
    assert 30 == read(again, 15)["number"] - 1
    intake(*paths).seek(again.position())


def parquet(path: Path, values: list[int]) -> Path:
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"n": values}), path)
    return path


def test_a_parquet_file_that_was_changed_is_refused(tmp_path):
    paths = [parquet(tmp_path / f"{name}.parquet", [1, 2, 3]) for name in "ab"]
    kind = ReadFiles(str(tmp_path), "parquet", Number)
    reader = ParquetIntake("numbers", kind, paths)
    reader.take(4, 1, exactly=True)
    position = json.loads(json.dumps(reader.position()))

    ParquetIntake("numbers", kind, paths).seek(position)
    later(parquet(paths[1], [1, 5, 3]))
    with pytest.raises(CheckpointError, match=r"b\.parquet was changed since"):
        ParquetIntake("numbers", kind, paths).seek(position)

    position["look"] = None
    later(parquet(paths[0], [1, 5, 3]))
    with pytest.raises(CheckpointError, match="one of the 1 files"):
        ParquetIntake("numbers", kind, paths).seek(position)
