"""Epochs: what they cost, how many replicas, and how many items they admit."""

from __future__ import annotations

import pytest

from anabranch.control.goals import Latency
from anabranch.control.latency_decision import Room
from anabranch.control.latency_epochs import Costs, EpochMemory, admit, costs_of
from anabranch.metrics.observed import Epoch, Observed
from tests.control.seen import latencies

ONE_S = Latency(1.0)


def epochs(costs, degree, *items):
    return tuple(Epoch(n, costs.epoch_s(n, degree), degree) for n in items)


def decide(seen, degree, admits=500_000, goal=ONE_S, cores=4):
    found, _ = admit(
        seen, {"all regions": degree}, goal, Room(cores), EpochMemory(), admits
    )
    return found


@pytest.mark.parametrize("degree", [1, 2])
def test_costs_are_found_from_epochs_of_different_sizes(degree):
    true = Costs(0.15, 0.0004)

    found = costs_of(epochs(true, degree, 50, 300, 800, 500, 100))

    assert 0.15 == pytest.approx(found.fixed_s)
    assert 0.0004 == pytest.approx(found.item_s)


def test_epochs_of_one_size_are_taken_for_fixed():
    assert Costs(0.3, 0.0) == costs_of([Epoch(100, 0.3, 1)] * 5)


def test_few_epochs_say_nothing():
    assert costs_of([Epoch(1, 0.1, 1)] * 4) is None


def test_replicas_are_those_with_which_two_epochs_fit_into_the_bound():
    """
    At 1,000 items a second of 1 ms each, one replica has no time left, two need epochs of
    0.4 s, which is short enough.
    """
    ran = epochs(Costs(0.2, 0.001), 1, 100, 300, 600, 200, 400)

    found = decide(Observed(1.0, (1000.0,), 0, latencies(0.9), epochs=ran), degree=1)

    assert {"all regions": 2} == found.degrees


def test_an_epoch_admits_what_fits_into_half_of_the_bound():
    costs = Costs(0.2, 0.001)
    ran = epochs(costs, 2, 100, 300, 600, 200, 400)

    found = decide(Observed(1.0, (500.0,), 0, latencies(0.5), epochs=ran), degree=2)

    assert costs.epoch_s(found.epoch_items, 2) <= 0.5
    assert 200 < found.epoch_items


def test_if_that_cannot_keep_up_it_admits_more_and_says_so():
    costs = Costs(0.45, 0.0005)
    ran = epochs(costs, 4, 1000, 2000, 4000, 3000, 500)
    seen = Observed(1.0, (4000.0,), 9000, latencies(2.5), epochs=ran)

    found = decide(seen, degree=4, admits=100)

    assert found.epoch_items / costs.epoch_s(found.epoch_items, 4) > 4000
    assert "1000 ms cannot be kept" in found.why
    assert "99% are within 2" in found.why


def test_replicas_are_given_back_only_after_some_epochs():
    memory, changed = EpochMemory(), []
    for _ in range(6):
        ran = epochs(Costs(0.1, 0.0001), 4, 50, 90)
        seen = Observed(1.0, (100.0,), 0, latencies(0.2), epochs=ran)
        found, memory = admit(seen, {"all regions": 4}, ONE_S, Room(4), memory, 500_000)
        changed.append(bool(found and found.degrees))

    assert not any(changed[:2])
    assert any(changed)


def test_what_an_epoch_admits_changes_only_if_it_is_far_from_right():
    ran = epochs(Costs(0.2, 0.001), 2, 100, 300, 600, 200, 400)
    seen = Observed(1.0, (700.0,), 0, latencies(0.5), epochs=ran)
    right = decide(seen, degree=2).epoch_items

    assert decide(seen, degree=2, admits=round(1.8 * right)) is None
    assert decide(seen, degree=2, admits=round(0.6 * right)) is None
    assert decide(seen, degree=2, admits=3 * right).epoch_items == right
    assert decide(seen, degree=2, admits=right // 3).epoch_items == right


def test_it_does_not_grow_while_nobody_knows_what_items_cost():
    seen = Observed(1.0, (500.0,), 0, latencies(0.5), epochs=(Epoch(90, 0.2, 1),) * 5)

    assert decide(seen, degree=1, admits=200) is None
