"""Any program, at any degree, under any placement of ports: the sequential result."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.errors import EngineError
from anabranch.runtime.split import BUCKETS
from tests import needs
from tests.engines.local.shaking import (
    any_configuration,
    ended,
    keep_changing,
    started,
    stumble,
)
from tests.programs.generate import assert_same, program


@pytest.mark.parametrize("seed", needs.quick(8, range(60)))
def test_any_ports_and_degrees_give_the_sequential_result(seed):
    rng = random.Random(seed)

    def run(sinks):
        ended(started(sinks, lambda *made: any_configuration(rng, *made)))

    assert_same(program(seed), run)


@pytest.mark.parametrize("seed", needs.quick(5, range(1000, 1030)))
def test_threads_that_stumble_give_the_sequential_result(seed, monkeypatch):
    rng = random.Random(seed)
    stumble(monkeypatch, seed)

    def run(sinks):
        ended(started(sinks, lambda *made: any_configuration(rng, *made)))

    assert_same(program(seed), run)


@pytest.mark.parametrize("seed", needs.quick(5, range(2000, 2030)))
def test_changes_while_it_runs_give_the_sequential_result(seed, monkeypatch):
    rng = random.Random(seed)
    stumble(monkeypatch, seed)

    def run(sinks):
        running = started(sinks, lambda *made: any_configuration(rng, *made))
        keep_changing(running, rng)
        ended(running)

    assert_same(program(seed), run)


class Reading(NamedTuple):
    key: int
    n: int


def mix(before: int, reading: Reading) -> tuple[int, Reading]:
    mixed = (before * 31 + reading.n) % 1_000_003
    return mixed, Reading(reading.key, mixed)


def add_up(readings: list[Reading]) -> Reading:
    return Reading(readings[0].key, sum(one.n for one in readings))


def follow_clock(stream: ab.Stream) -> ab.Stream:
    return stream.event_time("n", lateness=11)


KEYED = {
    "one for one": lambda keyed: keyed.scan(mix, 0),
    "some": lambda keyed: keyed.scan(mix, 0).filter(lambda one: one.n % 3 > 0),
    "several": lambda keyed: keyed.scan(mix, 0).flat_map(lambda o: [o] * (o.n % 3)),
    "windows": lambda keyed: keyed.window(count=5, every=2).aggregate(add_up),
    "clock": lambda keyed: keyed.window(time=40, on="n").aggregate(add_up),
    "sessions": lambda keyed: keyed.window(gap=9, on="n").aggregate(add_up),
    "positions": lambda keyed: keyed.scan(mix, 0),
}


@pytest.mark.parametrize("shape", KEYED)
@pytest.mark.parametrize("seed", needs.quick(1, range(4000, 4020)))
def test_keys_that_move_all_the_time_give_the_sequential_result(
    shape, seed, monkeypatch
):
    rng = random.Random(seed)
    stumble(monkeypatch, seed)
    readings = [Reading(n * 7919 % 23, n) for n in range(400)]

    def trickle():
        for n, one in enumerate(readings):
            if n % 20 == 0:
                time.sleep(0.001)
            yield one

    def build(stream):
        timed = follow_clock(stream) if shape in ("clock", "sessions") else stream
        made = KEYED[shape](timed.key_by("key"))
        if shape == "positions":
            made = ab.union(made, stream.scan(mix, 0))
        return made.to_list()

    wanted = build(ab.from_iterable(readings, Reading))
    ab.run(wanted, on="sequential")
    out = build(ab.generate(trickle, Reading))

    def choose(_, plan):
        keyed = next(region.name for region in plan.regions if region.key)
        return Configuration(epoch=3).with_active(keyed, 4)

    running = started([out], choose)
    (region,) = running.configuration.degrees
    moved = 0
    while running.status == "running":
        before = running.configuration
        after = before.with_active(region, rng.randint(1, 8))
        table = tuple(rng.randrange(after.degrees[region]) for _ in range(BUCKETS))
        try:
            moved += len(running.flow.switch(after.with_table(region, table)).moved)
        except EngineError:
            break
    ended(running)

    assert wanted.items == out.items
    assert moved > 0


@pytest.mark.parametrize("seed", needs.quick(6, range(3000, 3040)))
def test_what_follows_a_clock_gives_the_sequential_result(seed, monkeypatch):
    rng = random.Random(seed)
    if seed % 2:
        stumble(monkeypatch, seed)

    def run(sinks):
        running = started(sinks, lambda *made: any_configuration(rng, *made))
        if seed % 3 == 0:
            keep_changing(running, rng)
        ended(running)

    assert_same(program(seed, timed=True), run)


@pytest.mark.parametrize("seed", needs.quick(6, [11217, 404132, *range(3041, 3080)]))
def test_what_follows_a_clock_is_the_same_in_columns(seed, monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    degree = 1 + seed % 4
    assert_same(
        program(seed, timed=True),
        lambda sinks: ab.run(*sinks, on="local", degree=degree),
    )


@pytest.mark.long
@pytest.mark.parametrize("start", range(10_000, 15_000, 250))
def test_what_follows_a_clock_gives_the_sequential_result_5000_times(
    start, monkeypatch
):
    if start % 500:
        monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    for seed in range(start, start + 250):
        assert_same(
            program(seed, timed=True),
            lambda sinks, degree=1 + seed % 4: ab.run(
                *sinks, on="local", degree=degree
            ),
        )
