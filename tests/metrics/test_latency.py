"""Latency percentiles."""

from __future__ import annotations

import random

import pytest

from anabranch.metrics.latency import Latencies, summary


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_right_to_within_a_few_percent(seed):
    rng = random.Random(seed)
    values = sorted(rng.lognormvariate(-7, 2) for _ in range(5000))
    latencies = Latencies()
    for value in values:
        latencies.record(value)

    found = summary([latencies])

    for name, place in (("p50_ms", 2499), ("p95_ms", 4749), ("p99_ms", 4949)):
        assert found[name] == pytest.approx(values[place] * 1000, rel=0.06, abs=2e-3)
    assert found["max_ms"] == pytest.approx(values[-1] * 1000, rel=0.01)


def test_several_sinks_count_together():
    one, two = Latencies(), Latencies()
    one.record(0.001, 99)
    two.record(1.0, 1)

    found = summary([one, two])

    assert found["items"] == 100
    assert found["p95_ms"] == pytest.approx(1, rel=0.06)
    assert found["max_ms"] == 1000


def test_without_items_there_is_nothing_to_tell():
    assert summary([]) == {
        "items": 0,
        "p50_ms": 0,
        "p95_ms": 0,
        "p99_ms": 0,
        "max_ms": 0,
    }
