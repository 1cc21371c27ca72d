"""The model of an engine that works in epochs: elements with cuts, by levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.control.simulated_program import (
    ElementDivision,
    SimulatedEpochs,
    SimulatedProgram,
    describe_limit,
    describe_limit_of_epochs,
    settle,
)
from anabranch.control.throughput.model import ItemCosts

NAMES = tuple(f"o{n}" for n in range(1, 9))
CHAIN = ItemCosts({NAMES[: n + 1]: 1e-4 for n in range(8)}, locked_s=8e-4)
ONE_ELEMENT = ElementDivision(
    dict.fromkeys(NAMES, "o1"), {"o1": 0}, cuts=frozenset(NAMES[1:])
)


def settled(costs, elements, cores):
    program = SimulatedEpochs(costs, cores, elements=elements)
    settle(program)
    return program, program.items_per_s * costs.whole_s


@pytest.mark.parametrize(
    ("cores", "speedup"), [(1, 1), (2, 2), (4, 4), (8, 8), (32, 8)]
)
def test_an_element_is_cut_until_all_cores_or_operators_have_a_worker(cores, speedup):
    _, found = settled(CHAIN, ONE_ELEMENT, cores)

    assert pytest.approx(speedup) == found


def test_what_no_further_cut_can_change_is_told():
    program, _ = settled(CHAIN, ONE_ELEMENT, 32)

    assert (
        "o1 to o8: 8 workers of an element without replicas, and no further cut "
        "promises a gain"
    ) == describe_limit_of_epochs(program)


def test_an_element_that_cannot_be_cut_has_one_worker():
    program, found = settled(CHAIN, ElementDivision(ONE_ELEMENT.of, {"o1": 0}), 8)

    assert pytest.approx(1) == found
    assert (
        "o1 to o8: one worker, which can be neither replicated nor cut"
    ) == describe_limit_of_epochs(program)


def test_a_replicated_element_has_a_channel_for_each_core():
    elements = ElementDivision(ONE_ELEMENT.of, {"o1": 0}, replicated=frozenset({"o1"}))

    program, found = settled(CHAIN, elements, 8)

    assert pytest.approx(8) == found
    assert "all 8 cores are busy" == describe_limit_of_epochs(program)


def test_the_times_of_levels_add_up():
    """
    Half of the work is replicated eightfold, the other half is on the next level and has
    one worker: 1 / (1 / 2 / 8 + 1 / 2). A pipeline of threads would give 2.
    """
    of = {name: "o1" if name in NAMES[:4] else "o5" for name in NAMES}
    elements = ElementDivision(of, {"o1": 0, "o5": 1}, replicated=frozenset({"o1"}))

    program, found = settled(CHAIN, elements, 8)

    assert pytest.approx(16 / 9) == found
    assert describe_limit_of_epochs(program).startswith("o5 to o8: one worker")


def test_where_epochs_overlap_the_busiest_process_counts():
    """The same program: the half with one worker is all that counts, as in a pipeline."""
    of = {name: "o1" if name in NAMES[:4] else "o5" for name in NAMES}
    elements = ElementDivision(
        of, {"o1": 0, "o5": 1}, replicated=frozenset({"o1"}), overlap=True
    )

    program, found = settled(CHAIN, elements, 8)

    assert pytest.approx(2) == found
    assert describe_limit_of_epochs(program).startswith("o5 to o8: one worker")


EIGHT_LEVELS = ElementDivision(
    {name: name for name in NAMES},
    {name: level for level, name in enumerate(NAMES)},
    overlap=True,
)


@pytest.mark.parametrize(
    ("cores", "speedup"), [(1, 1), (2, 2), (4, 4), (8, 8), (32, 8)]
)
def test_levels_with_one_worker_each_are_a_pipeline_of_epochs(cores, speedup):
    _, found = settled(CHAIN, EIGHT_LEVELS, cores)

    assert pytest.approx(speedup) == found


def test_no_more_epochs_are_under_way_than_there_may_be():
    _, found = settled(CHAIN, replace(EIGHT_LEVELS, depth=4), 8)

    assert pytest.approx(4) == found


def test_elements_beside_each_other_have_a_cut_each():
    costs = ItemCosts(
        {("a",): 1.0, ("a", "b"): 1.0, ("x",): 1.0, ("x", "y"): 1.0}, locked_s=4.0
    )
    elements = ElementDivision(
        {"a": "a", "b": "a", "x": "x", "y": "x"},
        {"a": 0, "x": 0},
        cuts=frozenset({"b", "y"}),
    )

    program, found = settled(costs, elements, 4)

    assert pytest.approx(4) == found
    assert frozenset({"b", "y"}) == program.arrangement.ports


def test_what_limits_threads_of_one_process():
    limits = {
        "locked": describe_limit(SimulatedProgram(CHAIN, cores=8)),
        "busy": describe_limit(SimulatedProgram(ItemCosts(CHAIN.at), cores=1)),
        "locked on one core": describe_limit(SimulatedProgram(CHAIN, cores=1)),
        "undivided": describe_limit(SimulatedProgram(ItemCosts(CHAIN.at), cores=8)),
        "single": describe_limit(
            SimulatedProgram(ItemCosts({("read",): 1.0}), cores=2)
        ),
    }

    assert {
        "locked": "the interpreter's lock: 100% of the work needs it, whatever the "
        "number of threads",
        "busy": "the core",
        "locked on one core": "the core",
        "undivided": "the thread of o1 to o8: no further division promises a gain",
        "single": "the thread of read: one operator without replicas cannot be divided",
    } == limits
