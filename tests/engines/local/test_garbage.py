"""Garbage is looked for less often while looks find none, and then as before."""

from __future__ import annotations

import gc

import pytest

import anabranch as ab
from anabranch.engines.local import interpreter_settings as garbage
from anabranch.engines.local.interpreter_settings import RARER, GarbageWatch


@pytest.fixture(autouse=True, scope="module")
def _a_small_heap():
    """Keep what other tests have left out of every look: it takes most of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def as_before():
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    assert before == gc.get_threshold()
    assert callbacks == gc.callbacks


@pytest.fixture
def told(monkeypatch) -> list[tuple[str, str, str]]:
    """Every look takes long enough to count, and makes up a window of its own."""
    monkeypatch.setattr(garbage, "WINDOW_S", 0.0)
    monkeypatch.setattr(garbage, "MUCH", 0.0)
    return []


def watch(told: list[tuple[str, str, str]]) -> GarbageWatch:
    watching = GarbageWatch(lambda *what: told.append(what))
    gc.collect()  # what is there already is not of this program
    watching.start()
    return watching


def cycles(count: int) -> None:
    for _ in range(count):
        one: list[object] = []
        one.append(one)


def test_looks_that_find_nothing_become_rarer(told):
    usual = gc.get_threshold()
    watching = watch(told)
    gc.collect()

    assert (RARER * usual[0], *usual[1:]) == gc.get_threshold()
    gc.collect()
    watching.stop()
    assert usual == gc.get_threshold()
    (step,) = told
    assert f"{RARER * usual[0]:,} new objects" in step[0]


def test_looks_that_find_something_stay_as_they_are(told):
    usual = gc.get_threshold()
    gc.disable()
    try:
        watching = watch(told)
        cycles(usual[0])
        gc.collect()
    finally:
        gc.enable()

    assert usual == gc.get_threshold()
    watching.stop()


def test_a_find_makes_looks_as_frequent_as_before_for_good(told):
    usual = gc.get_threshold()
    gc.disable()
    try:
        watching = watch(told)
        gc.collect()
        cycles(usual[0])
        gc.collect()
        assert usual != gc.get_threshold()  # it may be of before
        cycles(usual[0])
        gc.collect()
        assert usual == gc.get_threshold()
        gc.collect()
    finally:
        gc.enable()

    assert usual == gc.get_threshold()
    first, last = told
    assert "new objects" in first[0]
    assert "as often as before" in last[0]
    watching.stop()


def test_what_the_user_sets_meanwhile_stays(told):
    usual = gc.get_threshold()
    watching = watch(told)
    gc.collect()
    gc.set_threshold(1234)

    watching.stop()

    assert 1234 == gc.get_threshold()[0]
    gc.set_threshold(*usual)


def test_two_programs_do_not_undo_each_other(told):
    one, other = watch(told), watch(told)
    gc.collect()
    rarer = gc.get_threshold()

    other.stop()

    assert rarer == gc.get_threshold()
    one.stop()


def test_nothing_is_watched_once_it_is_over(told):
    watching = GarbageWatch(lambda *what: told.append(what))
    watching.stop()

    watching.start()  # a controller that comes late

    gc.collect()
    assert not told


def test_a_program_that_is_tuned_says_so_and_leaves_no_trace(told):
    kept = ab.generate(numbers, int).map(as_list).to_list()

    job = ab.run(kept, on="local")

    assert [[n] for n in range(300_000)] == kept.items
    assert any("look for garbage" in change.what for change in job.history)


def test_a_program_with_a_fixed_degree_is_left_alone(told):
    job = ab.run(ab.generate(numbers, int).map(as_list).to_list(), on="local", degree=1)

    assert not job.history


def numbers():
    yield from range(300_000)


def as_list(number: int) -> list[int]:
    return [number]
