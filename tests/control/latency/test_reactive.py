"""Algorithm 1 of the paper, case by case."""

from __future__ import annotations

import pytest

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import Room
from anabranch.control.latency.reactive import regulate
from anabranch.metrics.pipeline import RegionLoad
from tests.control.seen import latencies, observed, step

# constraint 180 ms, so thresholds of 10% and 20% are at 162 and 144 ms
CASES = {
    "above the constraint, one is suspended": (0.181, 5, 0.1, 1, 4),
    "at the constraint, nothing": (0.180, 5, 0.1, 1, None),
    "just below it, nothing": (0.170, 5, 0.1, 1, None),
    "below it by more than 10%, one is woken": (0.160, 5, 0.1, 1, 6),
    "but not with a threshold of 20%": (0.160, 5, 0.2, 1, None),
    "below it by more than 20%": (0.140, 5, 0.2, 1, 6),
    "two are suspended with a scaling factor of 2": (0.2, 5, 0.1, 2, 3),
    "two are woken with a scaling factor of 2": (0.1, 5, 0.1, 2, 7),
    "one replica is left": (0.2, 2, 0.1, 2, 1),
    "the last one stays": (9.0, 1, 0.1, 1, None),
    "cores minus the other stages are the most": (0.1, 9, 0.1, 2, 10),
    "no more than that": (0.1, 10, 0.1, 1, None),
}


@pytest.mark.parametrize(
    ("mean_s", "replicas", "threshold", "scaling", "wanted"), CASES.values(), ids=CASES
)
def test_regulator(mean_s, replicas, threshold, scaling, wanted):
    goal = Latency(0.18, policy="reactive", threshold=threshold, scaling=scaling)
    seen = step(100, degree=replicas, latency_s=mean_s)

    found = regulate(seen, {"r0": replicas}, goal, Room(cores=12, others=2))

    assert wanted == (None if found is None else found.degrees["r0"])


def test_the_mean_counts_not_the_worst():
    seen = observed(1.0, (10.0,), 0, latencies(0.01, 0.01, 0.01, 0.4))

    found = regulate(seen, {"r0": 2}, Latency(0.2), Room(cores=12))

    assert {"r0": 3} == found.degrees


def test_without_items_there_is_no_latency():
    assert regulate(observed(1.0, (0.0,), 0), {"r0": 2}, Latency(0.2), Room(12)) is None


@pytest.mark.parametrize(("latency_s", "wanted"), [(0.3, {"b": 1}), (0.1, {"a": 4})])
def test_of_several_regions_the_idle_one_gives_and_the_busy_one_gets(latency_s, wanted):
    loads = {"a": RegionLoad(3, 0.03, 90), "b": RegionLoad(2, 0.01, 10)}
    seen = observed(1.0, (90.0,), 0, latencies(latency_s), loads)

    found = regulate(seen, {"a": 3, "b": 2}, Latency(0.2), Room(cores=12))

    assert wanted == found.degrees
