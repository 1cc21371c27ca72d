"""Reported latency against a measurement of our own, on real sources and under overload.

What is measured here knows nothing of the metrics: the sender writes into each row when
it was sent, and the sink looks at the clock. A program that falls behind must not look as
if it kept up, and one that keeps up must not look late.
"""

from __future__ import annotations

import pytest

from bench.latency.reported import LOADS, NEAR, SENDERS, Compared, compare

SECONDS = 4.0


@pytest.mark.long
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", SENDERS)
def test_percentiles_are_within_a_tenth_of_what_the_sink_sees(kind, load):
    found = compare(kind, load, SECONDS, on="local")

    assert found.items == found.reported_items
    assert max(found.find_off().values()) <= NEAR, found


def test_a_report_is_off_by_a_share_of_the_truth_unless_clocks_explain_it():
    near = Compared(1, 1, {"p50": 20.0, "p99": 1000.0}, {"p50": 18.5, "p99": 1100.0})
    far = Compared(1, 1, {"p50": 100.0, "p99": 8000.0}, {"p50": 150.0, "p99": 23.0})

    assert {"p50": 0.0, "p99": pytest.approx(0.1)} == near.find_off()
    assert {"p50": 0.5, "p99": pytest.approx(0.997, abs=1e-3)} == far.find_off()
