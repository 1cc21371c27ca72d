"""Ports against channels: the one that promises more is tried first."""

from __future__ import annotations

import pytest

from anabranch.control.goals import ControlSettings
from anabranch.control.simulated_program import SimulatedProgram, settle
from anabranch.control.throughput.model import ItemCosts
from anabranch.control.throughput.moves import (
    Move,
    Scope,
    Stay,
    channels_of,
    choose_move,
    fewer_channels_of,
    no_port_at,
)
from anabranch.metrics.pipeline import ThreadLoad
from anabranch.plan.plan import Arrangement
from tests.control.example import as_pipeline

EVEN = ThreadLoad("read", 1.0, {"a": 1.0, "b": 0.5}, {"read": 0.0, "a": 0.5, "b": 0.5})
HEAVY = ThreadLoad("read", 1.0, {"a": 0.9, "b": 0.1}, {"read": 0.1, "a": 0.8, "b": 0.1})


def chosen(load: ThreadLoad, cores: int = 4, **changes) -> Move | Stay:
    scope = Scope(cores, frozenset({"a", "b"}), {"r": ("a",)}, **changes)
    return choose_move(as_pipeline(load), Arrangement(), scope, ControlSettings())


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
    assert (
        "no thread is a bottleneck; the busiest is at work 30% of the time" == stay.why
    )


def test_a_promise_is_bounded_by_the_cores():
    move = chosen(EVEN, cores=2)

    assert isinstance(move, Move)
    assert 2.0 == move.promise


COSTS = ItemCosts(
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
    """
    What is before and after the region has threads too, which share cores with it.
    """
    both = SimulatedProgram(COSTS, cores=4, regions={"r": ("heavy",)})
    settle(both)

    assert 3 <= both.arrangement.degree("r") <= 5
    assert both.items_per_s >= 0.75 * 4 / COSTS.whole_s


def test_threads_that_would_wait_for_the_interpreters_lock_are_not_tried():
    profile = as_pipeline(EVEN, locked=0.97)
    scope = Scope(4, frozenset({"a", "b"}), {})

    stay = choose_move(profile, Arrangement(), scope, ControlSettings())

    assert isinstance(stay, Stay)
    assert stay.why.startswith("the interpreter's lock is taken 97% of the time")


def test_a_promise_is_bounded_by_the_lock():
    scope = Scope(4, frozenset({"a", "b"}), {})
    move = choose_move(
        as_pipeline(EVEN, locked=0.8), Arrangement(), scope, ControlSettings()
    )

    assert isinstance(move, Move)
    assert pytest.approx(1.25) == move.promise


def test_what_takes_little_of_the_time_promises_little():
    """
    Halving a level that takes a tenth of the epoch is not worth a try; halving one that
    takes a third is.
    """
    scope = Scope(4, frozenset({"a", "b"}), {})
    tenth, third = (
        choose_move(
            as_pipeline(EVEN, share=share), Arrangement(), scope, ControlSettings()
        )
        for share in (0.09, 1 / 3)
    )

    assert isinstance(tenth, Stay)
    assert isinstance(third, Move)
    assert pytest.approx(1.2) == third.promise


def test_a_thread_that_would_be_the_next_bottleneck_is_helped_at_once():
    """
    Two threads at 100% and 75%: to help only the first would leave 75%.
    """
    first = ThreadLoad("one", 1.0, {"a": 0.5})
    second = ThreadLoad("two", 0.75, {"b": 0.35})
    scope = Scope(8, frozenset({"a", "b"}), {})

    move = choose_move(
        as_pipeline(first, second), Arrangement(), scope, ControlSettings()
    )

    assert isinstance(move, Move)
    assert frozenset({"a", "b"}) == move.to.ports


def test_a_thread_with_less_than_what_remains_is_left_alone():
    first = ThreadLoad("one", 1.0, {"a": 0.5})
    second = ThreadLoad("two", 0.45, {"b": 0.2})
    scope = Scope(8, frozenset({"a", "b"}), {})

    move = choose_move(
        as_pipeline(first, second), Arrangement(), scope, ControlSettings()
    )

    assert isinstance(move, Move)
    assert frozenset({"a"}) == move.to.ports


WIDE = Arrangement().with_degree("r", 2)
IDLE = ThreadLoad("read", 0.3, {}, {"read": 0.3})


def fewer(risk: float, **changes) -> Move | Stay:
    scope = Scope(2, frozenset(), {"r": ("read",)}, **changes)
    profile = as_pipeline(IDLE, with_fewer={"r": 1 + risk})
    return choose_move(profile, WIDE, scope, ControlSettings())


def test_a_channel_that_has_little_to_do_is_taken_away_as_a_trial():
    move = fewer(risk=0.05)

    assert isinstance(move, Move)
    assert 1 == move.to.degree("r")
    assert {fewer_channels_of("r"): "read"} == move.at


def test_a_channel_that_may_be_missed_stays():
    assert isinstance(fewer(risk=0.3), Stay)


def test_a_channel_that_was_missed_stays():
    barred = frozenset({fewer_channels_of("r")})

    assert isinstance(fewer(risk=0.05, barred=barred), Stay)


def test_in_a_pipeline_channels_are_not_taken_away():
    """
    They were added because each of them helped, and are taken back if they did not.
    """
    scope = Scope(2, frozenset(), {"r": ("read",)})

    assert isinstance(
        choose_move(as_pipeline(IDLE), WIDE, scope, ControlSettings()), Stay
    )


WAITING = ThreadLoad(
    "read",
    1.0,
    {"a": 0.98, "b": 0.01},
    {"read": 0.01, "a": 0.97, "b": 0.02},
    1,
    0.0,
    0.96,
)


def test_operators_that_wait_for_the_world_get_many_replicas_at_once():
    move = chosen(WAITING, cores=2)

    assert isinstance(move, Move)
    assert 16 == move.to.degree("r")
    assert "96% of the time blocked" in move.why


def test_no_more_of_them_than_free_cores_can_keep_at_work():
    """They use a quarter of a core for each second, and two cores are there."""
    load = ThreadLoad("read", 1.0, {"a": 1.0}, {"a": 1.0}, 1, 0.0, blocked=0.75)

    move = chosen(load, cores=2)

    assert isinstance(move, Move)
    assert 8 == move.to.degree("r")


def test_no_more_of_them_than_the_user_wants():
    scope = Scope(2, frozenset({"a", "b"}), {"r": ("a",)})
    settings = ControlSettings(most_replicas=5)

    move = choose_move(as_pipeline(WAITING), Arrangement(), scope, settings)

    assert isinstance(move, Move)
    assert 5 == move.to.degree("r")


def test_waiting_for_the_world_takes_no_core():
    assert pytest.approx(0.04) == as_pipeline(WAITING).busy_cores


def test_a_port_whose_thread_has_nothing_to_do_is_removed():
    ports = Arrangement(frozenset({"a", "b"}))
    loads = (
        ThreadLoad("read", 0.5, {}),
        ThreadLoad("a", 0.7, {}),
        ThreadLoad("b", 0.02, {}),
    )
    scope = Scope(4, frozenset({"a", "b"}), {})

    move = choose_move(as_pipeline(*loads), ports, scope, ControlSettings())

    assert isinstance(move, Move)
    assert (frozenset({"a"}), True) == (move.to.ports, move.saves)
    barred = Scope(4, frozenset({"a", "b"}), {}, frozenset({no_port_at("b")}))
    stay = choose_move(as_pipeline(*loads), ports, barred, ControlSettings())
    assert isinstance(stay, Stay)


def test_a_port_without_an_effect_of_its_own_is_removed():
    """a and b take half of a thread's time together; c is what limits the program."""
    profile = as_pipeline(
        ThreadLoad("a", 0.3, {}),
        ThreadLoad("b", 0.2, {}),
        ThreadLoad("c", 1.0, {}),
    )
    chain = {"a": (), "b": ("a",), "c": ("b",)}
    scope = Scope(8, frozenset("bc"), {}, producers=chain)

    move = choose_move(profile, Arrangement(frozenset("bc")), scope, ControlSettings())

    assert isinstance(move, Move)
    assert frozenset("c") == move.to.ports
    assert move.saves
    assert "one thread would do for it and what comes before: 50%" in move.why


def test_a_port_stays_if_the_thread_before_would_become_a_bottleneck():
    profile = as_pipeline(
        ThreadLoad("a", 0.6, {}),
        ThreadLoad("b", 0.4, {}),
        ThreadLoad("c", 1.0, {}),
    )
    chain = {"a": (), "b": ("a",), "c": ("b",)}
    scope = Scope(8, frozenset("bc"), {}, producers=chain)

    found = choose_move(profile, Arrangement(frozenset("bc")), scope, ControlSettings())

    assert isinstance(found, Stay)
