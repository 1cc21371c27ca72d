"""An operator that has state after all: the epoch is taken back, and one thread goes on."""

from __future__ import annotations

import os
from itertools import accumulate
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import RefutedError
from tests.runtime.verify.cases import mislead, run_misled

pytestmark = pytest.mark.spark

SEEN: list[int] = []
LATE: list[int] = []  # of its own: workers stay, and so does what they have changed


OTHERS: list[int] = []  # that only a sink changes


class Item(NamedTuple):
    key: int
    value: int


def number(item):
    SEEN.append(item)
    return len(SEEN)


def late(item):
    if item.value > 40:
        LATE.append(item)
    return Item(item.key, item.value + len(LATE))


def keep(item):
    OTHERS.append(item)


def read_others(item):
    return (len(OTHERS), item)


def read_size(item):
    return (len(SEEN), item)


@pytest.fixture(autouse=True)
def _empty():
    SEEN.clear()


def test_the_epoch_is_taken_back_and_runs_again_with_the_operator_sequential():
    out = ab.from_iterable(range(60)).map(number, name="number").to_list()
    made = mislead([out], "spark", [number])

    job = run_misled(made, "spark", degree=2, epoch_items=20)

    assert list(range(1, 61)) == out.items
    (change,) = [one for one in job.history if "number" in one.what]
    assert change.what == "run number sequentially, from epoch 1 on"
    assert "global SEEN has changed: a list of 0, then a list of" in change.why
    assert "test_verify.py" in change.why
    assert "nothing of epoch 1 was published" in change.effect


def test_the_plan_of_the_job_learns_it():
    out = ab.from_iterable(range(60)).map(number, name="number").to_list()
    made = mislead([out], "spark", [number])
    assert "number" in made.plan.regions[0].operators

    job = run_misled(made, "spark", degree=2, epoch_items=20)

    why = {one.operator: one.why for one in job.plan.sequential}
    assert "global SEEN changed while it ran" in why["number"]
    assert "global SEEN changed while it ran" in job.compilation.explain()


def test_operators_that_share_what_has_changed_become_sequential_together():
    numbered = ab.from_iterable(range(60)).map(number, name="number")
    out = numbered.map(read_size, name="size").to_list()
    made = mislead([out], "spark", [number, read_size])

    run_misled(made, "spark", degree=2, epoch_items=20)

    assert [(n, n) for n in range(1, 61)] == out.items


def test_files_hold_nothing_of_the_epoch_that_was_taken_back(tmp_path):
    path = tmp_path / "out"
    out = ab.from_iterable(range(60)).map(number).write_jsonl(path)
    made = mislead([out], "spark", [number])

    run_misled(made, "spark", degree=2, epoch_items=20)

    parts = sorted(path.glob("part-*"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    assert [str(n) for n in range(1, 61)] == lines


def test_a_state_that_would_have_to_move_stops_the_job():
    items = ab.from_iterable([Item(n % 3, n) for n in range(60)], Item)
    counted = items.key_by("key").scan(lambda n, i: (n + 1, i), 0)
    out = counted.map(late, name="late").to_list()
    made = mislead([out], "spark", [late])

    with pytest.raises(RefutedError, match="global LATE has changed") as told:
        run_misled(made, "spark", degree=2, epoch_items=20)

    assert any("states of earlier epochs" in note for note in told.value.__notes__)
    assert list(range(40)) == [item.value for item in out.items]


def test_with_a_checkpoint_the_job_stops(tmp_path):
    out = ab.from_iterable(range(60)).map(number).write_csv(tmp_path / "out")
    made = mislead([out], "spark", [number])

    with pytest.raises(RefutedError):
        run_misled(made, "spark", degree=2, checkpoint=str(tmp_path / "checkpoint"))


def test_a_change_in_the_driver_stops_the_job():
    items = ab.from_iterable(range(60))
    sinks = [items.map(read_others).to_list(), items.for_each(keep)]
    made = mislead(sinks, "spark", [read_others, keep])

    with pytest.raises(RefutedError, match="global OTHERS has changed"):
        run_misled(made, "spark", degree=2, epoch_items=20)


def test_a_program_without_state_is_left_alone():
    table = dict(zip(range(60), accumulate(range(60)), strict=True))
    out = ab.from_iterable(range(60)).map(lambda n: table[n]).to_list()

    job = ab.run(out, degree=2, epoch_items=20, verify="all")

    assert list(accumulate(range(60))) == out.items
    assert job.history == ()


def name_process(item):
    return os.getpid()


def test_what_another_process_computes_otherwise_is_taken_back():
    out = ab.from_iterable(range(60)).map(name_process, name="process").to_list()
    made = mislead([out], "spark", [name_process])

    job = run_misled(made, "spark", degree=2, epoch_items=20)

    assert [os.getpid()] * 60 == out.items
    (change,) = [one for one in job.history if "process" in one.what]
    assert f"has changed: {os.getpid()}" not in change.why
    assert f"then {os.getpid()}" in change.why
