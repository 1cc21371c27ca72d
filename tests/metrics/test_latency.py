"""Latency percentiles."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anabranch.metrics.latency import (
    Latencies,
    LatencySummary,
    count_by_ms,
    recent_summary,
    sojourns,
    summary,
)


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_right_to_within_a_few_percent(seed):
    rng = random.Random(seed)
    values = sorted(rng.lognormvariate(-7, 2) for _ in range(5000))
    latencies = Latencies()
    for value in values:
        latencies.record(value)

    found = summary([latencies])

    for name, place in (("p50_ms", 2499), ("p95_ms", 4749), ("p99_ms", 4949)):
        assert getattr(found, name) == pytest.approx(
            values[place] * 1000, rel=0.06, abs=2e-3
        )
    assert found.max_ms == pytest.approx(values[-1] * 1000, rel=0.01)


def test_several_sinks_count_together():
    one, two = Latencies(), Latencies()
    one.record(0.001, 99)
    two.record(1.0, 1)

    found = summary([one, two])

    assert found.items == 100
    assert found.p95_ms == pytest.approx(1, rel=0.06)
    assert found.max_ms == 1000


def test_without_items_there_is_nothing_to_tell():
    assert LatencySummary(0, 0, 0, 0, 0) == summary([])


def test_latencies_one_by_one_are_those_that_came_together():
    together, each = Latencies(), Latencies()
    for latency_s in (0.0, 1e-7, 0.002, 0.05, 0.05, 3.0, 1e9):
        together.record(latency_s)
    each.record_each(np.array([0.0, 1e-7, 0.002, 0.05, 0.05, 3.0, 1e9]))

    assert together.counts == each.counts
    assert together.most_s == each.most_s
    assert together.total_s == pytest.approx(each.total_s)


def test_what_came_out_since_an_earlier_look():
    latencies = Latencies()
    latencies.record(9.0, 50)
    before = sojourns([latencies])
    latencies.record(0.010, 90)
    latencies.record(0.200, 10)

    seen = sojourns([latencies]).since(before)

    assert 100 == seen.items
    assert 0.029 == pytest.approx(seen.mean_s)
    assert 0.010 == pytest.approx(seen.quantile_s(0.9), rel=0.05)
    assert 0.200 == pytest.approx(seen.quantile_s(0.99), rel=0.05)
    assert 0.9 == seen.within(0.1)
    assert 1.0 == seen.within(0.3)


def test_what_is_kept_does_not_grow_with_the_hours():
    """24 hours of latencies that vary, a look every ten seconds."""
    latencies = Latencies()
    for second in range(0, 24 * 3600, 10):
        latencies.record(0.001 * (1 + second % 977), 100, at_s=float(second))

    assert 864_000 == summary([latencies]).items
    assert 600 == recent_summary([latencies], now_s=86_399.0).items
    assert len(latencies.counts) == len(Latencies().counts)
    assert len(latencies._slices) <= 13
    assert len(count_by_ms([latencies])) <= len(latencies.counts)
