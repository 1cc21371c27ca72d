"""The predictive policy: one step up, catching up, giving back, and saying what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import Room
from anabranch.control.latency.need import Stance, need_of, needs
from anabranch.control.latency.predictive import PATIENCE, Memory, predict
from anabranch.metrics.pipeline import RegionLoad
from tests.control.seen import latencies, observed, step

GOAL = Latency(0.05)
ROOM = Room(cores=12)


def decide(*steps, goal=GOAL, room=ROOM, policy=predict):
    """Return the decisions of a policy, step by step."""
    memory, found = Memory(), []
    for seen in steps:
        degrees = {name: load.degree for name, load in seen.regions.items()}
        decision, memory = policy(seen, degrees, goal, room, memory)
        found.append(decision)
    return found


def test_the_degree_is_chosen_in_one_step():
    """
    6 replicas are busy all the time, 8 at less than 85%.
    """
    (found,) = decide(step(600, backlog=100, latency_s=0.5))

    assert {"r0": 8} == found.degrees
    assert "600 items a second of 10 ms each" in found.why


def test_a_backlog_needs_replicas_too():
    """
    All that wait are late: 150 items in half a second are work for 3 more than 6.
    """
    (found,) = decide(step(600, backlog=150, latency_s=0.5))

    assert {"r0": 9} == found.degrees
    assert "600 items a second of 10 ms each, and 150 wait" in found.why


def test_many_that_wait_are_met_at_once_even_if_one_more_is_enough():
    calm = step(260, degree=3)

    assert [{"r0": 4}] == [d and d.degrees for d in decide(replace(calm, alarmed=True))]


def test_a_load_of_the_last_30_seconds_keeps_its_replicas():
    """300 items a second of 10 ms each need 4; then come 50, step by step."""
    high = step(300, degree=4)
    low = [step(50, degree=4)] * 36

    found = decide(high, *low)

    given = [(n, d.degrees) for n, d in enumerate(found) if d is not None]
    assert [(30 + PATIENCE, {"r0": 1})] == given


def test_what_gathers_before_a_region_does_not_count_as_fewer_items_for_it():
    """Half of the items of a burst have not come to the region yet."""
    calm = step(60, degree=1)
    load = RegionLoad(1, 0.01, 100, per_item=0.5, operators=("work",))
    burst = observed(0.2, (100, 300), 40, latencies(0.05), {"r0": load}, alarmed=True)

    *_, found = decide(calm, calm, burst)

    assert "300 items a second" in found.why


def test_a_region_behind_a_filter_gets_what_its_own_items_need():
    """1 item in 100 of 3,000 a second comes to it: 30 of 10 ms are no work for two."""
    load = RegionLoad(1, 0.01, 30, per_item=0.01)
    seen = observed(1.0, (3000.0,) * 4, 0, latencies(0.01), {"r0": load})

    assert [None] * 3 == decide(seen, seen, seen)


def test_a_load_that_rose_within_the_step_counts_as_it_is_now():
    load = RegionLoad(2, 0.01, 150)
    seen = observed(1.0, (100, 100, 500, 500), 0, latencies(0.2), {"r0": load})

    (found,) = decide(seen)

    assert {"r0": 7} == found.degrees  # 5 busy ones, each at most for 82% of the time


def test_one_more_is_added_only_if_it_is_needed_twice_in_a_row():
    calm = step(260, degree=3)

    assert [None, {"r0": 4}] == [d and d.degrees for d in decide(calm, calm)]


def test_nothing_changes_when_all_is_well():
    assert [None] * 20 == decide(*[step(230, degree=3)] * 20)


def test_replicas_are_given_back_when_they_have_not_been_needed_for_a_while():
    found = decide(*[step(100, degree=6)] * PATIENCE)

    assert [None] * (PATIENCE - 1) == found[:-1]
    assert {"r0": 2} == found[-1].degrees


def test_a_backlog_is_caught_up_with_before_replicas_are_given_back():
    late = step(100, degree=6, backlog=150, latency_s=0.6)

    found = decide(*[late] * 10, *[step(100, degree=6)] * PATIENCE)

    assert [None] * (9 + PATIENCE) == found[:-1]
    assert found[-1].degrees["r0"] < 6


def test_what_was_given_back_too_soon_is_kept_for_longer_next_time():
    low, high = step(100, degree=4), step(190, degree=2, latency_s=0.2, backlog=50)
    found = decide(*[low] * PATIENCE, high, *[low] * (2 * PATIENCE))

    changes = [n for n, decision in enumerate(found) if decision is not None]

    assert [PATIENCE - 1, PATIENCE, 3 * PATIENCE] == changes


def test_replicas_that_do_not_help_are_given_back_and_not_tried_again():
    """
    With two replicas an item takes twice as long: they wait for one another.
    """
    alone = step(100, latency_s=0.5, backlog=50)
    two = step(100, degree=2, service_s=0.0199, latency_s=0.5, backlog=50)

    found = decide(alone, two, alone, alone, alone, goal=GOAL, room=Room(2))

    assert {"r0": 2} == found[0].degrees
    assert {"r0": 1} == found[1].degrees
    assert "do not help" in found[1].why
    assert not any(decision and decision.degrees for decision in found[2:])


def test_a_short_step_alone_does_not_show_that_they_do_not_help():
    alone = step(100, latency_s=0.5, backlog=50)
    short = step(100, degree=2, service_s=0.0199, latency_s=0.5, backlog=50)
    short = replace(short, seconds=0.2)
    better = step(100, degree=2, latency_s=0.5, backlog=50)

    helps = decide(alone, short, better, room=Room(2))
    helps_not = decide(alone, short, short, room=Room(2))

    assert [False, False] == [bool(one and one.degrees) for one in helps[1:]]
    assert helps_not[1] is None
    assert {"r0": 1} == helps_not[2].degrees


def test_they_are_tried_again_after_a_time_that_doubles():
    """A busy machine may be why they did not help: 15 s later, then 30 s later."""
    alone = step(100, latency_s=0.5, backlog=50)
    two = step(100, degree=2, service_s=0.0199, latency_s=0.5, backlog=50)

    steps = [alone, two, *[alone] * 15, two, *[alone] * 30]
    found = decide(*steps, room=Room(2))

    tried = [n for n, one in enumerate(found) if one and one.degrees == {"r0": 2}]
    assert [0, 16, 47] == tried


def test_they_are_tried_again_when_items_cost_something_else():
    alone = step(100, latency_s=0.5, backlog=50)
    two = step(100, degree=2, service_s=0.0199, latency_s=0.5, backlog=50)
    other = step(70, service_s=0.02, latency_s=0.5, backlog=50)

    found = decide(alone, two, alone, other, room=Room(2))

    assert {"r0": 2} == found[-1].degrees


def test_what_cannot_be_kept_is_said_once_with_how_close_it_is():
    seen = step(2000, degree=10, latency_s=0.4, backlog=900)

    found = decide(*[seen] * 4, room=Room(cores=10))

    assert [True, False, False, False] == [d is not None for d in found]
    assert "50 ms cannot be kept" == found[0].what
    assert "work for 20.0 replicas and 10 of 10 can help" in found[0].why
    assert "it would need 24 replicas" in found[0].why
    assert "99% are within 39" in found[0].why
    assert not found[0].changes


def test_it_is_taken_back_once_when_the_bound_holds_again():
    bad = step(2000, degree=10, latency_s=0.4, backlog=900)
    good = step(700, degree=10)

    found = decide(*[bad] * 2, *[good] * 5, *[bad] * 2, room=Room(cores=10))

    said = [d.what for d in found if d is not None and not d.changes]
    assert [
        "50 ms cannot be kept",
        "50 ms holds again",
        "50 ms cannot be kept",
    ] == said


def test_a_program_without_regions_says_which_stage_cannot_keep_up():
    late = observed(1.0, (150,) * 4, 500, latencies(0.4), stages={"fold": 0.01})
    calm = observed(1.0, (50,) * 4, 0, latencies(0.01), stages={"fold": 0.01})

    found = decide(*[late] * 3, *[calm] * 4)

    said = [d.what for d in found if d is not None]
    assert ["50 ms cannot be kept", "50 ms holds again"] == said
    assert "fold runs once, takes 10 ms an item" in found[0].why


def test_a_stage_of_several_operators_is_told_in_the_plural():
    stages = {"fold and write": 0.01}
    late = observed(1.0, (150,) * 4, 500, latencies(0.4), stages=stages)

    (found,) = decide(late)

    assert found.why.startswith(
        "fold and write run once, take 10 ms an item and have work for 1.5 threads"
    )


def test_the_operators_of_the_region_that_is_full_are_named():
    load = RegionLoad(2, 0.01, 200, operators=("parse", "score"))
    seen = observed(1.0, (300,) * 4, 500, latencies(0.4), {"r0": load})

    (found,) = decide(seen, room=Room(2))

    assert "r0 (parse and score) has work for 3.0 replicas" in found.why


def test_an_item_that_takes_longer_than_the_bound_is_told():
    (found,) = decide(step(10, degree=1, service_s=0.07, latency_s=0.08))

    assert "an item takes 70 ms without any waiting" in found.why


def test_with_one_core_there_is_nothing_to_decide():
    seen = step(500, latency_s=3.0, backlog=1000)

    assert not any(d and d.changes for d in decide(*[seen] * 9, room=Room(cores=1)))


def test_the_busy_replica_of_a_hot_key_bounds_what_more_of_them_help():
    """
    One of two replicas has 90% of the work: no number of them divides that further.
    """
    hot = step(90, degree=2, share=0.9, latency_s=0.3, backlog=20)

    (found,) = decide(hot)

    assert found is None or found.degrees["r0"] <= 3


def test_every_region_gets_what_it_needs():
    loads = {
        "a": RegionLoad(1, 0.02, 50),
        "b": RegionLoad(1, 0.005, 50, per_item=2.0),
    }
    seen = observed(1.0, (200.0,) * 4, 50, latencies(0.5), loads)

    (found,) = decide(seen)

    assert {"a": 6, "b": 3} == found.degrees


def test_regions_share_the_room_there_is():
    loads = {"a": RegionLoad(1, 0.02, 50), "b": RegionLoad(1, 0.01, 50)}
    seen = observed(1.0, (200.0,) * 4, 0, latencies(0.5), loads)

    found = needs(seen, GOAL, 5, {}, Stance())

    assert 5 == sum(need.degree for need in found.values())
    assert found["a"].degree > found["b"].degree
    assert "room for 5" in found["a"].why + found["b"].why


@pytest.mark.parametrize("variability", [0.1, 0.5, 1.0])
def test_a_variable_load_needs_no_fewer_replicas(variability):
    load = RegionLoad(1, 0.02, 50)
    seen = observed(1.0, (200.0,), 0, regions={"r0": load})

    calm = need_of(load, seen, GOAL, 20, Stance(variability=0.01))
    wild = need_of(load, seen, GOAL, 20, Stance(variability=variability))

    assert calm.degree <= wild.degree
    assert 5 == calm.degree


def keyed(rate, degree, share, *, latency_s=0.011, backlog=0):
    load = RegionLoad(degree, 0.01, rate, share, keyed=True)
    return observed(1.0, (rate,) * 4, backlog, latencies(latency_s), {"r0": load})


def test_the_hottest_replica_of_a_keyed_region_tells_what_it_can_do():
    """
    Work for two replicas; of four, the busiest has half of the keys: it is full.
    """
    (found,) = decide(keyed(200, 4, 0.5, latency_s=0.2, backlog=30))

    assert found.degrees["r0"] > 4


def test_a_degree_that_divides_keys_badly_is_not_gone_back_to():
    """
    Three replicas were seen to leave 60% to one of them; six have enough room.
    """
    bad = keyed(130, 3, 0.6, latency_s=0.2, backlog=30)
    good = keyed(130, 6, 0.25)

    found = decide(bad, *[good] * 30)

    assert {"r0"} == set(found[0].degrees)
    back = [d.degrees["r0"] for d in found[1:] if d is not None and d.changes]
    assert 3 not in back


def test_a_stage_without_replicas_that_is_full_gets_no_replicas_elsewhere():
    seen = step(
        100, service_s=0.002, latency_s=3.0, backlog=300, stages={"sort": 0.015}
    )

    found = decide(*[seen] * 5)

    assert not [d for d in found if d is not None and d.changes]
    (said,) = [d for d in found if d is not None]
    assert (
        "sort runs once, takes 15 ms an item and has work for 1.5 threads" in said.why
    )


def test_what_waits_for_a_stage_without_replicas_gets_none_elsewhere():
    """The load is over, 450 items wait, and one takes 20 ms there and 11 ms of 4 here."""
    load = RegionLoad(4, 0.011, 45, operators=("quick",))
    seen = observed(
        1.0, (10.0,) * 4, 450, latencies(5.0), {"r0": load}, stages={"slow": 0.02}
    )

    (found,) = decide(seen, goal=Latency(0.1))

    assert {} == found.degrees
    assert "cannot be kept" in found.what


def test_a_few_items_at_the_start_do_not_tell_how_many_a_region_gets():
    """The second step has ten times as many for the region as were read in it."""
    calm = RegionLoad(1, 0.01, 100, per_item=1.0)
    odd = RegionLoad(4, 0.01, 100, per_item=10.0)
    first = observed(0.2, (100.0,) * 4, 30, latencies(0.01), {"r0": calm})
    second = observed(0.1, (100.0,) * 4, 30, latencies(0.01), {"r0": odd})

    assert [None, None] == decide(first, second)


def test_replicas_that_wait_for_the_world_are_not_bounded_by_the_cores():
    (found,) = decide(step(600, latency_s=0.5, on_core=0.1), room=Room(2))

    assert {"r0": 8} == found.degrees


def hot(degree, counted):
    """Return a step in which one key has 93% of the items, more than a replica can do."""
    shares = {n: 0.95 if n < 5 else 0.93 for n in range(2, 65)} if counted else {}
    load = RegionLoad(degree, 0.008, 260, 0.93, keyed=True, shares={1: 1.0, **shares})
    if not counted:
        load = replace(load, shares={})
    return observed(1.0, (260,) * 4, 300, latencies(0.9), {"r0": load})


def test_replicas_that_one_key_leaves_idle_are_given_back_while_items_are_late():
    """What divides the rest of the keys no better with 12 replicas than with 2."""
    steps = [hot(12, counted=False), *[hot(12, counted=True)] * PATIENCE]

    *before, found = decide(*steps, goal=Latency(0.2))

    assert not any(one.changes for one in before if one)
    assert {"r0": 2} == found.degrees
    assert "the busiest of r0 has 93% of the work" in found.why


def test_replicas_are_kept_while_items_are_late_if_nothing_is_known_of_the_keys():
    steps = [hot(12, counted=False)] * (PATIENCE + 6)

    assert not any(one.changes for one in decide(*steps, goal=Latency(0.2)) if one)


def test_no_number_of_replicas_is_promised_for_one_key_that_is_too_hot():
    (found,) = decide(hot(2, counted=True), goal=Latency(0.2))

    assert "200 ms cannot be kept" == found.what
    assert "no number of replicas would do: the busiest has 93% of it" in found.why
