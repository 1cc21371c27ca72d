"""The pieces of a text file: whole rows, counted and numbered, however they were found."""

from __future__ import annotations

import csv
import io
import random
from typing import NamedTuple

import pytest

from anabranch.connectors.files import input_files
from anabranch.connectors.files.input_files import content_of
from anabranch.epochs.intake import files as file_intake
from anabranch.epochs.intake.files import FileIntake
from anabranch.operators.sources import ReadFiles

HEADER = b"name,text\n"


class Note(NamedTuple):
    name: str
    text: str


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in (input_files, file_intake):
        monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(file_intake, "_SAMPLE_BYTES", 100)


def make_lines(rng, *, odd):
    """Return lines of a file; some of them need more than a count of newlines."""
    lines = [b"n%d,%s\n" % (n, b"x" * rng.randrange(9)) for n in range(120)]
    strange = [b'q,"a\nb"\n', b"\n", b"\r\n", b"c,d\r\n", b"long," + b"y" * 300 + b"\n"]
    for _ in range(odd):
        lines.insert(rng.randrange(len(lines)), rng.choice(strange))
    if rng.random() < 0.5:
        lines.append(b"last,row")
    return lines


def take_all(intake, rng):
    pieces = []
    while not intake.ended:
        pieces += intake.take(rng.randrange(1, 60), rng.randrange(1, 4), exactly=False)
    return pieces


@pytest.mark.parametrize("seed", range(60))
def test_pieces_are_the_rows_of_the_file(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "notes.csv"
    path.write_bytes(HEADER + b"".join(make_lines(rng, odd=seed % 4)))
    data = path.read_bytes()
    intake = FileIntake("read", ReadFiles(str(path), "csv", Note), [path])

    pieces = take_all(intake, rng)

    at, row = len(HEADER), 1
    for piece in pieces:
        text = data[piece.start : piece.end].decode()
        rows = [one for one in csv.reader(io.StringIO(text, newline="")) if one]
        assert (piece.first, piece.row, piece.rows) == (row, row, len(rows))
        assert piece.line == 1 + data[: piece.start].count(b"\n")
        assert not data[at : piece.start].strip(b"\r\n")  # only blank lines between
        at, row = piece.end, row + len(rows)
    assert not data[at:].strip(b"\r\n")
    passed = input_files.PassedFiles().with_file(
        path, input_files.FileLook.at(path), content_of(path)
    )
    assert intake.position()["passed"] == vars(passed)


def test_rows_that_newlines_end_are_counted_without_holding_them(tmp_path, monkeypatch):
    path = tmp_path / "notes.csv"
    path.write_bytes(HEADER + b"a,1\n" * 500)
    intake = FileIntake("read", ReadFiles(str(path), "csv", Note), [path])
    intake.take(5, 1, exactly=False)  # tells the length of rows
    monkeypatch.setattr(FileIntake, "_read", None)

    pieces = intake.take(300, 2, exactly=False)

    assert [piece.rows for piece in pieces] == [150, 150]


def test_a_quote_in_a_later_part_leaves_the_intake_as_it_was(tmp_path):
    path = tmp_path / "notes.csv"
    lines = [*[b"a,1\n"] * 100, b'b,"2\n3"\n', *[b"a,1\n"] * 100]
    path.write_bytes(HEADER + b"".join(lines))
    intake = FileIntake("read", ReadFiles(str(path), "csv", Note), [path])
    intake.take(4, 1, exactly=False)
    before = intake.position()

    assert intake._take_plain(150, 3) == []
    assert intake.position() == before
