"""Time windows whose bounds are multiples of a fraction, which floats round."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

import anabranch as ab
from tests import needs

STEPS = (0.1, 0.2, 0.3, 0.01, 1.1, 0.7, 0.25, 2)


class Reading(NamedTuple):
    ts: float
    number: int


def readings(seed, count):
    chance = random.Random(seed)
    times = sorted(
        round(chance.uniform(-3, 5), chance.randrange(1, 4)) for _ in range(count)
    )
    return [Reading(time, number) for number, time in enumerate(times)]


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("seed", needs.quick(3, range(40)))
def test_windows_hold_what_lies_between_their_bounds(seed, steps, clocked):
    every = random.Random(seed).choice(STEPS)
    items = readings(seed, 30)
    stream = ab.from_iterable(items, Reading)
    stream = stream.event_time("ts") if clocked else stream
    windows = stream.window(time=every * steps, every=every, on="ts")

    found = ab.testing.outputs(
        windows.aggregate(
            start=ab.window_start(),
            end=ab.window_end(),
            first=ab.first("number"),
            count=ab.count(),
        )
    )

    for one in found:
        inside = [each.number for each in items if one.start <= each.ts < one.end]
        assert (inside[0], len(inside)) == (one.first, one.count)
    assert steps * len(items) == sum(one.count for one in found)


@pytest.mark.parametrize("options", [{"degree": 1}, {"degree": 3}], ids=str)
@pytest.mark.parametrize("every", [0.1, 0.25])
def test_each_item_is_in_one_window_on_replicas_too(options, every):
    def make():
        items = [(n / 10, n % 3) for n in range(100)]
        rows = [Reading(*item) for item in items]
        keyed = ab.from_iterable(rows, Reading).key_by("number")
        return keyed.window(time=every, on="ts").aggregate(list).to_list()

    expected, actual = make(), make()
    ab.run(expected, on="sequential")
    ab.run(actual, on="local", **options)

    assert expected.items == actual.items
    assert 100 == sum(map(len, actual.items))


def test_columns_leave_rounded_multiples_to_python():
    def runs(every):
        stream = ab.from_iterable([Reading(0.5, 1)], Reading)
        named = stream.window(time=every, on="ts").aggregate(count=ab.count())
        (one,) = (
            each
            for each in ab.compile(named.to_list(), on="local").plan.operators
            if each.name == "aggregate"
        )
        return one.runs

    assert ["python", "columns", "columns"] == [runs(0.1), runs(0.25), runs(10)]
