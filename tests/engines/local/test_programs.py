"""Any program, at any degree, under any placement of ports: the sequential result."""

from __future__ import annotations

import random

import pytest

from anabranch.errors import PlanError
from tests.engines.local.shaking import (
    any_configuration,
    ended,
    keep_changing,
    started,
    stumble,
)
from tests.programs.generate import Program, assert_same, program


def checked(made: Program, run) -> None:
    try:
        assert_same(made, run)
    except PlanError:
        pytest.skip("the compiler refuses this program")


@pytest.mark.parametrize("seed", range(60))
def test_any_ports_and_degrees_give_the_sequential_result(seed):
    rng = random.Random(seed)

    def run(sinks):
        ended(started(sinks, lambda *made: any_configuration(rng, *made)))

    checked(program(seed), run)


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_threads_that_stumble_give_the_sequential_result(seed, monkeypatch):
    rng = random.Random(seed)
    stumble(monkeypatch, seed)

    def run(sinks):
        ended(started(sinks, lambda *made: any_configuration(rng, *made)))

    checked(program(seed), run)


@pytest.mark.parametrize("seed", range(2000, 2030))
def test_changes_while_it_runs_give_the_sequential_result(seed, monkeypatch):
    rng = random.Random(seed)
    stumble(monkeypatch, seed)

    def run(sinks):
        running = started(sinks, lambda *made: any_configuration(rng, *made))
        keep_changing(running, rng)
        ended(running)

    checked(program(seed), run)
