"""Windows: which items each holds, when it is emitted, and what columns say of it."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.errors import LateItemError
from anabranch.operators.stateless import WINDOW
from anabranch.operators.windows import Aggregate, AggregateKernel, Column, Window
from tests.operators.driving import Point, drive, drive_items, on_ports, points
from tests.programs.window_definitions import windows_of

TIMES = st.lists(st.integers(-20, 60), max_size=25)
SIZES = st.integers(1, 12)


def lists_of(window: Window) -> AggregateKernel:
    return AggregateKernel(Aggregate(window, function=list))


def times_in(window: Window, times: list[float]) -> list[list[float]]:
    return [[p.t for p in w] for w in drive_items(lists_of(window), points(times))]


EXAMPLES = {
    "tumbling by count; the rest at the end": (
        Window(count=2),
        [1, 2, 3, 4, 5],
        [[1, 2], [3, 4], [5]],
    ),
    "sliding by count begins and ends with partial windows": (
        Window(count=3, every=2),
        [1, 2, 3, 4, 5],
        [[1, 2], [2, 3, 4], [4, 5]],
    ),
    "sliding by count with a stride above the size leaves items out": (
        Window(count=1, every=3),
        [1, 2, 3, 4, 5, 6, 7],
        [[3], [6]],
    ),
    "by time, aligned to multiples, not to the first item": (
        Window(time=10, on="t"),
        [7, 9, 10, 19, 20],
        [[7, 9], [10, 19], [20]],
    ),
    "empty windows by time are not emitted": (
        Window(time=10, on="t"),
        [1, 55],
        [[1], [55]],
    ),
    "times below zero": (Window(time=10, on="t"), [-11, -10, -1, 0], [[-11], [-10, -1], [0]]),
    "sliding by time": (
        Window(time=10, every=5, on="t"),
        [1, 6, 12],
        [[1], [1, 6], [6, 12], [12]],
    ),
    "sliding by time with gaps between the windows": (
        Window(time=2, every=5, on="t"),
        [0, 2, 3, 4, 5, 9],
        [[3, 4], [9]],
    ),
    "by delta from the item that opened the window": (
        Window(delta=10, on="t"),
        [7, 9, 16, 17, 30],
        [[7, 9, 16], [17], [30]],
    ),
    "a tumbling window by delta keeps what fell below its first item": (
        Window(delta=10, on="t"),
        [10, 2, 15, 20],
        [[10, 2, 15], [20]],
    ),
    "sliding by delta": (
        Window(delta=10, every=5, on="t"),
        [0, 4, 6, 12, 30],
        [[0, 4], [0, 4, 6], [4, 6, 12], [30]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("window", "times", "windows"), EXAMPLES.values(), ids=EXAMPLES
)
def test_worked_examples(window, times, windows):
    assert windows == times_in(window, times)


@given(SIZES, st.none() | SIZES, st.lists(st.integers(), max_size=30))
def test_count_windows_are_slices(size, every, items):
    window = Window(count=size, every=every)
    arrivals = on_ports((0, item) for item in items)

    assert windows_of(window, arrivals) == drive(lists_of(window), arrivals)


@given(SIZES, st.none() | SIZES, TIMES.map(sorted))
def test_time_windows_hold_what_lies_between_their_boundaries(size, every, times):
    window = Window(time=size, every=every, on="t")
    arrivals = on_ports((0, point) for point in points(times))

    assert windows_of(window, arrivals) == drive(lists_of(window), arrivals)


@given(SIZES, st.none() | SIZES, TIMES, st.sampled_from(["drop", "current"]))
def test_late_items_are_dropped_or_count_as_just_in_time(size, every, times, late):
    window = Window(time=size, every=every, on="t", late=late)
    arrivals = on_ports((0, point) for point in points(times))

    assert windows_of(window, arrivals) == drive(lists_of(window), arrivals)


@given(SIZES, TIMES)
def test_every_item_is_in_exactly_one_tumbling_time_window(size, times):
    window = Window(time=size, on="t", late="current")
    items = points(times)

    emitted = [p for w in drive_items(lists_of(window), items) for p in w]

    assert sorted(items) == sorted(emitted)


@given(SIZES, st.none() | SIZES, TIMES)
def test_delta_windows_follow_the_definition(size, every, values):
    window = Window(delta=size, every=every, on="t")
    arrivals = on_ports((0, point) for point in points(values))

    assert windows_of(window, arrivals) == drive(lists_of(window), arrivals)


@given(st.lists(st.integers(0, 5) | st.just(WINDOW), max_size=20))
def test_punctuation_windows_hold_what_stands_between_punctuations(marks):
    window = Window(punctuation=True)
    arrivals = on_ports((0, mark) for mark in marks)

    assert windows_of(window, arrivals) == drive(lists_of(window), arrivals)


def test_a_window_is_emitted_before_the_item_that_closes_it_is_added():
    window = Window(time=10, on="t")
    arrivals = on_ports((0, point) for point in points([1, 11]))

    assert [(1, [Point(1, 0)]), (math.inf, [Point(11, 1)])] == drive(
        lists_of(window), arrivals
    )


def test_a_late_item_is_an_error_unless_said_otherwise():
    kernel = lists_of(Window(time=10, on="t"))
    state = kernel.open()
    kernel.process(state, Point(5), 0)
    kernel.process(state, Point(25), 0)

    with pytest.raises(LateItemError, match="got 12 in"):
        kernel.process(state, Point(12), 0)

    assert [[Point(25)]] == kernel.finish(state)


def test_an_item_that_is_out_of_order_inside_its_window_is_not_late():
    assert [[19, 11], [20]] == times_in(Window(time=10, on="t"), [19, 11, 20])


COLUMNS = {
    "sum": 9,
    "count": 3,
    "any": 4,
    "first": 4,
    "last": 3,
    "min": 2,
    "max": 4,
    "mean": 3.0,
}


@pytest.mark.parametrize(("function", "value"), COLUMNS.items())
def test_columns(function, value):
    column = Column(function, None if function == "count" else "t")
    kernel = AggregateKernel(Aggregate(Window(count=3), columns=(("x", column),)))

    (row,) = drive_items(kernel, points([4, 2, 3]))

    assert value == row.x


def test_columns_go_into_a_type_by_name():
    columns = (("tag", Column("count")), ("t", Column("max", "t")))
    kernel = AggregateKernel(Aggregate(Window(count=2), columns=columns, into=Point))

    assert [Point(t=7, tag=2)] == drive_items(kernel, points([7, 3]))


def test_a_window_whose_function_fails_is_gone():
    def refuse_two(items):
        if 2 in items:
            raise ValueError(items)
        return sum(items)

    kernel = AggregateKernel(Aggregate(Window(count=2), function=refuse_two))
    state = kernel.open()
    kernel.process(state, 1, 0)

    with pytest.raises(ValueError, match="1, 2"):
        kernel.process(state, 2, 0)

    kernel.process(state, 3, 0)
    assert [7] == kernel.process(state, 4, 0)


NO_NUMBERS = {
    "a datetime": (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), TypeError),
    "a date": (dt.date(2026, 1, 1), TypeError),
    "a duration": (dt.timedelta(seconds=1), TypeError),
    "text": ("12:30", TypeError),
    "nothing": (None, TypeError),
    "NaN": (math.nan, ValueError),
    "infinity": (math.inf, ValueError),
}


@pytest.mark.parametrize("window", [Window(time=5, on="t"), Window(delta=5, on="t")])
@pytest.mark.parametrize(("value", "kind"), NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_cannot_be_measured_is_refused_and_leaves_the_window_as_it_was(
    window, value, kind
):
    """
    NaN would be in no window and belong to none: it would be lost without a word.
    """
    kernel = lists_of(window)
    state = kernel.open()
    with pytest.raises(kind, match=r"must be a .*number|must have a unit"):
        kernel.process(state, Point(value), 0)
    kernel.process(state, Point(1), 0)
    with pytest.raises(kind, match=r"must be a .*number|must have a unit"):
        kernel.process(state, Point(value), 0)
    kernel.process(state, Point(2), 0)

    assert [[Point(1), Point(2)]] == kernel.finish(state)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "time='5 s'"),
        (dt.date(2026, 1, 1), "time='5 d'"),
    ],
)
def test_a_bare_length_over_datetimes_is_told_to_take_a_unit(value, said):
    kernel = lists_of(Window(time=5, on="t"))

    with pytest.raises(TypeError, match="must have a unit where 't' is a date") as told:
        kernel.process(kernel.open(), Point(value), 0)

    assert said in str(told.value)
    assert "map the items" not in str(told.value)


def test_a_column_may_have_any_name():
    pairs = ab.from_iterable([{"x": 1}, {"x": 4}])
    sums = pairs.window(count=2).aggregate(f=ab.sum("x"), self=ab.max("x"))

    (row,) = ab.testing.outputs(sums)

    assert {"f": 5, "self": 4} == row._asdict()
