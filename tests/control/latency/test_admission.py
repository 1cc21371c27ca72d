"""Epochs: what they cost, how many replicas, and how many items they admit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.control.goals import Latency
from anabranch.control.latency.admission import EpochCosts, EpochMemory, admit, costs_of
from anabranch.control.latency.decision import Room
from anabranch.metrics.load import Epoch, Observed
from tests.control.seen import latencies

ONE_S = Latency(1.0)


def epochs(costs, degree, *items):
    return tuple(
        Epoch(
            n,
            costs.epoch_s(n, degree),
            degree,
            work_s=costs.item_s * n,
            longest_s=costs.each_s(degree) * n,
        )
        for n in items
    )


def decide(seen, degree, admits=500_000, *, memory=None):
    found, _ = admit(
        seen,
        {"all regions": degree},
        ONE_S,
        Room(4),
        memory or EpochMemory(rising=1),
        admits,
    )
    return found


@pytest.mark.parametrize("degree", [1, 2])
def test_costs_are_those_that_tasks_report(degree):
    true = EpochCosts(0.15, 0.0004, 0.0001)

    found = costs_of(epochs(true, degree, 50, 300, 800, 500, 100))

    assert true.fixed_s == pytest.approx(found.fixed_s)
    assert true.item_s == pytest.approx(found.item_s)
    assert true.alone_s == pytest.approx(found.alone_s)


def test_what_the_busiest_replica_does_beyond_its_part_is_not_divided():
    """
    Of two replicas one did three quarters of the work: half of it is only that one's.
    """
    uneven = Epoch(100, 0.4, 2, work_s=0.2, longest_s=0.15)

    assert EpochCosts(0.25, 0.002, 0.0005) == costs_of([uneven] * 3)


def test_one_epoch_says_nothing():
    assert costs_of([Epoch(1, 0.1, 1)]) is None


def test_replicas_are_those_with_which_two_epochs_fit_into_the_bound():
    """
    At 1,000 items a second of 1 ms each, one replica has no time left, two need epochs of
    0.4 s, which is short enough.
    """
    ran = epochs(EpochCosts(0.2, 0.001), 1, 100, 300, 600, 200, 400)

    found = decide(Observed(1.0, (1000.0,), 0, latencies(0.9), epochs=ran), degree=1)

    assert {"all regions": 2} == found.degrees


def test_more_are_added_only_if_two_epochs_ask_for_them_or_latency_is_near():
    ran = epochs(EpochCosts(0.2, 0.001), 1, 100, 300, 600, 200, 400)
    calm = Observed(1.0, (1000.0,), 0, latencies(0.5), epochs=ran)
    late = Observed(1.0, (1000.0,), 0, latencies(0.9), epochs=ran)

    assert decide(calm, degree=1, admits=1000, memory=EpochMemory()) is None
    assert {"all regions": 2} == decide(calm, degree=1, admits=1000).degrees
    assert {"all regions": 2} == decide(late, 1, memory=EpochMemory()).degrees


def test_an_epoch_with_much_to_do_admits_what_fits_into_most_of_the_bound():
    costs = EpochCosts(0.2, 0.001)
    ran = epochs(costs, 2, 100, 300, 600, 200, 400)

    found = decide(Observed(1.0, (500.0,), 3000, latencies(0.5), epochs=ran), degree=4)

    assert 0.6 < costs.epoch_s(found.epoch_items, 4) <= 0.7


def test_what_an_epoch_admits_stays_where_it_does_not_matter():
    ran = epochs(EpochCosts(0.2, 0.001), 2, 100, 300, 150, 200, 180)

    few = Observed(1.0, (500.0,), 10, latencies(0.5), epochs=ran)

    assert decide(few, degree=2, admits=500_000) is None
    assert decide(few, degree=2, admits=300) is None


def test_if_that_cannot_keep_up_it_admits_more_and_says_so():
    costs = EpochCosts(0.45, 0.0005)
    ran = epochs(costs, 4, 1000, 2000, 4000, 3000, 500)
    seen = Observed(1.0, (4000.0,), 9000, latencies(2.5), epochs=ran)

    found = decide(seen, degree=4, admits=100)

    assert found.epoch_items / costs.epoch_s(found.epoch_items, 4) > 4000
    assert found.what.endswith("1000 ms cannot be kept")
    assert "99% are within 2" in found.why


def test_the_operators_whose_tasks_take_longest_are_named():
    ran = [
        Epoch(1000, 0.95, 4, work_s=2.0, longest_s=0.5, slowest=("parse", "score"))
    ] * 3
    seen = Observed(1.0, (4000.0,), 9000, latencies(2.5), epochs=tuple(ran))

    found = decide(seen, degree=4, admits=100)

    assert "longest in parse and score" in found.why


def test_replicas_are_given_back_only_after_some_epochs():
    memory, changed = EpochMemory(), []
    for _ in range(6):
        ran = epochs(EpochCosts(0.1, 0.0001), 4, 50, 90)
        seen = Observed(1.0, (100.0,), 0, latencies(0.2), epochs=ran)
        found, memory = admit(seen, {"all regions": 4}, ONE_S, Room(4), memory, 500_000)
        changed.append(bool(found and found.degrees))

    assert not any(changed[:2])
    assert any(changed)


def test_what_an_epoch_admits_changes_only_if_it_is_far_from_right():
    ran = epochs(EpochCosts(0.2, 0.001), 2, 100, 300, 600, 200, 1400)
    seen = Observed(1.0, (700.0,), 5000, latencies(0.5), epochs=ran)
    right = decide(seen, degree=4).epoch_items

    assert decide(seen, degree=4, admits=round(1.8 * right)) is None
    assert decide(seen, degree=4, admits=round(0.6 * right)) is None
    assert decide(seen, degree=4, admits=3 * right).epoch_items == right
    assert decide(seen, degree=4, admits=right // 3).epoch_items == right


def test_replicas_that_do_not_help_are_given_back_and_not_tried_again():
    """
    With twice the replicas an item takes twice as long: they wait for the same core.
    """
    alone, beside = EpochCosts(0.1, 0.001), EpochCosts(0.1, 0.002)
    seen = Observed(
        1.0, (900.0,), 0, latencies(0.9), epochs=epochs(alone, 1, 90, 400, 800)
    )
    more, memory = admit(seen, {"r": 1}, ONE_S, Room(4), EpochMemory(), 10_000)
    seen = replace(seen, epochs=epochs(beside, more.degrees["r"], 400, 900))
    less, memory = admit(seen, more.degrees, ONE_S, Room(4), memory, 10_000)
    seen = replace(seen, epochs=epochs(alone, 1, *[700] * 10))
    again, _ = admit(seen, less.degrees, ONE_S, Room(4), memory, 10_000)

    assert {"r": 2} == more.degrees
    assert {"r": 1} == less.degrees
    assert "did not help" in less.why
    assert again is None or not again.degrees


def test_a_program_that_is_read_as_fast_as_it_can_gets_all_replicas():
    ran = epochs(EpochCosts(0.1, 0.001), 1, 1000, 1000)
    seen = Observed(1.0, (900.0,), 0, latencies(1.2), epochs=ran, closed=True)

    found = decide(seen, degree=1, admits=10_000)

    assert {"all regions": 4} == found.degrees
    assert EpochCosts(0.1, 0.001).epoch_s(found.epoch_items, 4) <= 1.0


def test_an_epoch_that_loads_the_program_does_not_tell_what_an_item_costs():
    """
    180 items a second of 10 ms each need 3 replicas; at the 100 ms that each of the
    first five took, no number would do.
    """
    cold = Epoch(5, 0.6, 1, work_s=0.5, longest_s=0.5)
    warm = epochs(EpochCosts(0.03, 0.01), 1, 16, 16)
    memory, found = EpochMemory(rising=1), []
    for one in (cold, *warm):
        seen = Observed(0.6, (180.0,) * 4, 0, latencies(0.5), epochs=(one,))
        decision, memory = admit(
            seen, {"all regions": 1}, ONE_S, Room(12), memory, 1000
        )
        found.append(decision and decision.degrees)

    assert [None, None, {"all regions": 3}] == found


def test_a_first_epoch_that_costs_what_others_do_counts():
    steady = epochs(EpochCosts(0.03, 0.01), 1, 16, 16)
    memory = EpochMemory(rising=1)
    for one in steady:
        seen = Observed(0.6, (180.0,) * 4, 0, latencies(0.5), epochs=(one,))
        decision, memory = admit(
            seen, {"all regions": 1}, ONE_S, Room(12), memory, 1000
        )

    assert {"all regions": 3} == decision.degrees
    assert "an epoch takes 30 ms and 10 ms an item" in decision.why


@pytest.mark.parametrize(("rate", "degree"), [(150.0, None), (260.0, 3)])
def test_several_replicas_are_added_at_once_and_one_more_when_it_is_needed_twice(
    rate, degree
):
    """Items of 10 ms, not late yet: 2 replicas are enough for 150 a second.

    For 260, and a margin of 5%, 3 are busy for 91% of the time: an epoch takes 0.33 s.
    """
    seen = Observed(1.0, (rate,) * 4, 0, latencies(0.1))
    known = epochs(EpochCosts(0.03, 0.01), 1, 20, 20)

    found = decide(seen, 1, memory=EpochMemory(epochs=known))

    assert (degree and {"all regions": degree}) == (found and found.degrees)
