"""The loop, on a simulated program, and what its history says."""

from __future__ import annotations

import math
import tracemalloc
from typing import ClassVar

import pytest

from anabranch.control.goals import latency
from anabranch.control.latency.controller import LatencyController
from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import Epoch
from anabranch.metrics.pipeline import RegionLoad
from anabranch.testing.offered_load import burst, steps
from bench.latency.simulated_queue import Machine, SimulatedQueue
from tests.control.seen import observed


def settle(queue, goal):
    controller = LatencyController(queue, goal)
    controller.run()
    return controller


def late_after(queue, from_s, to_s, bound_s):
    inside = [
        latency_s <= bound_s for due, latency_s in queue.each if from_s <= due < to_s
    ]
    return 1 - sum(inside) / len(inside)


def test_a_doubled_load_is_seen_and_met_within_ten_seconds():
    load = steps((200, 20), (400, 30))
    queue = SimulatedQueue([0.01], Machine(12), load.due_s, noise=0.2, degree=3)

    controller = settle(queue, latency("50 ms"))

    first = next(step for step in controller.history if step.at_s > 20)
    assert first.at_s <= 25
    assert late_after(queue, 30, 50, 0.05) <= 0.01
    assert 5 <= queue.degree <= 6


def test_it_has_at_most_one_replica_more_than_the_best_fixed_number():
    load = steps((100, 20), (300, 20), (150, 20))
    best = next(
        degree for degree in range(1, 12) if late_in_fixed(degree, load) <= 0.01
    )
    queue = SimulatedQueue([0.01], Machine(12), load.due_s, noise=0.2)

    settle(queue, latency("50 ms"))

    assert best <= max(degree for _, _, degree in queue.timeline) <= best + 1


def late_in_fixed(degree, load):
    queue = SimulatedQueue([0.01], Machine(12), load.due_s, noise=0.2, degree=degree)
    while queue.watch(1.0) is not None:
        pass
    return late_after(queue, 0, load.seconds, 0.05)


def test_after_a_burst_it_catches_up_before_it_gives_back():
    load = burst(100, seconds=90, of=500, at=20, lasting=5)
    queue = SimulatedQueue([0.01], Machine(12), load.due_s, noise=0.1)

    controller = settle(queue, latency("50 ms"))

    fewer = [step for step in controller.history if step.what.startswith("only")]
    assert fewer
    assert all(step.at_s > 25 for step in fewer)
    assert late_after(queue, 30, 60, 0.05) <= 0.01


def test_a_load_beyond_what_it_can_do_is_not_left_until_the_step_is_over():
    load = steps((100, 10.2), (600, 10))
    queue = SimulatedQueue([0.01], Machine(12), load.due_s, noise=0.1)

    controller = settle(queue, latency("50 ms"))

    first = next(step for step in controller.history if step.at_s > 10.2)
    assert first.at_s < 10.5
    assert late_after(queue, 10.6, 20, 0.05) == 0


def test_what_is_impossible_is_told():
    load = steps((1000, 10))
    queue = SimulatedQueue([0.01], Machine(4), load.due_s)

    controller = settle(queue, latency("50 ms"))

    (said,) = [step for step in controller.history if "cannot be kept" in step.what]
    assert "of 4 can help" in said.why


def test_on_one_core_it_does_what_the_best_fixed_number_does():
    load = steps((80, 20), (95, 20))
    fixed = SimulatedQueue([0.01], Machine(1), load.due_s, noise=0.1)
    while fixed.watch(1.0) is not None:
        pass
    ours = SimulatedQueue([0.01], Machine(1), load.due_s, noise=0.1)

    settle(ours, latency("50 ms"))

    assert fixed.each == ours.each


@pytest.mark.parametrize(("cores", "looks"), [(1, 4), (2, 44)])
def test_where_nothing_can_be_changed_it_looks_less_often(cores, looks):
    load = steps((50, 40))
    queue = SimulatedQueue([0.01], Machine(cores), load.due_s)

    controller = settle(queue, latency("50 ms"))

    assert looks <= controller.looks <= looks + 1


def test_history_says_what_came_of_a_change():
    load = steps((300, 20))
    queue = SimulatedQueue([0.01], Machine(12), load.due_s)

    first = settle(queue, latency("50 ms")).history[0]

    assert "replicas of r0" in first.what
    assert "300 items a second of 10 ms each" in first.why
    assert "99% within" in first.effect
    assert "paused" in first.effect


@pytest.mark.parametrize("threshold", [0.1, 0.2])
@pytest.mark.parametrize("scaling", [1, 2])
def test_the_regulator_of_the_paper_holds_its_constraint_where_replicas_contend(
    threshold, scaling
):
    """
    A source that is read as fast as there is room, on 12 cores with two threads each.
    """
    queue = SimulatedQueue(
        [0.045], Machine(12, threads=2), closed=3, others_busy=2, seconds=60, noise=0.1
    )
    goal = latency("180 ms", policy="reactive", threshold=threshold, scaling=scaling)

    controller = settle(queue, goal)

    settled = [step for step in controller.steps() if step.at_s > 30]
    above = [step for step in settled if step.mean_ms > 190]
    assert len(above) <= len(settled) / 4
    assert all(step.replicas["r0"] <= 22 for step in settled)
    assert max(step.replicas["r0"] for step in settled) >= 10


def test_the_regulator_says_once_what_it_cannot_keep_and_takes_it_back_once():
    load = steps((150, 10), (20, 20))
    queue = SimulatedQueue([0.01], Machine(1), load.due_s)
    goal = latency("50 ms", policy="reactive", replicas=1)

    controller = settle(queue, goal)

    said = [step.what for step in controller.history if "replica" not in step.what]
    assert ["50 ms cannot be kept", "50 ms holds again"] == said


class Silent:
    """A program in epochs of which nothing comes out for a while after a change."""

    cores, others = 4, 2
    degrees: ClassVar = {"all regions": 3}

    def __init__(self, *came_out_s):
        self.came_out_s = list(came_out_s)
        self.epoch_items = 1000
        self.now_s = 0.0

    def watch(self, seconds, alarm_per_s=math.inf):
        if not self.came_out_s:
            return None
        self.now_s += 1.0
        late_s, latencies = self.came_out_s.pop(0), Latencies()
        if late_s is not None:
            latencies.record(late_s, 100)
        ran = () if late_s is None else (Epoch(100, 0.4, 1, 0.3, 0.3),)
        seen = sojourns([latencies])
        return observed(1.0, (100.0,) * 4, 50, seen, epochs=ran)

    def resize(self, degrees, epoch_items):
        self.degrees = {**self.degrees, **degrees}
        return "from the next epoch on"


def test_an_effect_is_that_of_items_which_came_out_with_the_change():
    """
    Nothing comes out at first; then an epoch that had begun before; then one of after.
    """
    program = Silent(0.9, None, 0.8, None, 0.75)

    controller = settle(program, latency("850 ms", policy="reactive"))

    (change,) = controller.history
    measured = Latencies()
    measured.record(0.75)
    after_ms = round(sojourns([measured]).quantile_s(0.99) * 1000)
    assert change.effect.startswith(f"99% within {after_ms} ms, before 99% within ")
    assert change.effect.endswith("from the next epoch on")


def test_a_change_before_the_last_one_was_measured_says_so():
    program = Silent(0.9, 0.9)

    controller = settle(program, latency("850 ms", policy="reactive"))

    first, second = controller.history
    assert first.effect.startswith("another change came before it was measured")
    assert second.effect.startswith("the program ended")


class Endless:
    """A program that never changes, for so many control steps."""

    cores, others, epoch_items, now_s = 2, 2, None, 0.0
    degrees: ClassVar = {"r0": 2}

    def __init__(self, steps):
        self.left = steps
        self.latencies = Latencies()

    def watch(self, seconds, alarm_per_s=math.inf):
        if not self.left:
            return None
        self.left -= 1
        self.now_s += 1.0
        before = sojourns([self.latencies])
        self.latencies.record(0.01, 100)
        seen = sojourns([self.latencies]).since(before)
        regions = {"r0": RegionLoad(2, 0.01, 100, 0.5)}
        return observed(1.0, (100.0,) * 4, 0, seen, regions)

    def resize(self, degrees, epoch_items):
        return ""


@pytest.mark.parametrize(
    "steps", [1050, pytest.param(24 * 3600, marks=pytest.mark.long)]
)
def test_a_long_run_keeps_no_more_than_a_short_one(steps):
    def kept(steps):
        tracemalloc.start()
        controller = LatencyController(Endless(steps), latency("50 ms"))
        controller.run()
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return memory, len(controller.steps()), controller.looks

    short, long = kept(1000), kept(steps)

    assert (1000, 1000) == (short[1], long[1])
    assert (1000, steps) == (short[2], long[2])
    assert long[0] < 1.1 * short[0]


def test_the_first_looks_are_short_so_that_a_start_costs_little():
    """200 items a second from the start are twice what one replica can do."""
    load = steps((200, 20))
    queue = SimulatedQueue([0.01], Machine(12), load.due_s)

    first = settle(queue, latency("50 ms")).history[0]

    assert first.at_s < 0.3
    assert late_after(queue, 0.5, 20, 0.05) == 0


def test_bursts_that_come_again_find_the_replicas_of_the_last_one():
    """Ten times the load for 2 s in every 12; the first one comes as a surprise."""
    load = steps(*[(30, 10), (300, 2)] * 5)
    queue = SimulatedQueue([0.01], Machine(12), load.due_s, noise=0.1)

    controller = settle(queue, latency("100 ms"))

    assert late_after(queue, 13, load.seconds, 0.1) < 0.02
    assert not [step for step in controller.history if step.what.startswith("only")]
