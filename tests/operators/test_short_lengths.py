"""A length that is lost in the rounding of the times fails; no item disappears."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import GraphError, OperatorError


class Reading(NamedTuple):
    v: float


S = ab.from_iterable([Reading(1.0), Reading(1.0), Reading(2.0)], Reading)
CLOCKED = S.event_time("v")
BEFORE_THE_RUN = {
    "subnormal": lambda: S.window(time=1e-320, on="v"),
    "smallest": lambda: S.window(time=5e-324, on="v"),
    "every": lambda: S.window(time=1, every=1e-310, on="v"),
    "by the clock": lambda: CLOCKED.window(time=1e-320),
    "gap": lambda: CLOCKED.window(gap=1e-320),
    "overlap": lambda: S.window(time=1, every=1e-16, on="v"),
    "overlap by the clock": lambda: CLOCKED.window(time=1e300, every=1e-300),
}
AT_THE_ITEM = {
    "just below": lambda: S.window(time=1e-16, on="v"),
    "far below": lambda: S.window(time=1e-300, on="v"),
    "sliding": lambda: S.window(time=2e-16, every=1e-16, on="v"),
    "by the clock": lambda: CLOCKED.window(time=1e-17),
    "sliding by the clock": lambda: CLOCKED.window(time=2e-16, every=1e-16),
    "gap": lambda: CLOCKED.window(gap=1e-17),
}


@pytest.mark.parametrize("window", BEFORE_THE_RUN.values(), ids=BEFORE_THE_RUN)
def test_a_length_that_can_never_work_is_refused_before_the_run(window):
    with pytest.raises(GraphError, match=r"of window must be .*; give \w+= a larger"):
        ab.testing.outputs(window().aggregate(n=ab.count()))


@pytest.mark.parametrize("on", ["sequential", "local"])
@pytest.mark.parametrize("window", AT_THE_ITEM.values(), ids=AT_THE_ITEM)
def test_a_length_below_the_resolution_of_a_time_fails_at_its_item(window, on):
    out = window().aggregate(n=ab.count()).to_list()

    with pytest.raises(OperatorError, match=r"=.* must be longer at the time 1\.0: "):
        ab.run(out, on=on)


def test_a_join_within_less_than_the_resolution_of_a_time_fails_at_its_item():
    joined = CLOCKED.join(CLOCKED, within=1e-17)

    with pytest.raises(OperatorError, match=r"within=1e-17 must be longer at the time"):
        ab.testing.outputs(joined)


def test_short_windows_work_where_floats_are_close_enough():
    short = S.window(time=1e-15, on="v").aggregate(n=ab.count())

    assert [2, 1] == [row.n for row in ab.testing.outputs(short)]


def test_integers_have_windows_of_any_length():
    long = ab.from_iterable([Reading(10**20), Reading(10**20 + 1)], Reading)

    counts = long.window(time=1, on="v").aggregate(n=ab.count())

    assert [1, 1] == [row.n for row in ab.testing.outputs(counts)]
