"""An operator that fails at a punctuation or at an advance of the clock.

Only what failed is missing: the other keys give theirs, and the sign goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab

ENGINES = ["local", pytest.param("spark", marks=pytest.mark.spark)]


class Tick(NamedTuple):
    ts: int
    key: str


TICKS = [Tick(n, "abc"[n % 3]) for n in range(24)]


class Held(ab.Operator):
    """Keeps ticks until a punctuation; those of one key cannot be released at first."""

    def setup(self):
        self.ticks = []

    def process(self, tick: Tick):
        self.ticks.append(tick)
        return []

    def punctuation(self):
        ticks, self.ticks = self.ticks, []
        if ticks[0] == Tick(1, "b"):
            raise ValueError(ticks[0].key)
        return ticks


def released():
    ticks = ab.from_iterable(TICKS, Tick, name="src")
    cut = ticks.punctuate(lambda tick: tick.ts % 6 == 5).key_by("key")
    return cut.apply(Held, type=Tick).key_by().window(punctuation=True).aggregate(list)


class Due(ab.Operator):
    """Wakes up for every tick; one of the times is a bad one."""

    def process(self, tick: Tick):
        self.wake_at(tick.ts + 2)
        return []

    def on_time(self, time):
        if time == 9:
            raise ValueError(time)
        return [time]


def woken():
    ticks = ab.from_iterable(TICKS, Tick, name="src").event_time("ts")
    return ticks.key_by("key").apply(Due)


def results(stream, on):
    lost, out = [], stream.to_list()
    ab.run(
        out,
        on=on,
        degree=None if on == "sequential" else 2,
        on_error=ab.dead_letter(lost.append),
    )
    return out.items, [(failure.operator, failure.where) for failure in lost]


@pytest.mark.parametrize("on", ENGINES)
def test_other_keys_are_asked_and_the_punctuation_goes_on(on):
    items, lost = results(released(), on)

    windows = [TICKS[n : n + 6] for n in range(0, 24, 6)]
    windows[0] = [tick for tick in windows[0] if tick.key != "b"]
    assert [sorted(w) for w in windows] == [sorted(w) for w in items]
    assert [("apply", "item 6 of src")] == lost
    assert (items, lost) == results(released(), "sequential")


@pytest.mark.parametrize("on", ENGINES)
def test_other_timers_fire_and_the_place_is_told(on):
    items, lost = results(woken(), on)

    assert [time for time in range(2, 26) if time != 9] == items
    assert [("apply", "item 10 of src")] == lost
    assert (items, lost) == results(woken(), "sequential")


def test_a_failure_at_an_advance_says_what_the_clock_reached():
    class Woken(ab.Operator):
        def process(self, tick: Tick):
            self.wake_at(tick.ts + 1, at_end=False)
            return []

        def on_time(self, time):
            raise ValueError(time)

    ticks = ab.from_iterable([Tick(1, "a"), Tick(12, "a")], Tick)
    with pytest.raises(ab.errors.OperatorError, match="the clock reached 12>: ValueE"):
        ab.run(ticks.event_time("ts").apply(Woken).to_list(), on="sequential")
