"""Outputs whose parts appear while a job runs, and outputs that are there already."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, GraphError, OperatorError, OutputError

ENGINES = [
    pytest.param("sequential", {}),
    pytest.param("local", {"degree": 2}),
    pytest.param("spark", {"epoch_items": 3}, marks=pytest.mark.spark),
]


class Number(NamedTuple):
    n: int
    text: str


NUMBERS = [Number(n, f"number {n}") for n in range(10)]


def numbers():
    return ab.from_iterable(NUMBERS, Number)


def parts_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("part-*"))


def lines_of(directory: Path) -> list[list[str]]:
    return [part.read_text().splitlines() for part in parts_of(directory)]


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_parts_hold_so_many_items(engine, options, tmp_path):
    out = tmp_path / "out"
    ab.run(numbers().write_csv(out, roll_items=4), on=engine, **options)
    found = lines_of(out)
    rows = [row for part in found for row in part[1:]]
    assert rows == [f"{n},number {n}" for n in range(10)]
    assert all(part[0] == "n,text" for part in found)
    sizes = [4, 4, 2] if engine != "spark" else [6, 4]  # whole epochs of three
    assert [len(part) - 1 for part in found] == sizes
    assert (out / "_SUCCESS").exists()
    assert not list(tmp_path.glob(".*")) + list(out.glob(".*"))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_parts_hold_so_many_bytes(form, tmp_path):
    out = tmp_path / "out"
    write = getattr(numbers(), f"write_{form}")
    ab.run(write(out, roll_bytes=25), on="local")
    assert len(parts_of(out)) > 2
    if form == "parquet":
        rows = [row["n"] for p in parts_of(out) for row in pq.read_table(p).to_pylist()]
        assert rows == list(range(10))


def test_a_part_appears_when_it_is_old_though_nothing_more_comes(tmp_path):
    out = tmp_path / "out"
    seen = threading.Event()

    def slowly():
        yield NUMBERS[0]
        assert seen.wait(30)
        yield NUMBERS[1]

    def watch():
        while not parts_of(out):
            time.sleep(0.01)
        seen.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    source = ab.generate(slowly, Number)
    ab.run(source.write_jsonl(out, roll="50 ms"), on="local")
    assert [len(part) for part in lines_of(out)] == [1, 1]


def test_parts_that_have_appeared_stay_when_a_job_fails(tmp_path):
    out = tmp_path / "out"

    def fussy(number):
        return number if number.n < 7 else 1 / 0

    with pytest.raises(OperatorError):
        ab.run(numbers().map(fussy).write_csv(out, roll_items=3), on="sequential")
    assert [len(part) - 1 for part in lines_of(out)] == [3, 3]
    assert not (out / "_SUCCESS").exists()


@pytest.mark.parametrize(("engine", "options"), ENGINES)
@pytest.mark.parametrize("name", ["out", "out.csv"])
def test_what_is_there_is_refused_or_replaced(engine, options, name, tmp_path):
    out = tmp_path / name
    ab.run(numbers().write_csv(out), on="sequential")
    with pytest.raises(OutputError, match="must not exist yet"):
        ab.run(numbers().write_csv(out), on=engine, **options)
    few = ab.from_iterable(NUMBERS[:2], Number)
    ab.run(few.write_csv(out, mode="overwrite"), on=engine, **options)
    found = [out.read_text().splitlines()] if out.is_file() else lines_of(out)
    assert [row for part in found for row in part[1:]] == ["0,number 0", "1,number 1"]
    assert not list(tmp_path.glob(".*"))


def test_what_is_there_stays_if_the_job_fails(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old\n")
    broken = numbers().map(lambda number: 1 / 0).write_csv(out, mode="overwrite")
    with pytest.raises(OperatorError):
        ab.run(broken, on="sequential")
    assert out.read_text() == "old\n"


@pytest.mark.parametrize(("engine", "options"), ENGINES)
@pytest.mark.parametrize("limits", [{}, {"roll_items": 4}], ids=["whole", "rolled"])
def test_parts_come_behind_those_that_are_there(engine, options, limits, tmp_path):
    out = tmp_path / "out"
    for _ in range(3):
        program = numbers().write_csv(out, mode="append", **limits)
        ab.run(program, on=engine, **options)
    ab.run(numbers().write_csv(out, mode="append"), on="local")
    rows = [row for part in lines_of(out) for row in part[1:]]
    assert rows == [f"{n},number {n}" for n in range(10)] * 4
    assert (out / "_SUCCESS").exists()


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_a_directory_with_something_else_is_not_replaced(engine, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years")

    with pytest.raises(OutputError, match="which is no part of one"):
        ab.run(numbers().write_csv(out, mode="overwrite"), on=engine)

    assert ["thesis.tex"] == [path.name for path in out.iterdir()]


def test_limits_and_modes_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(GraphError, match="mode must be one of error, overwrite"):
        ab.compile(numbers().write_csv(tmp_path / "out", mode="replace"))
    with pytest.raises(GraphError, match="must have a directory"):
        ab.compile(numbers().write_csv(tmp_path / "out.csv", roll="1 min"))
    with pytest.raises(GraphError, match="must have a directory"):
        ab.compile(numbers().write_csv(tmp_path / "out.csv", mode="append"))
    with pytest.raises(ArgumentError, match="roll_items must be above 0"):
        numbers().write_csv(tmp_path / "out", roll_items=0)
