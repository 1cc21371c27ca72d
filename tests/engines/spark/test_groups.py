"""Blocks of several items in parallel on Spark: groups line up across tasks and epochs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext

import anabranch as ab
from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.layout import Unit, lay_out, why_not_cut
from anabranch.epochs.ranges import in_groups, portion, without_counts
from anabranch.epochs.task import EpochAttempt, EpochTask, ProcessRows, TaskStage
from anabranch.epochs.wire import WireBatch, in_order
from anabranch.errors import OperatorError
from anabranch.job import compile_sinks
from tests import needs
from tests.engines.blocks import add, pairs, spread, triples

spark = pytest.mark.spark


def first_two(n: int) -> list[int]:
    return [n, -n][: n % 3]


seen = []


def note(n: int) -> int:
    seen.append(n)  # so it runs in the driver
    return n


STEPS = {
    "note": lambda s: s.map(note),
    "add": lambda s: s.map(add),
    "pairs": lambda s: s.block(pairs, pop=2, push=2),
    "triples": lambda s: s.block(triples, pop=3, push=1),
    "spread": lambda s: s.block(spread, pop=4, push=6),
    "odd": lambda s: s.filter(lambda n: n % 2),
    "some": lambda s: s.flat_map(first_two),
    "peek": lambda s: s.block(pairs, pop=1, push=2, peek=2),
    "sum": lambda s: s.scan(lambda total, n: (total + n, total), 0),
    "meet": lambda s: ab.union(
        s.map(add), s.block(spread, pop=4, push=6).block(triples, pop=3, push=1)
    ),
}


def stream_of(names, items):
    stream = ab.from_iterable(list(items), int)
    for name in names:
        stream = STEPS[name](stream)
    return stream


def expected(names, items):
    sink = stream_of(names, items).to_list()
    ab.run(sink, on="sequential")
    return sink.items


def dealt(items, rng, *, producers, period, channels, begun):
    """Send positions through producers to channels; return what each channel runs."""
    bounds = [len(items) * n // producers for n in range(producers + 1)]
    rows = range((items[-1] if items else 0) + 1)
    stage = TaskStage(range(1), (channels,))
    task = EpochTask(stage, EpochAttempt(), ProcessRows(rows))
    unit = Unit("u0", 0, 0, ("b",), (), ordering="contiguous", period=period)
    counts, received = [], [[] for _ in range(channels)]
    for start, end in pairwise(bounds):
        own = np.array(items[start:end], np.int64)
        if len(own):
            counted, parts = in_groups(
                WireBatch([own], None, None, own.tolist()), task, unit
            )
            counts.append(pa.py_buffer(counted))
            for channel, part in parts:
                received[channel].append(part)
    ran = []
    for channel, batches in enumerate(received):
        rng.shuffle(batches)
        _, in_all = without_counts(counts, channels)
        stream = in_order(batches)
        taken = portion(in_all, channel, period, begun, len(stream))
        ran.append((stream.items[taken.start : taken.end], taken.entered))
    return ran


@given(
    st.lists(st.integers(0, 60), unique=True, max_size=40).map(sorted),
    st.integers(2, 9),
    st.randoms(),
    st.data(),
)
def test_each_item_runs_once_and_groups_are_whole(items, period, rng, data):
    begun = data.draw(st.integers(0, period - 1))
    ran = dealt(
        items,
        rng,
        producers=data.draw(st.integers(1, 4)),
        period=period,
        channels=data.draw(st.integers(1, 5)),
        begun=begun,
    )

    assert items == [item for run, _ in ran for item in run]
    left = (begun + len(items)) % period
    assert [left] * (left > 0) == [entered for _, entered in ran if entered]
    place = begun
    for channel, (run, _) in enumerate(ran):
        assert not run or not channel or place % period == 0
        place += len(run)


PROGRAMS = {  # with degree, items in an epoch, items
    "pairs": [(3, 1, 9), (2, 100, 331)],
    "add spread triples odd": [(4, 7, 60)],
    "odd pairs add triples sum": [(2, 7, 60), (1, 100, 331)],
    "some spread triples peek pairs": [(3, 7, 30), (4, 1000, 331)],
    "meet pairs": [(4, 1, 9), (2, 7, 60)],
    "sum triples some spread": [(3, 100, 331)],
    "note triples note pairs": [(2, 20, 50)],
}


@spark
@pytest.mark.parametrize("program", needs.quick(1, PROGRAMS))
def test_any_degree_and_epoch_size_gives_the_sequential_result(program):
    names = program.split()
    for degree, epoch_items, count in PROGRAMS[program]:
        sink = stream_of(names, range(count)).to_list()
        ab.run(sink, on="spark", degree=degree, epoch_items=epoch_items)
        assert expected(names, range(count)) == sink.items, (degree, epoch_items)


@spark
@pytest.mark.parametrize("seed", needs.quick(1, range(3)))
def test_generated_chains_of_blocks_give_the_sequential_result(seed):
    rng = Random(seed)
    names = rng.choices(sorted(STEPS.keys() - {"note"}), k=rng.randint(2, 5))
    sink = stream_of(names, range(150)).to_list()
    ab.run(sink, on="spark", degree=rng.randint(2, 4), epoch_items=40)

    assert expected(names, range(150)) == sink.items


def noting(folder):
    """Return a block function that leaves a trace of the task that it runs in."""
    place = str(folder)

    @ab.declare(state="stateless")
    def total(window: list[int]) -> list[int]:
        Path(place, str(TaskContext.get().partitionId())).touch()
        return [sum(window)]

    return total


@spark
def test_blocks_run_in_several_tasks(tmp_path, a_job_for_each_epoch):
    out = ab.from_iterable(list(range(400)), int).block(noting(tmp_path), pop=4, push=1)
    sink = out.to_list()
    ab.run(sink, on="spark", degree=3, epoch_items=401)

    assert [sum(range(n, n + 4)) for n in range(0, 400, 4)] == sink.items
    assert ["0", "1", "2"] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.long
@spark
def test_items_that_fail_do_not_shift_the_groups(tmp_path):
    def fussy(n: int) -> int:
        if n % 7 == 3:
            raise ValueError(n)
        return n

    out = ab.from_iterable(list(range(100)), int).map(fussy)
    sink = out.block(noting(tmp_path), pop=2, push=1).to_list()
    ab.run(sink, on="spark", degree=3, epoch_items=40, on_error="skip")

    good = [n for n in range(100) if n % 7 != 3]
    assert [a + b for a, b in zip(good[::2], good[1::2], strict=False)] == sink.items
    assert 1 == len(list(tmp_path.iterdir()))  # one task ran them all


class Number(NamedTuple):
    n: int


def sevens(window: list[Number]) -> list[Number]:
    return [Number(sum(item.n for item in window)), window[0]]


def fails_at(number, mended):
    path = str(mended)

    @ab.declare(state="stateless")
    def check(item: Number) -> Number:
        if item.n == number and not Path(path).exists():
            msg = "not yet"
            raise ValueError(msg)
        return item

    return check


@spark
@pytest.mark.parametrize("degree", needs.quick(1, [4, 1]))
def test_a_begun_group_survives_a_restart(tmp_path, degree):
    def run(degree, epoch_items):
        source = ab.from_iterable([Number(n) for n in range(95)], Number)
        checked = source.map(fails_at(70, tmp_path / "mended"))
        ab.run(
            checked.block(sevens, pop=7, push=2).write_csv(tmp_path / "out"),
            on="spark",
            degree=degree,
            epoch_items=epoch_items,
            checkpoint=tmp_path / "checkpoint",
        )

    with pytest.raises(OperatorError, match="not yet"):
        run(3, 30)
    contents = Contents(tmp_path / "checkpoint")
    assert {"from_iterable": 60} == contents.record.read
    waiting = [{"n": n} for n in range(60 - 60 % 7, 60)]
    assert [([], waiting)] == list(contents.states("block"))

    (tmp_path / "mended").touch()
    run(degree, 13)

    parts = sorted((tmp_path / "out").glob("part-*.csv"))
    rows = [int(row) for p in parts for row in p.read_text().splitlines()[1:]]
    wanted = [(sum(range(n, n + 7)), n) for n in range(0, 91, 7)]
    assert [value for pair in wanted for value in pair] == rows


def no_fifties(window: list[Number]) -> list[Number]:
    if any(item.n == 52 for item in window):
        raise ValueError(window)
    return window[:1]


@spark
@pytest.mark.parametrize("on", ["sequential", "spark"])
def test_an_error_names_the_item_that_completed_the_group(tmp_path, on):
    source = ab.from_iterable([Number(n) for n in range(90)], Number)
    with pytest.raises(OperatorError, match="item 56 of from_iterable"):
        ab.run(
            source.block(no_fifties, pop=7, push=1).write_csv(tmp_path / "out"),
            on=on,
            degree=2,
            epoch_items=40,
        )


def layout(sink, on_error="stop"):
    made = compile_sinks(sink, on="spark", on_error=on_error)
    return made, lay_out(made.graph, made.plan, resilient=on_error != "stop")


def test_a_region_with_blocks_begins_behind_the_source():
    made, laid = layout(stream_of(["add", "pairs", "triples", "odd"], []).to_list())

    assert [("from_iterable", "map"), ("block", "block_2", "filter")] == [
        unit.operators for unit in laid.units
    ]
    assert [1, 6] == [unit.period for unit in laid.units]
    assert [region.last_joint for region in made.plan.regions] == ["shuffle", "merge"]
    assert "6 items at a time" in made.explain()
    assert "a source is cut into ranges anywhere" in " ".join(made.explain().split())


def test_a_block_behind_punctuations_or_one_that_looks_ahead_has_one_task():
    marked = ab.from_iterable([1, 2], int).punctuate(lambda n: n > 1)
    for stream, why in (
        (marked.block(pairs, pop=2, push=2), "punctuations come between them"),
        (stream_of(["peek"], []), "peeks at 2 items and takes 1"),
    ):
        made, laid = layout(stream.to_list())
        assert not laid.unit_of["block"].replicated
        assert why in " ".join(made.explain().split())


def test_an_element_that_takes_groups_is_not_cut():
    _, laid = layout(stream_of(["pairs", "add"], []).to_list())

    assert "takes 2 items at a time" in why_not_cut(laid, "map")
    _, laid = layout(stream_of(["pairs", "add"], []).to_list(), on_error="skip")
    assert why_not_cut(laid, "map") is None
