"""A latency goal on Spark: epochs become as small as the bound wants them."""

from __future__ import annotations

import pytest

import anabranch as ab

pytestmark = pytest.mark.spark


def test_epochs_are_made_for_the_bound_and_the_items_are_the_same():
    load = ab.testing.steps((200, 1.5), (2000, 2.0))
    out = ab.testing.offered(load).map(lambda n: n + 1).to_list()

    job = ab.run(out, on="spark", goal=ab.latency("1 s"))

    assert list(range(1, len(load) + 1)) == out.items
    assert len(load) == job.metrics()["latency"]["items"]
    assert any("an epoch admits" in change.what for change in job.history)
    assert all(change.why for change in job.history)
