"""What was decided is told at once, kept, and forgotten when there is too much."""

from __future__ import annotations

import itertools
import logging
import time

import pytest

import anabranch as ab
from anabranch.metrics.job_metrics import MOST, Adaptation, Journal, LatencyStep


def test_only_the_later_half_of_very_many_is_kept_and_all_are_counted():
    journal = Journal()
    for number in range(MOST + 1):
        journal.note(Adaptation(float(number), "more", "a load", ""))

    kept = list(journal)
    assert MOST // 2 + 1 == len(kept)
    assert float(MOST) == kept[-1].at_s
    assert MOST + 1 == journal.decided


def test_an_effect_goes_to_its_own_adaptation():
    journal = Journal()
    first = journal.note(Adaptation(1.0, "more", "a load", ""))
    journal.note(Adaptation(1.0, "more", "a load", ""))

    journal.amend(first, "helped")

    assert ["helped", ""] == [one.effect for one in journal]


def test_a_hook_that_fails_is_logged_and_the_next_is_told_as_well(caplog):
    told = []

    def fail(change: Adaptation) -> None:
        told.append(change.what)
        raise ValueError

    journal = Journal(fail)
    journal.note(Adaptation(1.0, "one", "", ""))
    journal.note(Adaptation(2.0, "two", "", ""))

    assert ["one", "two"] == told
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert 2 == len(errors)
    assert "ValueError" in errors[0].exc_text


def test_a_job_tells_every_decision():
    told = []
    out = ab.generate(itertools.count).map(abs).to_list()

    job = ab.start(out, on="local", degree=1, on_decision=told.append)
    job._running.insert_port("map", why="a test")
    job.stop()

    assert told == list(job.history)
    assert ["a test"] == [change.why for change in told]


def test_a_bound_that_cannot_be_kept_is_told_to_the_hook():
    @ab.declare(state="global")
    def slow(n: int) -> int:
        time.sleep(0.05)
        return n

    told = []
    load = ab.testing.steps((100, 3.0))
    job = ab.start(
        ab.testing.offered(load).map(slow).map(abs).to_list(),
        on="local",
        goal=ab.latency("20 ms", step=0.2),
        on_decision=told.append,
    )
    while not any("cannot be kept" in one.what for one in told):
        assert "running" == job.status
        time.sleep(0.02)
    job.stop()

    assert all(isinstance(step, LatencyStep) for step in job.metrics().steps)


def test_what_is_told_must_be_a_function():
    with pytest.raises(ab.errors.ArgumentError, match="on_decision must be a function"):
        ab.run(ab.from_iterable([1]).to_list(), on_decision="page")
