"""How many channels units have."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.division import OF_JOBS, SHARED, TASKS, StageCosts, widths
from anabranch.epochs.layout import EpochLayout, lay_out
from anabranch.job import compile_sinks


def doubled(n: int) -> int:
    return 2 * n


def layout_of(branches: int) -> EpochLayout:
    """So many regions side by side on one level."""
    sinks = [
        ab.from_iterable(range(9), name=f"read{n}").map(doubled).to_list()
        for n in range(branches)
    ]
    made = compile_sinks(*sinks)
    return lay_out(made.graph, made.plan)


def test_a_region_alone_has_as_many_channels_as_wanted():
    assert (4,) == widths(layout_of(1), 4, exactly=False)


def test_a_level_has_no_more_than_some_tasks_for_each_core():
    assert (1,) * 6 == widths(layout_of(6), 2, exactly=False)
    assert (2,) * 4 == widths(layout_of(4), 2, exactly=False)
    assert 100 * TASKS <= sum(widths(layout_of(18), 100, exactly=False)) < 320


def test_what_the_user_has_said_counts():
    assert (2,) * 6 == widths(layout_of(6), 2, exactly=True)


def test_a_unit_has_no_more_channels_than_have_enough_to_do():
    alone, three = layout_of(1), layout_of(3)
    worth_s = OF_JOBS.worth_s

    assert (1,) == widths(alone, 4, exactly=False, work={0: worth_s})
    assert (3,) == widths(alone, 4, exactly=False, work={0: 3.5 * worth_s})
    assert (4,) == widths(alone, 4, exactly=False, work={0: 100.0})
    # Three beside each other on two cores want so much more for each.
    enough = 2 * 3 * SHARED * worth_s
    work = {0: 0.9 * enough, 1: 1.1 * enough}
    assert (1, 2, 2) == widths(three, 2, exactly=False, work=work)


def test_where_tasks_cost_less_a_replica_needs_less_to_do():
    cheap = StageCosts(stage_s=0.002, task_s=0.0005)
    work = {0: 4 * cheap.worth_s}

    assert (1,) == widths(layout_of(1), 4, exactly=False, work=work)
    assert (4,) == widths(layout_of(1), 4, exactly=False, work=work, costs=cheap)


def test_what_the_user_has_said_counts_also_where_there_is_little_to_do():
    assert (4,) == widths(layout_of(1), 4, exactly=True, work={0: 0.0})


@pytest.mark.spark
def test_channels_come_and_go_with_the_work_and_the_result_stays(
    divisions, a_job_for_each_epoch
):
    """Epochs of 90 items have little to do: after the first, one channel is enough."""

    def sink() -> ab.Result:
        read = ab.from_iterable(range(500), name="read")
        return read.map(partial(pair, 7)).key_by("key").scan(running, 0).to_list()

    expected, found = sink(), sink()
    ab.run(expected, on="sequential")
    ab.run(found, on="spark", epoch_items=90)

    assert expected.items == found.items
    used = [one.channels for one in divisions]
    assert 2 in used[0]
    assert any(set(channels) == {1} for channels in used[1:])


@pytest.mark.spark
def test_a_full_level_gives_the_sequential_result():
    """
    Nobody has said how many replicas: keyed regions side by side have one channel each.
    """

    def sinks() -> list[ab.Result]:
        read = ab.from_iterable(range(200), name="read")
        return [
            read.map(partial(pair, n)).key_by("key").scan(running, 0).to_list()
            for n in range(2, 9)
        ]

    expected, found = sinks(), sinks()
    ab.run(*expected, on="sequential")
    ab.run(*found, on="spark", epoch_items=90)

    assert [sink.items for sink in expected] == [sink.items for sink in found]


class Pair(NamedTuple):
    key: int
    value: int


def pair(n: int, value: int) -> Pair:
    return Pair(value % n, value)


def running(total: int, one: Pair) -> tuple[int, tuple[int, int]]:
    return total + one.value, (one.key, total)
