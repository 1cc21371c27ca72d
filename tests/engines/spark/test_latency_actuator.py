"""A latency goal on Spark: epochs become as small as the bound wants them."""

from __future__ import annotations

import time

import pytest

import anabranch as ab

pytestmark = pytest.mark.spark


def test_epochs_are_made_for_the_bound_and_the_items_are_the_same():
    @ab.declare(state="stateless")
    def slow(n: int) -> int:
        time.sleep(0.002)
        return n + 1

    load = ab.testing.steps((100, 1.0), (1500, 0.8), (50, 1.0))
    out = ab.testing.offered(load).map(slow).to_list()

    job = ab.run(out, on="spark", goal=ab.latency("1 s"))

    assert list(range(1, len(load) + 1)) == out.items
    assert len(load) == job.metrics().latency.items
    assert any("replicas" in change.what for change in job.history)
    assert all(change.why for change in job.history)
