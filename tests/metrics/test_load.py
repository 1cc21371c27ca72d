"""From samples to utilizations."""

from __future__ import annotations

import pytest

from anabranch.metrics.load import ThreadSamples, pipeline_of


def load_of(at_work, cpu_s=1.0, begin="read"):
    (load,) = pipeline_of([ThreadSamples(begin, 1.0, cpu_s, at_work)]).threads
    return load


def test_a_port_is_used_by_what_is_at_it_or_downstream_of_it():
    load = load_of({("read",): 1, ("read", "a"): 2, ("read", "a", "b"): 5}, cpu_s=0.8)

    assert pytest.approx({"a": 0.7, "b": 0.5}) == load.ports


def test_what_a_thread_begins_with_is_no_place_for_a_port():
    assert "read" not in load_of({("read", "a"): 1}).ports


def test_own_use_is_at_the_operator_alone():
    load = load_of({("read",): 1, ("read", "a"): 2, ("read", "a", "b"): 5}, cpu_s=0.8)

    assert pytest.approx({"read": 0.1, "a": 0.2, "b": 0.5}) == load.own


def test_an_operator_reached_on_two_ways_counts_for_both():
    load = load_of({("read", "a", "c"): 1, ("read", "b", "c"): 3})

    assert pytest.approx({"a": 0.25, "b": 0.75, "c": 1.0}) == load.ports


def test_a_sample_between_two_items_is_at_the_beginning():
    assert {"read": 1.0} == load_of({(): 4}).own


def test_waiting_is_not_work():
    """
    Utilization comes from the clock; samples only divide it.
    """
    seen = ThreadSamples("read", 1.0, 0.25, {("read", "a"): 10}, waiting=90)

    (load,) = pipeline_of([seen]).threads
    assert load.utilization == 0.25
    assert {"a": 0.25} == load.ports


def test_a_core_that_others_have_is_not_held_against_a_thread():
    seen = ThreadSamples("read", 1.0, 0.5, {}, denied_s=0.5)

    assert seen.utilization == 1.0


def test_threads_that_begin_alike_are_replicas():
    """
    Their load is the one of each, and busy cores count all of them.
    """
    one = ThreadSamples("a", 1.0, 0.75, {("a", "b"): 1, ("a",): 1})
    other = ThreadSamples("a", 1.0, 0.25, {("a", "b"): 1, ("a",): 1})

    profile = pipeline_of([one, other])

    (load,) = profile.threads
    assert (2, 0.5, {"b": 0.25}) == (load.replicas, load.utilization, load.ports)
    assert profile.busy_cores == 1.0


def test_a_thread_that_was_never_on_a_core_has_no_load():
    assert load_of({}, cpu_s=0.0).utilization == 0.0


def test_a_place_where_a_thread_stood_without_a_core_weighs_nothing():
    load = load_of({("read", "a"): 0.0, ("read", "b"): 0.5})

    assert {"a": 0.0, "b": 1.0} == load.ports


def side_by_side(*, locked: float) -> list[float]:
    """Both are on a core for half of the time; the second waits for items in the rest."""
    hungry = ThreadSamples("read", 1.0, 0.5, {}, looks=100, locked=locked)
    idle = ThreadSamples("b", 1.0, 0.5, {}, waiting=50, looks=100, locked=locked)
    return [load.held_up for load in pipeline_of([hungry, idle]).threads]


def test_a_thread_that_neither_works_nor_waits_for_items_waits_for_the_lock():
    assert [0.5, 0.0] == side_by_side(locked=0.4)


def test_nobody_waits_for_a_lock_that_is_free():
    assert [0.0, 0.0] == side_by_side(locked=0.05)


def test_one_thread_does_not_wait_for_its_own_lock():
    seen = ThreadSamples("read", 1.0, 0.5, {}, looks=100, locked=0.5)

    (load,) = pipeline_of([seen]).threads

    assert load.held_up == 0.0


def test_what_an_operator_waits_for_the_world_counts_as_work_without_a_core():
    stood = {("read", "fetch"): 80, ("read",): 10}
    seen = ThreadSamples(
        "read", 1.0, 0.1, {("read",): 1.0}, waiting=10, looks=100, stood=stood
    )

    (load,) = pipeline_of([seen]).threads

    assert 0.9 == pytest.approx(load.utilization)
    assert 0.8 == pytest.approx(load.blocked) == pytest.approx(load.ports["fetch"])
    assert 0.1 == pytest.approx(load.on_core)


def test_a_thread_that_may_wait_for_the_lock_is_not_taken_to_wait_for_the_world():
    stood = {("read", "a"): 100}
    seen = [
        ThreadSamples(name, 1.0, 0.5, {}, looks=100, stood=stood, locked=0.9)
        for name in ("read", "b")
    ]

    assert [0.0, 0.0] == [load.blocked for load in pipeline_of(seen).threads]
