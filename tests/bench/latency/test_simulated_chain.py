"""A simulated pipeline: waits, order, keys that hold up others, replicas that are woken."""

from __future__ import annotations

import pytest

from bench.latency.simulated_chain import SimulatedPipeline, SimulatedStage
from bench.latency.simulated_queue import Machine

CORES = Machine(8)


def run(pipeline):
    """Return how long each item took, in milliseconds."""
    while pipeline.watch(1.0) is not None:
        pass
    return [round(1000 * late_s) for _, late_s in pipeline.each]


def test_an_item_takes_its_work_where_nobody_waits():
    stages = SimulatedStage("a", 0.01), SimulatedStage("b", 0.02)

    assert [30, 30] == run(SimulatedPipeline(stages, CORES, [0.0, 1.0]))


def test_items_wait_for_the_one_before():
    """Three at once on one replica, then on two: the third waits for the first."""
    one = [SimulatedStage("a", 0.01)]

    assert [10, 20, 30] == run(SimulatedPipeline(one, CORES, [0.0, 0.0, 0.0]))
    assert [10, 10, 20] == run(SimulatedPipeline(one, CORES, [0.0] * 3, degree=2))


def test_a_stage_that_runs_once_is_not_divided():
    stages = SimulatedStage("a", 0.01, replicated=False), SimulatedStage("b", 0.01)

    late = run(SimulatedPipeline(stages, CORES, [0.0, 0.0], degree=4))

    assert [20, 30] == late


def test_a_hot_key_holds_up_the_others_once_its_replica_is_full():
    """Seven items of one key, then one of another that waits for the splitter."""
    keyed = [SimulatedStage("a", 0.01, keys=(0, 0, 0, 0, 0, 0, 0, 1))]

    late = run(SimulatedPipeline(keyed, CORES, [0.0] * 8, degree=2))

    assert [10, 20, 30, 40, 50, 60, 70] == late[:7]
    assert 70 == late[7]  # in order, behind the seventh


def test_work_that_waits_needs_no_core():
    at_once = [0.0] * 8
    computes = SimulatedPipeline(
        [SimulatedStage("a", 0.01)], Machine(1), at_once, degree=8
    )
    waits = SimulatedPipeline(
        [SimulatedStage("a", 0.01, on_core=0.0)], Machine(1), at_once, degree=8
    )

    assert [10] * 8 == run(waits)
    assert max(run(computes)) == 80


def test_replicas_are_woken_while_items_flow():
    pipeline = SimulatedPipeline(
        [SimulatedStage("a", 0.01)], CORES, [0.0] * 4 + [2.0] * 4
    )

    pipeline.watch(1.0)
    pipeline.resize({"a": 4}, None)
    late = run(pipeline)

    assert [10, 20, 30, 40, 10, 10, 10, 10] == late
    assert pipeline.mean_replicas() == pytest.approx(2.5, abs=0.6)


def test_a_step_tells_what_came_waits_and_was_done():
    pipeline = SimulatedPipeline([SimulatedStage("a", 0.1)], CORES, [0.0] * 20)

    seen = pipeline.watch(1.0)

    assert 9 == seen.backlog  # ten are done, and the next has begun
    assert 10 == seen.sojourns.items
    assert seen.regions["a"].service_s == pytest.approx(0.1)


def test_two_threads_of_a_core_share_it():
    """A second thread gains a quarter; without one, threads beyond the cores wait."""
    twelve = Machine(12, threads=2)

    assert [1.0, 1.6] == [twelve.slowdown(12), twelve.slowdown(24)]
    assert 2.0 == Machine(2).slowdown(4)
