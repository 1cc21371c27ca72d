"""An empty file among others is no reason to stop, where errors do not stop a job."""

from __future__ import annotations

import gzip
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.intake.open_intake import open_intake
from anabranch.errors import InputError
from anabranch.language.drafts import build_graph


class Number(NamedTuple):
    n: int


@pytest.fixture
def folder(tmp_path):
    """Two files with rows, and an empty one between them."""
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    (tmp_path / "b.csv").write_bytes(b"")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "c.csv").write_text("n\n3\n")
    return tmp_path


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_it_goes_to_the_dead_letters(folder, on):
    lost: list[ab.Failure] = []
    out = ab.read_csv(folder, Number).to_list()

    ab.run(out, on=on, on_error=ab.dead_letter(lost.append))

    assert [Number(1), Number(2), Number(3)] == out.items
    assert [str(folder / "b.csv"), str(folder / "b.csv.gz")] == [x.item for x in lost]
    assert all("must begin with a header; it is empty" in str(x.error) for x in lost)


def test_spark_takes_the_same_rows_and_reports_the_same(folder):
    lost: list[ab.Failure] = []
    (source,) = build_graph([ab.read_csv(folder, Number).to_list()]).sources
    intake = open_intake(source, None, lost.append, None, scratch=folder)
    pieces = []
    while not intake.ended:
        pieces += intake.take(10, 1, exactly=True)

    assert [("a.csv", 2), ("c.csv", 1)] == [
        (piece.path.rpartition("/")[2], piece.rows) for piece in pieces
    ]
    assert [str(folder / "b.csv"), str(folder / "b.csv.gz")] == [x.item for x in lost]
    again = open_intake(source, None, lost.append, None, scratch=folder)
    again.seek(intake.position())
    assert again.ended


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_it_stops_a_job_that_errors_stop(folder, on):
    with pytest.raises(InputError, match=r"b\.csv must begin with a header"):
        ab.run(ab.read_csv(folder, Number).to_list(), on=on)
