"""How many channels units have."""

from __future__ import annotations

import anabranch as ab
from anabranch.engines.spark.layout import Layout, lay_out
from anabranch.engines.spark.widths import TASKS, widths
from anabranch.job import compile_sinks


def doubled(n: int) -> int:
    return 2 * n


def layout_of(branches: int) -> Layout:
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
