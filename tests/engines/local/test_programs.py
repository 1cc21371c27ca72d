"""Any program, at any degree, under any placement of ports: the sequential result."""

from __future__ import annotations

import random

import pytest

import anabranch as ab
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


@pytest.mark.long
@pytest.mark.parametrize("start", range(10_000, 15_000, 250))
def test_what_follows_a_clock_gives_the_sequential_result_5000_times(start):
    for seed in range(start, start + 250):
        assert_same(
            program(seed, timed=True),
            lambda sinks, degree=1 + seed % 4: ab.run(
                *sinks, on="local", degree=degree
            ),
        )
