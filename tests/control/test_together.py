"""Ports against channels: the one that promises more is tried first."""

from __future__ import annotations

import pytest

from anabranch.control.settings import Settings
from anabranch.control.simulate import Costs, SimulatedProgram, settle
from anabranch.control.together import Move, Scope, Stay, channels_of, choose_move
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.plan.arrangement import Arrangement

EVEN = ThreadLoad("read", 1.0, {"a": 1.0, "b": 0.5}, {"read": 0.0, "a": 0.5, "b": 0.5})
HEAVY = ThreadLoad("read", 1.0, {"a": 0.9, "b": 0.1}, {"read": 0.1, "a": 0.8, "b": 0.1})


def chosen(load: ThreadLoad, cores: int = 4, **changes) -> Move | Stay:
    scope = Scope(cores, frozenset({"a", "b"}), {"r": ("a",)}, **changes)
    return choose_move(Profile((load,)), Arrangement(), scope, Settings())


def test_a_chain_that_divides_evenly_gets_a_port():
    move = chosen(EVEN)

    assert isinstance(move, Move)
    assert frozenset({"b"}) == move.to.ports


def test_one_heavy_operator_that_may_be_replicated_gets_a_channel():
    """
    No port divides a; a port before it leaves 0.9, two channels leave 0.4.
    """
    move = chosen(HEAVY)

    assert isinstance(move, Move)
    assert 2 == move.to.degree("r")
    assert pytest.approx(1 / 0.4) == move.promise


def test_what_is_barred_leaves_the_other():
    move = chosen(HEAVY, barred=frozenset({channels_of("r")}))

    assert isinstance(move, Move)
    assert frozenset({"a"}) == move.to.ports


def test_nothing_is_tried_without_a_free_core():
    assert Stay("all 1 cores are busy") == chosen(HEAVY, cores=1)


def test_nothing_is_tried_when_no_thread_is_busy():
    stay = chosen(ThreadLoad("read", 0.3, {"a": 0.2}))

    assert isinstance(stay, Stay)
    assert "no thread is a bottleneck; the busiest uses 30% of a core" == stay.why


def test_a_promise_is_bounded_by_the_cores():
    move = chosen(EVEN, cores=2)

    assert isinstance(move, Move)
    assert 2.0 == move.promise


COSTS = Costs(
    {
        ("read",): 0.01,
        ("read", "parse"): 0.04,
        ("read", "parse", "heavy"): 0.40,
        ("read", "parse", "heavy", "log"): 0.05,
    }
)


def test_both_together_beat_each_alone():
    """
    A heavy operator that may be replicated between light ones that may not: channels
    until the light ones are the bottleneck, then ports between these.
    """
    regions = {"r": ("heavy",)}
    both = SimulatedProgram(COSTS, cores=16, regions=regions)
    only_ports = SimulatedProgram(COSTS, cores=16)
    settle(both)
    settle(only_ports)

    assert both.items_per_s > 7 * only_ports.items_per_s
    assert both.arrangement.degree("r") >= 8


def test_channels_stop_when_the_cores_are_used_up():
    both = SimulatedProgram(COSTS, cores=4, regions={"r": ("heavy",)})
    settle(both)

    assert 3 <= both.arrangement.degree("r") <= 5
    assert both.items_per_s >= 0.85 * 4 / COSTS.whole_s
