"""How long levels would take with other widths."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.epochs.division import OF_JOBS
from anabranch.epochs.layout import lay_out
from anabranch.epochs.log import LevelTimes
from anabranch.epochs.task import Report
from anabranch.job import compile_sinks
from anabranch.metrics.load import ThreadSamples


def doubled(n: int) -> int:
    return 2 * n


def step(total: int, n: int) -> tuple[int, int]:
    return total + n, total


def times(cores: int, *tasks: tuple[str, float]) -> LevelTimes:
    """A region that reads and doubles, then a sum that is one task."""
    read = ab.from_iterable(range(9), name="read").map(doubled, name="double")
    made = compile_sinks(read.scan(step, 0, name="sum").to_list())
    layout = lay_out(made.graph, made.plan)
    reports = [
        Report(
            layout.unit_of[name].number,
            channel,
            samples=(ThreadSamples(name, seconds, seconds, {}),),
        )
        for channel, (name, seconds) in enumerate(tasks)
    ]
    return LevelTimes(layout, reports, cores)


def test_levels_run_one_after_the_other_and_their_tasks_side_by_side():
    found = times(2, ("double", 1.0), ("double", 3.0), ("sum", 2.0))

    assert 5.0 == found.now_s
    assert (0, 3.0) == (found.slowest, found.longest_s)


def test_more_channels_divide_a_region_and_nothing_else():
    found = times(4, ("double", 2.0), ("double", 2.0), ("sum", 2.0))

    assert pytest.approx(1.0 + 2.0) == found.with_degree(4)
    assert pytest.approx(4.0 + 2.0) == found.with_degree(1)


def test_cores_bound_what_channels_bring():
    found = times(2, ("double", 2.0), ("double", 2.0))

    assert 2.0 == found.now_s == found.with_degree(8)


def test_a_degree_that_needs_another_stage_takes_longer_for_it():
    found = times(4, ("double", 2.0), ("double", 2.0), ("sum", 2.0))

    assert pytest.approx(4.0 - 2.0 - OF_JOBS.stage_s) == found.longer_s(2, 1)
    assert pytest.approx(1.0 - 2.0) == found.longer_s(2, 4)


def test_degrees_differ_if_units_have_enough_to_do_for_them():
    busy, idle = times(2, ("double", 1.0)), times(2, ("double", 0.001))

    assert busy.differ(1, 2)
    assert not idle.differ(1, 2)
