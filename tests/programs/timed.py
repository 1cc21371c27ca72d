"""The functions and classes of generated programs that follow a clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

import anabranch as ab
from tests.programs.fragile import refuse
from tests.programs.functions import PRIME, Event


def shake(e: Event) -> Event:
    """Put a stream out of order: an event is up to 12 earlier than it was."""
    return e._replace(ts=e.ts - e.value % 13)


def half(e: Event) -> int:
    """Give the key of an event: which half its value is in, whatever its zone."""
    return 0 if e.value < PRIME // 20 else 1


SHIFTS = {0: 5, 2: 11}  # by zone; there is none for 1


def shift_by(e: Event, shift: int) -> Event:
    return e._replace(value=(e.value + shift) % PRIME)


def jump(e: Event) -> Event:
    """Put a stream far out of order, now and then."""
    return e._replace(ts=e.ts - 50) if e.value % 11 == 0 else e


class Alarm(ab.Operator):
    """Counts events and says so five after each of them."""

    def setup(self):
        self.n = 0
        self.latest = None

    def process(self, e):
        self.n += 1
        self.latest = e
        self.wake_at(e.ts + 5)
        return [e] if self.n % 3 == 0 else []

    def on_time(self, time):
        yield self.latest._replace(ts=time, value=self.n % PRIME)


class Echoes(ab.Operator):
    """Wakes up again and again, at times that the clock has passed too."""

    def setup(self):
        self.rounds = 0
        self.latest = None

    def process(self, e):
        self.latest = e
        self.rounds = 2
        self.wake_at(e.ts - 20)
        self.wake_at(e.ts + 30, at_end=False)
        return []

    def on_time(self, time):
        if self.rounds:
            self.rounds -= 1
            self.wake_at(time + 8)
        yield self.latest._replace(ts=time, value=self.rounds)

    def finish(self):
        if self.latest is not None:
            yield self.latest


class DatedAlarm(ab.Operator):
    """Tells, some units of time after each event, how many there were."""

    def __init__(self, unit: dt.timedelta) -> None:
        self.unit = unit
        self.n = 0

    def process(self, e):
        self.n += 1
        self.wake_at(e.at + 4 * self.unit)
        self.wake_at(e.at + 9 * self.unit, at_end=False)
        self.key = e.key
        return []

    def on_time(self, time):
        yield Moment(time, self.key, 0, self.n)


class FragileAlarm(ab.Operator):
    """Refuses some events and some of its own times."""

    def setup(self) -> None:
        self.n = 0
        self.latest = Event(0, "none", 0, 0)

    def process(self, e: Event) -> Iterator[Event]:
        self.n += 1
        self.latest = e
        self.wake_at(e.ts + 4)
        refuse(e)
        yield e

    def on_time(self, time: int) -> Iterator[Event]:
        refuse(self.latest)
        yield self.latest._replace(ts=time, value=self.n)


# ---------------------------------------------------------------- times of the calendar

SECOND, DAY = dt.timedelta(seconds=1), dt.timedelta(days=1)
BERLIN = ZoneInfo("Europe/Berlin")
# The last 200 seconds of summer time, and of a year: events go beyond.
AUTUMN = dt.datetime(2026, 10, 25, 0, 56, 40, tzinfo=dt.UTC)
NEW_YEAR = dt.datetime(1969, 12, 31, 23, 59, 20)  # noqa: DTZ001 - times without a zone


class Moment(NamedTuple):
    at: dt.datetime
    key: str
    zone: int
    value: int


class Day(NamedTuple):
    at: dt.date
    key: str
    zone: int
    value: int


def dated(e: Event) -> Moment:
    return Moment(AUTUMN + e.ts * SECOND, e.key, e.zone, e.value)


def zoned(e: Event) -> Moment:
    return Moment((AUTUMN + e.ts * SECOND).astimezone(BERLIN), e.key, e.zone, e.value)


def unzoned(e):
    return Moment(NEW_YEAR + e.ts * SECOND, e.key, e.zone, e.value)


def by_day(e: Event) -> Day:
    return Day(dt.date(1969, 12, 20) + e.ts * DAY, e.key, e.zone, e.value)


def undated(m) -> Event:
    """Give an event that tells times of the calendar apart."""
    at = m.at
    mark = at.toordinal()
    if isinstance(at, dt.datetime):
        mark += at.hour * 3600 + at.minute * 60 + at.second
    return Event(mark % PRIME, m.key, m.zone % 3, m.value % PRIME)


def mark_moments(moments):
    mark = 0
    for m in moments:
        mark = (mark * 31 + undated(m).ts + m.value) % PRIME
    return moments[-1]._replace(zone=len(moments) % 3, value=mark)


def number_moment(n, m):
    return n + 1, m._replace(value=n)


def pair_moments(left, right):
    return left._replace(value=(left.value * 2 + right.value) % PRIME)


# ---------------------------------------------------------------- the latest of a stream


def pair_or_none(e: Event, other: Event | None) -> Event:
    return e._replace(value=-1 if other is None else (e.value + other.ts) % PRIME)
