"""The interpreter's interval: short while a program wants it so, and then as before."""

from __future__ import annotations

import sys
import threading
import time

import pytest

import anabranch as ab
from anabranch.engines.local import interpreter_settings as lock_watch
from anabranch.engines.local.interpreter_settings import PROMPT_S, Interval, LockWatch
from anabranch.errors import OperatorError


@pytest.fixture(autouse=True)
def as_before():
    before_s = sys.getswitchinterval()
    yield
    assert before_s == sys.getswitchinterval()


def eventually(wanted_s: float) -> bool:
    """Tell whether the interval becomes this one."""
    until_s = time.monotonic() + 10
    while time.monotonic() < until_s:
        if abs(sys.getswitchinterval() - wanted_s) < 1e-9:
            return True
        time.sleep(0.005)
    return False


def watch(monkeypatch, share: float) -> LockWatch:
    monkeypatch.setattr(lock_watch, "lock_share", lambda: share)
    monkeypatch.setattr(lock_watch, "EVERY_S", 0.01)
    return LockWatch()


def test_threads_that_let_go_of_the_lock_ask_for_it_sooner(monkeypatch):
    watching = watch(monkeypatch, share=0.3)

    watching.attend(2)

    assert eventually(PROMPT_S)
    watching.stop()


def test_threads_that_hold_the_lock_are_left_alone(monkeypatch):
    looked = threading.Event()
    usual_s = sys.getswitchinterval()

    def share() -> float:
        looked.set()
        return 1.0

    watching = watch(monkeypatch, share=1.0)
    monkeypatch.setattr(lock_watch, "lock_share", share)

    watching.attend(2)

    assert looked.wait(10)
    assert usual_s == sys.getswitchinterval()
    watching.stop()


def test_one_thread_is_not_watched(monkeypatch):
    watching = watch(monkeypatch, share=0.0)

    watching.attend(1)

    assert watching._thread is None


def test_back_in_one_thread_the_interval_is_as_before(monkeypatch):
    usual_s, watching = sys.getswitchinterval(), watch(monkeypatch, share=0.3)
    watching.attend(2)
    assert eventually(PROMPT_S)

    watching.attend(1)

    assert usual_s == sys.getswitchinterval()
    watching.stop()


def test_the_last_program_that_wants_it_short_ends_it():
    interval, one, other = Interval(), object(), object()
    usual_s = sys.getswitchinterval()
    interval.prompt(one)
    interval.prompt(other)

    interval.usual(one)
    still_s = sys.getswitchinterval()
    interval.usual(other)

    assert pytest.approx(PROMPT_S) == still_s
    assert usual_s == sys.getswitchinterval()


def test_a_shorter_interval_of_the_user_stays():
    usual_s, interval, program = sys.getswitchinterval(), Interval(), object()
    sys.setswitchinterval(PROMPT_S / 10)
    try:
        interval.prompt(program)
        during_s = sys.getswitchinterval()
        interval.usual(program)
    finally:
        sys.setswitchinterval(usual_s)

    assert pytest.approx(PROMPT_S / 10) == during_s


@pytest.mark.parametrize("fails", [False, True])
def test_a_program_that_ends_leaves_the_interval_as_it_was(monkeypatch, fails):
    monkeypatch.setattr(lock_watch, "lock_share", lambda: 0.0)
    seen = threading.Event()

    def until_seen(item: int) -> int:
        if item == 1 and eventually(PROMPT_S):
            seen.set()
        if item > 1 and fails:
            raise RuntimeError
        return item

    one = ab.from_iterable([1, 2, 3], int).map(until_seen)
    other = ab.from_iterable([1, 2, 3], int)
    job = ab.start(ab.union(one, other).to_list(), on="local", degree=1)
    if fails:
        with pytest.raises(OperatorError):
            job.wait()
    else:
        job.wait()

    assert seen.is_set()
