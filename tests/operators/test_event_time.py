"""All that follows a clock, in small programs whose outputs were worked out by hand.

A quick run takes the sequential engine and some programs on the others. All of them:

    pytest --all tests/operators/test_event_time.py
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

import anabranch as ab
from tests import needs
from tests.programs.compare import run_imitated, run_on, run_resumed

UTC = dt.UTC
BERLIN = ZoneInfo("Europe/Berlin")


class Click(NamedTuple):
    ts: float
    user: str = "a"
    value: int = 0


class Visit(NamedTuple):
    at: Any
    user: str = "a"


class Day(NamedTuple):
    at: dt.date


class Quote(NamedTuple):
    symbol: str
    price: int


def clicks(*rows: Any) -> ab.Stream:
    return ab.from_iterable(
        [Click(*row) if isinstance(row, tuple) else Click(row) for row in rows], Click
    )


def visits(*times: dt.datetime) -> ab.Stream:
    return ab.from_iterable([Visit(at) for at in times], Visit)


def at(minute: int, second: int = 0, zone: Any = UTC) -> dt.datetime:
    start = dt.datetime(2026, 3, 1, 12, tzinfo=UTC)
    return (start + dt.timedelta(minutes=minute, seconds=second)).astimezone(zone)


def sum_times(window: Any) -> ab.Stream:
    return window.aggregate(end=ab.window_end(), total=ab.sum("ts"))


def number(n: int, click: Any) -> tuple[int, tuple[str, int]]:
    return n + 1, (click.user, n + 1)


class Alarm(ab.Operator):
    """Two timers for each item, one of which is not wanted at the end."""

    def setup(self) -> None:
        self.n = 0
        self.user = ""

    def process(self, click):
        self.n += 1
        self.user = click.user
        self.wake_at(click.ts + 10)
        self.wake_at(click.ts + 12, at_end=False)
        return [f"in {click.ts}"]

    def on_time(self, time):
        return [f"{self.user} {self.n} at {time}"]

    def finish(self):
        return [f"end {self.user} {self.n}"]


class InFiveMinutes(ab.Operator):
    def process(self, visit):
        self.wake_at(visit.at + dt.timedelta(minutes=5))
        return []

    def on_time(self, time):
        return [time]


class Totals(ab.Operator):
    def setup(self) -> None:
        self.n = 0
        self.user = ""

    def process(self, click):
        self.n += 1
        self.user = click.user
        return []

    def finish(self):
        return [(self.user, self.n)]


def late_items_are_dropped() -> ab.Stream:
    """The clock is at 7 after the first item, and at 9 after the fourth."""
    clocked = clicks(10, 7, 6, 12, 8).event_time("ts", lateness=3)
    return clocked.map(lambda click: click.ts)


def late_items_are_current() -> ab.Stream:
    """3 comes when the clock is at 20, so it counts in the window that ends at 30."""
    given = clicks((5, "a"), (25, "b"), (3, "a"), (26, "a"), (40, "b"))
    clocked = given.event_time("ts", lateness=5, late="current")
    windows = clocked.key_by("user").window(time=10)
    return windows.aggregate(e=ab.window_end(), u=ab.any("user"), t=ab.sum("ts"))


def lengths_have_units() -> ab.Stream:
    """1499 is late: the clock is at 1500."""
    given = clicks(0, 900, 1500, 2500, 1499, 1501)
    clocked = given.event_time("ts", lateness="1 s", unit="ms")
    columns = {"start": ab.window_start(), "end": ab.window_end(), "n": ab.count()}
    return clocked.window(time="1 s").aggregate(**columns)


def a_quiet_key_is_closed() -> ab.Stream:
    given = clicks((1, "b"), (2, "a"), (14, "a"), (8, "a"), (26, "a"))
    clocked = given.event_time("ts", lateness=5).key_by("user")
    windows = clocked.window(time=10)
    return windows.aggregate(lambda w: (w[0].user, [click.ts for click in w]))


def the_slower_clock_counts() -> ab.Stream:
    """The items come as 1 3 50 4 60 21 70 22; the first window closes behind 21."""
    fast = clicks(1, 50, 60, 70).event_time("ts")
    slow = clicks(3, 4, 21, 22).event_time("ts")
    return sum_times(ab.union(fast, slow).window(time=10))


def items_leave_by_their_time() -> ab.Stream:
    """1 is late, and leaves at once."""
    given = clicks(4, 2, 9, 7, 8, 1).event_time("ts", lateness=3, late="current")
    return given.in_order().map(lambda click: click.ts)


def windows_slide() -> ab.Stream:
    clocked = clicks(1, 6, 12, 3, 30).event_time("ts", lateness=9)
    return sum_times(clocked.window(time=10, every=5, on="ts"))


def sessions_are_merged() -> ab.Stream:
    """5 joins 1 and 9; both sessions of the first minute close when the clock is at 21."""
    one = ((1, "a"), (2, "b"), (9, "a"), (5, "a"))
    given = clicks(*one, (30, "b"), (31, "a"), (60, "b"))
    sessions = given.event_time("ts", lateness=9).key_by("user").window(gap=5)
    bounds = {"start": ab.window_start(), "end": ab.window_end()}
    return sessions.aggregate(u=ab.any("user"), **bounds, last=ab.last("ts"))


def sessions_know_datetimes() -> ab.Stream:
    given = visits(at(0), at(10), at(45), at(50)).event_time("at").key_by("user")
    sessions = given.window(gap="30 min", on="at")
    return sessions.aggregate(s=ab.window_start(), e=ab.window_end())


def timers_fire_by_time_and_key() -> ab.Stream:
    given = clicks((1, "b"), (2, "a"), (14, "a"), (20, "b"))
    return given.event_time("ts").key_by("user").apply(Alarm)


def timers_know_datetimes() -> ab.Stream:
    return visits(at(0), at(4), at(5), at(20)).event_time("at").apply(InFiveMinutes)


def old_keys_begin_anew() -> ab.Stream:
    """b is forgotten when 9 has moved the clock; a never is, nor is b again."""
    given = clicks((1, "b"), (2, "a"), (9, "a"), (10, "b"), (13, "a"), (16, "b"))
    return given.event_time("ts").key_by("user", forget_after=5).scan(number, 0)


def old_keys_are_finished() -> ab.Stream:
    given = clicks((1, "b"), (2, "a"), (3, "b"), (20, "c"), (21, "a"))
    return given.event_time("ts").key_by("user", forget_after=5).apply(Totals)


def the_latest_quote_counts() -> ab.Stream:
    """They come as quote A1, trade A10, quote B2, trade A11, quote A3 and the rest."""
    quotes = ab.from_iterable([Quote("A", 1), Quote("B", 2), Quote("A", 3)], Quote)
    trades = [Quote("A", 10), Quote("A", 11), Quote("B", 12), Quote("A", 13)]
    return ab.from_iterable(trades, Quote).join_latest(
        quotes, on="symbol", into=lambda trade, quote: (trade.price, quote.price)
    )


def pairs_are_close_in_time() -> ab.Stream:
    left = visits(at(0, 1), at(0, 20)).event_time("at", lateness="1 min")
    right = visits(at(0, 10), at(0, 11), at(0, 29), at(0, 30))
    return left.join(
        right.event_time("at", lateness="1 min"),
        on="user",
        within="10 s",
        into=lambda a, b: (a.at.second, b.at.second),
    )


def weeks_begin_on_thursday() -> ab.Stream:
    """The first day of 1970 was a Thursday."""
    days = [Day(dt.date(2026, 3, day)) for day in (1, 2, 9, 20)]
    clocked = ab.from_iterable(days, Day).event_time("at", lateness="2 d")
    weeks = clocked.window(time=dt.timedelta(days=7))
    return weeks.aggregate(start=ab.window_start(), n=ab.count())


def bounds_are_in_the_zone_of_the_times() -> ab.Stream:
    given = visits(*(at(minute, zone=BERLIN) for minute in (1, 4, 7)))
    windows = given.event_time("at").window(time="5 min", on="at")
    return windows.aggregate(end=ab.window_end(), n=ab.count())


def bounds_need_no_clock() -> ab.Stream:
    day = dt.datetime(2026, 3, 1)  # noqa: DTZ001 - times without a zone
    given = visits(*(day + dt.timedelta(hours=hour) for hour in (1, 2, 30)))
    days = given.key_by("user").window(time="1 d", on="at")
    return days.aggregate(start=ab.window_start(), n=ab.count())


def keys_are_names_and_functions() -> ab.Stream:
    given = clicks((1, "a", 1), (2, "a", 2), (3, "a", 3), (4, "b", 1))
    return given.key_by("user", lambda click: click.value % 2).scan(number, 0)


def keys_are_entries_of_dicts() -> ab.Stream:
    given = [{"k": "a", "ts": 1}, {"k": "b", "ts": 2}, {"k": "a", "ts": 12}]
    windows = ab.from_iterable(given).event_time("ts").key_by("k").window(time=10)
    return windows.aggregate(k=ab.any("k"), end=ab.window_end())


def tables_are_looked_up() -> ab.Stream:
    into = lambda click, firm: (click.ts, firm)
    return clicks((1, "a"), (2, "b")).lookup(
        {"a": "A"}, on="user", into=into, default=0
    )


def the_latest_of_a_stream_is_looked_up() -> ab.Stream:
    rates = clicks((1, "a", 5), (2, "b", 6), (3, "a", 7))
    asked = clicks((1, "a"), (2, "z"), (3, "b"), (4, "a"))
    into = lambda click, rate: (click.ts, rate and rate.value)
    return asked.lookup(rates, on="user", into=into, default=None)


MIDNIGHT = dt.datetime(2026, 3, 1)  # noqa: DTZ001 - times without a zone
ONE_DAY = dt.timedelta(days=1)
EXPECTED: dict[Any, list[Any]] = {
    late_items_are_dropped: [10, 7, 12],
    late_items_are_current: [
        *((10, "a", 5), (30, "a", 29), (30, "b", 25), (50, "b", 40)),
    ],
    lengths_have_units: [(0, 1000, 2), (1000, 2000, 2), (2000, 3000, 1)],
    a_quiet_key_is_closed: [("a", [2]), ("b", [1]), ("a", [14]), ("a", [26])],
    the_slower_clock_counts: [(10, 8), (30, 43), (60, 50), (70, 60), (80, 70)],
    items_leave_by_their_time: [2, 4, 1, 7, 8, 9],
    windows_slide: [(5, 4), (10, 10), (15, 18), (20, 12), (35, 30), (40, 30)],
    sessions_are_merged: [
        *(("b", 2, 7, 2), ("a", 1, 14, 5), ("b", 30, 35, 30), ("a", 31, 36, 31)),
        ("b", 60, 65, 60),
    ],
    sessions_know_datetimes: [(at(0), at(40)), (at(45), at(80))],
    timers_fire_by_time_and_key: [
        *("in 1", "in 2", "in 14", "b 1 at 11", "a 2 at 12", "b 1 at 13", "a 2 at 14"),
        *("in 20", "a 2 at 24", "b 2 at 30", "end a 2", "end b 2"),
    ],
    timers_know_datetimes: [at(5), at(9), at(10), at(25)],
    old_keys_begin_anew: [
        *(("b", 1), ("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2)),
    ],
    old_keys_are_finished: [("a", 1), ("b", 2), ("a", 1), ("c", 1)],
    the_latest_quote_counts: [(10, 1), (11, 1), (12, 2), (13, 3)],
    pairs_are_close_in_time: [(1, 10), (20, 11), (20, 29)],
    weeks_begin_on_thursday: [
        *((dt.date(2026, 2, 26), 2), (dt.date(2026, 3, 5), 1)),
        (dt.date(2026, 3, 19), 1),
    ],
    bounds_are_in_the_zone_of_the_times: [
        (at(5, zone=BERLIN), 2),
        (at(10, zone=BERLIN), 1),
    ],
    bounds_need_no_clock: [(MIDNIGHT, 2), (MIDNIGHT + ONE_DAY, 1)],
    keys_are_names_and_functions: [("a", 1), ("a", 1), ("a", 2), ("b", 1)],
    keys_are_entries_of_dicts: [("a", 10), ("b", 10), ("a", 20)],
    tables_are_looked_up: [(1, "A"), (2, 0)],
    the_latest_of_a_stream_is_looked_up: [(1, 5), (2, None), (3, 6), (4, 7)],
}
NAMES = [case.__name__ for case in EXPECTED]


def check(case: Any, run: Any, **options: Any) -> None:
    (found,) = run([case().to_list()], **options)

    plain = [tuple(one) if isinstance(one, tuple) else one for one in found]
    assert repr(EXPECTED[case]) == repr(plain)  # so that 1 is not 1.0


@pytest.mark.parametrize("case", EXPECTED, ids=NAMES)
def test_one_thread(case):
    check(case, run_on, on="sequential")


@pytest.mark.parametrize("user", "abcdef")
def test_replicas_without_items_do_not_know_the_kind_of_times(user):
    """The clock never advances: an input of the union has none."""
    given = ab.from_iterable([Visit(MIDNIGHT, user)], Visit).event_time("at")
    silent = ab.from_iterable([], Visit).event_time("at")
    days = ab.union(given, silent).key_by("user").window(time="1 d")
    out = days.aggregate(start=ab.window_start(), end=ab.window_end()).to_list()

    ab.run(out, on="local", degree=4)

    assert [(MIDNIGHT, MIDNIGHT + ONE_DAY)] == list(map(tuple, out.items))


OPTIONS = [
    *({"on": "local", "degree": degree} for degree in (1, 2, 3, 4)),
    *(
        {"on": "spark", "degree": degree, "epoch_items": items}
        for degree, items in ((1, 1), (2, 2), (3, 100))
    ),
]
# The first ones, which a quick run takes, are of different programs and options.
PAIRS = [
    (case, OPTIONS[(turn + 3 * number) % len(OPTIONS)])
    for turn in range(len(OPTIONS))
    for number, case in enumerate(EXPECTED)
]


@pytest.mark.parametrize("pair", needs.quick(6, PAIRS))
def test_replicas_and_epochs(pair):
    case, options = pair
    check(case, run_imitated if options["on"] == "spark" else run_on, **options)


@pytest.mark.parametrize("case", needs.quick(1, list(EXPECTED)[::-1]))
def test_a_job_that_resumes(case):
    options = {"on": "spark", "degree": 2, "epoch_items": 1}
    before = [case().to_list()]
    check(case, lambda sinks, **how: run_resumed(before, sinks, **how), **options)


@pytest.mark.spark
@pytest.mark.parametrize(
    "case", needs.quick(1, list(EXPECTED)[9:] + list(EXPECTED)[:9])
)
def test_spark_itself(case, tmp_path: Path):
    checkpoint = tmp_path / "checkpoint"
    options = {"on": "spark", "degree": 2, "epoch_items": 2, "checkpoint": checkpoint}
    check(case, run_on, **options)
