"""The windowed join against nested loops."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.join import Join, JoinKernel
from anabranch.operators.windows import Window
from tests.operators.driving import Point, drive, on_ports
from tests.programs import definitions

WINDOWS = st.one_of(
    st.integers(1, 4).map(lambda n: Window(count=n)),
    st.integers(1, 6).map(lambda n: Window(time=n, on="t")),
    st.integers(1, 6).map(lambda n: Window(delta=n, on="t")),
)
ARRIVALS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 15)), max_size=20)


@given(WINDOWS, WINDOWS, ARRIVALS, st.booleans())
def test_join_follows_nested_loops(left, right, pairs, ordered):
    if ordered:
        pairs = sorted(pairs, key=lambda pair: pair[1])
    arrivals = on_ports((port, Point(t, n)) for n, (port, t) in enumerate(pairs))
    kind = Join((), left, right, match=lambda a, b: (a.t + b.t) % 3 > 0)
    defined = definitions.join(kind, arrivals)

    assert [(o.trigger, o.item) for o in defined] == drive(JoinKernel(kind), arrivals)


EXAMPLES = {
    "an item meets the window of the other side, oldest first": (
        Join((), Window(count=2), Window(count=2)),
        [(0, 1), (0, 2), (1, 3)],
        [(1, 3), (2, 3)],
    ),
    "left comes first in a pair, whichever came last": (
        Join((), Window(count=1), Window(count=1)),
        [(1, 1), (0, 2)],
        [(2, 1)],
    ),
    "by count the oldest leaves when one too many comes": (
        Join((), Window(count=1), Window(count=9)),
        [(0, 1), (0, 2), (1, 3)],
        [(2, 3)],
    ),
    "an item exactly as old as the window is long has left it": (
        Join((), Window(time=5, on="t"), Window(time=5, on="t")),
        [(0, 1), (0, 2), (1, 6)],
        [(2, 6)],
    ),
    "an item that has left does not come back": (
        Join((), Window(time=5, on="t"), Window(time=5, on="t")),
        [(0, 1), (0, 9), (1, 2)],
        [(9, 2)],
    ),
}


@pytest.mark.parametrize(("kind", "arriving", "pairs"), EXAMPLES.values(), ids=EXAMPLES)
def test_join_examples(kind, arriving, pairs):
    arrivals = on_ports((port, Point(t)) for port, t in arriving)

    outputs = drive(JoinKernel(kind), arrivals)

    assert pairs == [(left.t, right.t) for _, (left, right) in outputs]


def test_an_item_on_which_match_fails_does_not_enter_its_window():
    def match(left, right):
        if left.t == 2:
            raise ValueError(left)
        return True

    kernel = JoinKernel(Join((), Window(count=9), Window(count=9), match=match))
    state = kernel.open()
    kernel.process(state, Point(1), 1)

    with pytest.raises(ValueError, match="t=2"):
        kernel.process(state, Point(2), 0)

    assert () == tuple(kernel.process(state, Point(3), 1))


@pytest.mark.parametrize("other", [Window(time=5, on="t"), Window(count=2)])
@pytest.mark.parametrize(
    "value", [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "noon", math.nan]
)
def test_an_item_that_cannot_be_measured_is_refused_and_not_in(other, value):
    kernel = JoinKernel(Join((), Window(time=5, on="t"), other))
    state = kernel.open()

    with pytest.raises((TypeError, ValueError), match=r"must be a .*number|a unit"):
        kernel.process(state, Point(value), 0)

    assert [(Point(1), Point(2))] == [
        *kernel.process(state, Point(1), 0),
        *kernel.process(state, Point(2), 1),
    ]
