"""Parts of a file sink: only those that reports name become part of the output."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.outputs import StagedOutput, WholeOutput
from anabranch.epochs.state.buckets import Stamp
from anabranch.errors import CheckpointError, OutputError
from anabranch.runtime.failures import stop


class Item(NamedTuple):
    number: int


def sink(path):
    made = ab.compile(ab.from_iterable([Item(1)], type=Item).write_csv(path))
    (op,) = made.graph.sinks
    return op


@pytest.fixture(params=["at the end", "epoch by epoch"])
def output(request, tmp_path):
    op = sink(tmp_path / "out")
    if request.param == "at the end":
        return WholeOutput(op, Item, stop)
    return StagedOutput(op, Item, stop, "identity", new=True)


def write(output, stage, part, number):
    (output.directory / stage / part).write_text(f"number\n{number}\n")


def test_only_the_parts_that_are_named_are_in_the_output(output, tmp_path):
    output.begin("1-1")
    write(output, "1-1", "7.part-000000001-0000.csv", 7)
    write(output, "1-1", "8.part-000000001-0000.csv", 8)
    write(output, "1-1", ".8.part-000000001-0001.csv.ab.tmp", 8)

    output.publish("1-1", ["7.part-000000001-0000.csv"])
    output.complete()

    found = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert {"part-000000001-0000.csv": "number\n7\n", "_SUCCESS": ""} == found
    assert ["out"] == [path.name for path in tmp_path.iterdir()]


def test_the_parts_of_a_try_that_was_given_up_are_removed_with_the_epoch(output):
    output.begin("1-1")
    write(output, "1-1", "7.part-000000001-0000.csv", 7)
    output.begin("1-2")
    write(output, "1-2", "9.part-000000001-0000.csv", 9)

    output.publish("1-2", ["9.part-000000001-0000.csv"])

    assert [] == list(output.directory.glob("1-*"))


def test_an_attempt_that_comes_late_finds_no_place_to_write_to(output):
    output.begin("1-1")
    output.publish("1-1", [])

    with pytest.raises(FileNotFoundError):
        write(output, "1-1", "8.part-000000001-0000.csv", 8)


def test_what_was_published_may_be_published_again(output):
    output.begin("1-1")
    write(output, "1-1", "7.part-000000001-0000.csv", 7)

    output.publish("1-1", ["7.part-000000001-0000.csv"])
    output.publish("1-1", ["7.part-000000001-0000.csv"])

    (part,) = output.parts_in(output._parts)
    assert "part-000000001-0000.csv" == part.name


def test_a_part_that_is_named_and_not_there_is_told(output):
    output.begin("1-1")

    with pytest.raises((OutputError, CheckpointError), match=r"is not there|missing"):
        output.publish("1-1", ["7.part-000000001-0000.csv"])


def test_a_job_that_failed_leaves_nothing_behind(tmp_path):
    output = WholeOutput(sink(tmp_path / "out"), Item, stop)
    output.begin("1-1")
    write(output, "1-1", "7.part-000000001-0000.csv", 7)

    output.abort()

    assert [] == list(tmp_path.iterdir())


def test_of_two_runs_each_leaves_the_stages_that_the_other_may_still_need(tmp_path):
    op = sink(tmp_path / "out")
    before = StagedOutput(op, Item, stop, "identity", new=True)
    before.begin("1-100")
    before.begin("2-101")  # it may be about to record this epoch
    later = StagedOutput(op, Item, stop, "identity", new=False)
    later.begin("2-300")

    run = StagedOutput(op, Item, stop, "identity", new=False)
    run.check(0, NO_KEY, Stamp(2, 200))

    left = {path.name for path in later.directory.glob("[0-9]*")}
    assert {"2-101", "2-300"} == left
