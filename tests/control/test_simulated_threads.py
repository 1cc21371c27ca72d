"""The model: threads of an arrangement, and what comes through them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from anabranch.control.simulated_program import SimulatedProgram
from anabranch.control.throughput.model import (
    ItemCosts,
    calibrate,
    calibrate_crowding,
    costs_of,
    threads_of,
    throughput,
)
from anabranch.metrics.load import ThreadSamples
from anabranch.plan.plan import Arrangement
from tests.control.chain import chain

DIAMOND = ItemCosts(
    {
        ("read",): 1.0,
        ("read", "a"): 2.0,
        ("read", "b"): 3.0,
        ("read", "a", "both"): 4.0,
        ("read", "b", "both"): 5.0,
    }
)


def seconds(costs: ItemCosts, arrangement: Arrangement, **regions) -> dict[str, float]:
    made = threads_of(costs, arrangement, regions)
    return {name: thread.each_s for name, thread in made.items()}


def test_without_ports_one_thread_does_everything():
    assert {"read": 15.0} == seconds(DIAMOND, Arrangement())


def test_a_port_takes_what_is_downstream_of_it_on_every_way():
    ports = Arrangement(frozenset({"both"}))

    assert {"read": 6.0, "both": 9.0} == seconds(DIAMOND, ports)


def test_a_port_on_one_way_takes_only_that_way():
    ports = Arrangement(frozenset({"a"}))

    assert {"read": 9.0, "a": 6.0} == seconds(DIAMOND, ports)


def test_channels_share_the_work_of_a_region():
    wide = Arrangement().with_degree("r", 4)
    costs = ItemCosts({("read",): 1.0, ("read", "a"): 8.0, ("read", "a", "out"): 2.0})

    assert {"read": 1.0, "a": 2.0, "out": 2.0} == seconds(costs, wide, r=("a",))


def test_handing_over_costs_both_sides():
    costs = ItemCosts({("read",): 1.0, ("read", "a"): 1.0}, port_s=0.25)

    assert {"read": 1.25, "a": 1.25} == seconds(costs, Arrangement(frozenset({"a"})))


@pytest.mark.parametrize(("cores", "expected"), [(1, 1.0), (2, 2.0), (4, 4.0), (8, 4)])
def test_four_balanced_threads_on_so_many_cores(cores, expected):
    costs = chain()
    four = threads_of(costs, Arrangement(frozenset({"o3", "o5", "o7"})), {})

    rate = throughput(costs, four, cores)

    assert pytest.approx(expected, rel=0.01) == rate * costs.whole_s


def test_what_is_serial_bounds_throughput():
    costs = ItemCosts({("read",): 0.5, ("read", "a"): 0.5}, serial_s=0.8)
    two = threads_of(costs, Arrangement(frozenset({"a"})), {})

    assert pytest.approx(1.25) == throughput(costs, two, cores=2)


def test_its_profile_is_what_the_profiler_would_see():
    program = SimulatedProgram(chain(operators=2), cores=4)

    profile = program.profile()

    assert profile is not None
    (load,) = profile.threads
    assert pytest.approx(1.0) == load.utilization
    assert pytest.approx({"o1": 1.0, "o2": 0.5}, rel=0.01) == load.ports


def test_the_lock_bounds_throughput_whatever_the_threads():
    costs = replace(chain(), locked_s=chain().whole_s / 2)
    all_ports = Arrangement(frozenset(f"o{n}" for n in range(2, 9)))

    rate = throughput(costs, threads_of(costs, all_ports, {}), cores=8)

    assert pytest.approx(2.0) == rate * costs.whole_s


def test_one_thread_does_not_wait_for_its_own_lock():
    costs = replace(chain(), locked_s=0.04, waiting=1.0)
    one = threads_of(costs, Arrangement(), {})

    assert pytest.approx(1 / costs.whole_s) == throughput(costs, one, cores=2)


def test_on_one_core_nobody_holds_the_lock_while_another_runs():
    costs = replace(chain(), locked_s=0.04, waiting=1.0)
    two = threads_of(costs, Arrangement(frozenset({"o5"})), {})

    assert pytest.approx(1 / costs.whole_s) == throughput(costs, two, cores=1)


def test_uneven_threads_lose_less_by_waiting():
    """
    Calibrated at an even split to 1.5x: of the 4/6 of a period, 3/6 are work, and 1/6
    is waiting for the other thread's 3/6. A quarter of the work leads to half of that.
    """
    bare = replace(chain(), locked_s=0.01)
    even = threads_of(bare, Arrangement(frozenset({"o5"})), {})
    uneven = threads_of(bare, Arrangement(frozenset({"o7"})), {})
    costs = calibrate(bare, even, 1.5 / bare.whole_s)

    period = 1 / throughput(costs, uneven, cores=2)

    assert pytest.approx(3 / 4 + 1 / 12, rel=0.01) == period / bare.whole_s


def test_a_measurement_faster_than_the_model_means_no_waiting():
    bare = replace(chain(), locked_s=0.01)
    even = threads_of(bare, Arrangement(frozenset({"o5"})), {})

    assert 0.0 == calibrate(bare, even, 2.5 / bare.whole_s).waiting


@pytest.mark.parametrize(
    ("ports", "of_all"),
    [
        ({"o3", "o5", "o7"}, 4 / 8),  # two for each core
        ({"o3", "o6"}, 5 / 8),  # 2, 3 and 3: two of them share a core
        ({"o5", "o7"}, (4 + 4 + 6) / 3 / 8),  # 4, 2 and 2: at best 4 alone, else 6
        ({"o2", "o8"}, (6 + 6 + 7) / 3 / 8),  # 1, 6 and 1: 7 if the 6 come last
    ],
)
def test_more_threads_than_cores_go_at_the_pace_of_the_busiest_core(ports, of_all):
    """
    A thread goes to the core that has least to do, in whatever order they come.
    """
    costs = chain()
    made = threads_of(costs, Arrangement(frozenset(ports)), {})

    period_s = 1 / throughput(costs, made, cores=2)

    assert pytest.approx(of_all * costs.whole_s, rel=0.02) == period_s


def test_as_many_threads_as_cores_have_one_each():
    costs = replace(chain(), crowding=1.0)
    two = threads_of(costs, Arrangement(frozenset({"o3"})), {})

    assert pytest.approx(4 / 3, rel=0.01) == throughput(costs, two, 2) * costs.whole_s


def test_threads_without_a_core_make_others_wait_the_more_of_them_there_are():
    """
    Measured with four equal threads of half a second each, on two cores: 0.3 s slower
    than cores alone would make them. Two have no core for half a second: 4 halves. Of
    eight, with a quarter of a second each, six have none: 36 quarters.
    """
    at = {("read", "a", "b", "c", "d", "e", "f", "g")[: n + 1]: 0.25 for n in range(8)}
    four = threads_of(ItemCosts(at), Arrangement(frozenset("bdf")), {})
    eight = threads_of(ItemCosts(at), Arrangement(frozenset("abcdefg")), {})

    costs = calibrate_crowding(ItemCosts(at), 2, (four, 1 / 1.3))

    assert pytest.approx(0.3 / 2) == costs.crowding
    assert pytest.approx(1 / (1 + 0.15 * 9)) == throughput(costs, eight, cores=2)


@pytest.mark.parametrize("slower_s", [0.3, 0.45, 1.2])
def test_many_threads_tell_how_crowding_grows(slower_s):
    at = {("read", "a", "b", "c", "d", "e", "f", "g")[: n + 1]: 0.25 for n in range(8)}
    four = threads_of(ItemCosts(at), Arrangement(frozenset("bdf")), {})
    eight = threads_of(ItemCosts(at), Arrangement(frozenset("abcdefg")), {})

    costs = calibrate_crowding(
        ItemCosts(at), 2, (four, 1 / 1.3), (eight, 1 / (1 + slower_s))
    )

    assert pytest.approx(1 / 1.3) == throughput(costs, four, cores=2)
    eights = throughput(costs, eight, cores=2)
    assert pytest.approx(1 / (1 + slower_s), rel=1e-3) == eights


def test_threads_that_hand_over_batches_need_a_share_of_their_time_for_that():
    costs = replace(chain(), batches=0.1)
    two = threads_of(costs, Arrangement(frozenset({"o5"})), {})

    assert pytest.approx(1.0) == one_thread(costs) * costs.whole_s
    rate = throughput(costs, two, cores=2)
    assert pytest.approx(2 / 1.1, rel=0.01) == rate * costs.whole_s


def one_thread(costs: ItemCosts) -> float:
    return throughput(costs, threads_of(costs, Arrangement(), {}), cores=2)


def test_a_thread_waits_for_what_others_do_meanwhile():
    """
    Of 2, 3 and 3 operators on three cores, five are done beside the busiest thread; on
    two cores no more than half of all can be done beside the other half.
    """
    costs = replace(chain(), locked_s=1e-9, waiting=2.0)
    made = threads_of(costs, Arrangement(frozenset({"o3", "o6"})), {})

    three = 1 / throughput(costs, made, cores=3) / costs.whole_s
    two = 1 / throughput(costs, made, cores=2) / costs.whole_s

    assert pytest.approx(3 / 8 + 2 * 5 / 8, rel=0.01) == three
    assert pytest.approx(4 / 8 + math.hypot(2 * 4 / 8, 1 / 8), rel=0.01) == two


def test_waiting_for_a_core_and_for_the_lock_do_not_add_up():
    """
    2, 3 and 3 of 8 operators: two threads share a core, which costs 1/8. The smallest
    finds no core, and the others would wait for the lock for as long: 1/8 as well.
    """
    costs = replace(chain(), crowding=0.5)
    made = threads_of(costs, Arrangement(frozenset({"o3", "o6"})), {})

    period_s = 1 / throughput(costs, made, cores=2)

    expected = 4 / 8 + math.sqrt(2) / 8
    assert pytest.approx(expected, rel=0.01) == period_s / costs.whole_s


def test_a_thread_that_does_nothing_crowds_nobody():
    at = {("read",): 0.0, ("read", "a"): 1.0, ("read", "a", "b"): 1.0}
    costs = ItemCosts(at, crowding=0.5)
    three = threads_of(costs, Arrangement(frozenset("ab")), {})

    assert pytest.approx(1 / 2.5) == throughput(costs, three, cores=1)


def test_a_thread_with_nothing_to_do_tells_nothing_about_waiting():
    costs = ItemCosts({("read",): 1.0, ("read", "a"): 0.0}, locked_s=0.1)
    split = threads_of(costs, Arrangement(frozenset("a")), {})

    assert costs == calibrate(costs, split, rate=0.5)
    assert costs == calibrate_crowding(costs, 1, (split, 0.5))


def test_more_threads_that_are_faster_than_the_model_do_not_wait():
    four = threads_of(chain(), Arrangement(frozenset({"o3", "o5", "o7"})), {})

    assert 0.0 == calibrate_crowding(chain(), 2, (four, 1e9)).crowding


def test_costs_know_how_much_of_an_item_needs_the_lock():
    """
    Two threads see the same lock, so its time counts once.
    """
    one = ThreadSamples("a", 2.0, 1.0, {("a",): 1}, locked=0.5)
    other = ThreadSamples("b", 2.0, 0.8, {("b",): 1}, locked=0.5)

    assert 0.1 == costs_of([one, other], items=10).locked_s


def test_time_without_a_core_is_shared_by_replicas_beyond_the_cores():
    """
    Of 1 s an item, 0.9 s are waiting: nine replicas on a core take 0.1 s each.
    """
    at, blocked = {("read",): 0.0, ("read", "ask"): 0.1}, {("read", "ask"): 0.9}
    costs, regions = ItemCosts(at, blocked=blocked), {"r0": ("ask",)}

    rates = {
        degree: throughput(
            costs,
            threads_of(costs, Arrangement().with_degree("r0", degree), regions),
            cores=1,
        )
        for degree in (1, 2, 5, 20)
    }

    assert {1: 1.0, 2: 2.0, 5: 5.0, 20: 10.0} == pytest.approx(rates)


def test_a_thread_that_waits_delays_no_other():
    at = {("read",): 0.2, ("read", "a"): 0.1}
    costs = ItemCosts(at, locked_s=0.3, waiting=1.0, blocked={("read", "a"): 0.9})

    split = threads_of(costs, Arrangement(frozenset({"a"})), {})

    assert 1.0 == pytest.approx(throughput(costs, split, cores=2))
