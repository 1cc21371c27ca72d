import datetime as dt
from typing import NamedTuple

import pytest

from anabranch.language.sources import from_iterable
from anabranch.operators.windows import Window, any_, count, first, max_, mean, sum_
from tests.language.faults import assert_accepted, assert_refused, faults_in
from tests.language.types import Quote, Trade


class Total(NamedTuple):
    symbol: str
    total: float


def windowed(**window):
    """A program with one window, punctuated before it."""
    stream = from_iterable([], Trade).punctuate(lambda t: t.volume > 9)
    return lambda: stream.window(**window).aggregate(list).to_list()


REFUSED = {
    "no size": (
        {},
        "exactly one of count, time, delta, gap and punctuation; it has none",
    ),
    "two sizes": ({"count": 2, "time": 3, "on": "ts"}, "it has count and time"),
    "a count of 0": (
        {"count": 0},
        "count of window must be a whole number above 0; got 0",
    ),
    "half a count": ({"count": 1.5}, "must be a whole number above 0; got 1.5"),
    "true for a count": ({"count": True}, "must be a whole number above 0; got True"),
    "a negative time": (
        {"time": -1, "on": "ts"},
        "time of window must be a number above 0",
    ),
    "an endless time": ({"time": float("inf"), "on": "ts"}, "must be a number above 0"),
    "time on nothing": ({"time": 5}, "window by time must know the attribute"),
    "delta on nothing": ({"delta": 5}, "window by delta must know the attribute"),
    "count on something": (
        {"count": 5, "on": "ts"},
        "window by count looks at no attribute",
    ),
    "time on what is not there": (
        {"time": 5, "on": "tss"},
        "on of window names 'tss', which Trade does not have; did you mean 'ts'?",
    ),
    "time on a str": ({"time": 5, "on": "symbol"}, "'symbol' of Trade is str"),
    "a slide of 0": (
        {"count": 5, "every": 0},
        "every of window must be a whole number",
    ),
    "half a slide": (
        {"count": 5, "every": 0.5},
        "every of window must be a whole number",
    ),
    "a slide by punctuation": (
        {"punctuation": True, "every": 2},
        "window ends at punctuations, so it cannot slide by every=2",
    ),
    "late items of a count": (
        {"count": 5, "late": "drop"},
        "only a window by time has late",
    ),
    "an unknown word for late": (
        {"time": 5, "on": "ts", "late": "keep"},
        "late of window must be 'error', 'drop' or 'current'; got 'keep'",
    ),
}


@pytest.mark.parametrize(
    ("time", "every"), [("10 min", 60), (600, "1 min"), (600, dt.timedelta(minutes=1))]
)
def test_a_length_with_a_unit_and_one_without_are_refused_on_any_stream(time, every):
    stream = from_iterable([])

    (fault,) = faults_in(
        lambda: stream.window(time=time, every=every, on="ts").aggregate(list).to_list()
    )
    assert "time and every of window must both have a unit, or neither" in fault.text
    assert_accepted(
        lambda: (
            stream.event_time("ts", unit="s")
            .window(time=time, every=every, on="ts")
            .aggregate(list)
            .to_list()
        )
    )


@pytest.mark.parametrize(("window", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_windows_that_are_refused(window, text):
    (fault,) = faults_in(windowed(**window))

    assert text in f"{fault.text}; {fault.fix}"


ACCEPTED = [
    {"count": 5},
    {"count": 5, "every": 1},
    {"count": 2, "every": 5},
    {"time": 0.5, "on": "ts"},
    {"time": 300, "on": "ts", "every": 60, "late": "drop"},
    {"delta": 5, "on": "price", "every": 2.5},
    {"time": 5, "on": "value"},
    {"punctuation": True},
]


@pytest.mark.parametrize("window", ACCEPTED, ids=str)
def test_windows_that_are_accepted(window):
    assert_accepted(windowed(**window))


JOIN_REFUSED = {
    "punctuation": (Window(punctuation=True), "left_window must hold the latest items"),
    "a slide": (Window(count=5, every=2), "it is given every"),
    "a negative count": (Window(count=-1), "count of left_window must be"),
    "false for a count": (Window(count=False), "count of left_window must be"),
    "time on what one side lacks": (
        Window(time=5, on="volume"),
        "on of left_window names 'volume', which Quote does not have",
    ),
}


@pytest.mark.parametrize(
    ("window", "text"), JOIN_REFUSED.values(), ids=JOIN_REFUSED.keys()
)
def test_join_windows_that_are_refused(window, text):
    trades, quotes = from_iterable([], Trade), from_iterable([], Quote)

    (fault,) = faults_in(
        lambda: trades.join(quotes, left_window=window, right_window=1).to_list()
    )

    assert text in fault.text


def test_join_windows_by_count_and_by_time_are_accepted():
    trades, quotes = from_iterable([], Trade), from_iterable([], Quote)

    assert_accepted(
        lambda: trades.join(
            quotes, left_window=Window(delta=5, on="ts"), right_window=3
        ).to_list()
    )


def test_a_side_of_a_join_may_keep_nothing():
    trades, quotes = from_iterable([], Trade), from_iterable([], Quote)

    assert_accepted(
        lambda: trades.join(quotes, left_window=0, right_window=1).to_list()
    )


def test_a_join_whose_sides_both_keep_nothing_is_refused():
    trades, quotes = from_iterable([], Trade), from_iterable([], Quote)

    (fault,) = faults_in(
        lambda: trades.join(quotes, left_window=0, right_window=0).to_list()
    )

    assert "a side of a join must keep items" in fault.text


def aggregated(*arguments, **columns):
    stream = from_iterable([], Trade).window(count=2)
    return lambda: stream.aggregate(*arguments, **columns).to_list()


AGGREGATES_REFUSED = {
    "neither function nor columns": (aggregated(), "it has neither"),
    "both function and columns": (aggregated(len, n=count()), "it has both"),
    "a function and into": (aggregated(len, into=Total), "into is for columns"),
    "a column that is none": (aggregated(n=len), "column 'n' must be made by ab.sum"),
    "a column of what is not there": (
        aggregated(total=sum_("size")),
        "column 'total' names 'size', which Trade does not have",
    ),
    "a sum of str": (
        aggregated(total=sum_("symbol")),
        "sum of column 'total' must look",
    ),
    "a mean of str": (aggregated(m=mean("symbol")), "mean of column 'm' must look"),
    "columns that into does not have": (
        aggregated(symbol=any_("symbol"), sum=sum_("volume"), into=Total),
        "into must take the columns symbol, sum; Total does not",
    ),
    "a column that into misses": (
        aggregated(total=sum_("volume"), into=Total),
        "missing a required argument: 'symbol'",
    ),
    "a column of another type than into has": (
        aggregated(symbol=count(), total=sum_("volume"), into=Total),
        "column 'symbol' is int, but Total has it as str",
    ),
    "into that cannot be called": (
        aggregated(n=count(), into=3),
        "into must be a type or a function; got 3",
    ),
}


@pytest.mark.parametrize(
    ("program", "text"), AGGREGATES_REFUSED.values(), ids=AGGREGATES_REFUSED.keys()
)
def test_aggregates_that_are_refused(program, text):
    (fault,) = faults_in(program)

    assert text in fault.text


AGGREGATES_ACCEPTED = {
    "a function": aggregated(len),
    "columns": aggregated(n=count(), m=mean("price"), top=max_("symbol")),
    "columns of a property": aggregated(total=sum_("value")),
    "columns into a type, an int for a float": aggregated(
        symbol=any_("symbol"), total=sum_("volume"), into=Total
    ),
    "columns into a function": aggregated(a=first("ts"), into=lambda a: a),
    "columns into what takes anything": aggregated(a=first("ts"), into=dict),
}


@pytest.mark.parametrize(
    "program", AGGREGATES_ACCEPTED.values(), ids=AGGREGATES_ACCEPTED.keys()
)
def test_aggregates_that_are_accepted(program):
    assert_accepted(program)


def test_the_fault_points_at_the_line_of_the_aggregate():
    def program():
        trades = from_iterable([], Trade)
        windows = trades.window(count=-1)
        return windows.aggregate(len).to_list()  # cause

    assert_refused(program, "count of window")
