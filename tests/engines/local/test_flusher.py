"""What sources hold is sent on, however they behave."""

from __future__ import annotations

import threading
import time

import pytest

from anabranch.engines.local.source_thread import HELD_S, SELDOM, Flusher
from anabranch.runtime.ambient import Ambient


class Gatherer:
    """A source that holds something, or has sent it on by itself."""

    def __init__(self) -> None:
        self.read = 0
        self.holds = False
        self.looks = 0
        self.flushed = threading.Event()

    def flush_if_late(self, now_s: float) -> bool:
        assert now_s <= time.perf_counter()
        self.looks += 1
        late = self.holds
        if late:
            self.holds = False
            self.read += 1
            self.flushed.set()
        return late


def unexpected(error: BaseException) -> None:
    raise AssertionError from error


@pytest.fixture
def flusher():
    made = Flusher(unexpected, Ambient())
    made.start()
    yield made
    made.stop()
    made.thread.join(5)
    assert not made.thread.is_alive()


def test_what_a_source_holds_is_sent_on_again_and_again(flusher):
    source = Gatherer()
    for _ in range(20):
        source.flushed.clear()
        source.holds = True
        flusher.look_after(source)
        assert source.flushed.wait(5)

    assert 20 == source.read


def test_a_source_that_comes_while_it_pauses_is_looked_after(flusher):
    busy, other = Gatherer(), Gatherer()
    for _ in range(50):
        busy.read += 1
        flusher.look_after(busy)
        time.sleep(0.001)
    other.holds = True
    flusher.look_after(other)

    assert other.flushed.wait(5)


def test_it_sleeps_when_nothing_moves(flusher):
    source = Gatherer()
    flusher.look_after(source)
    while flusher._moving:
        time.sleep(0.001)
    looks = source.looks
    time.sleep(0.05)

    assert looks == source.looks


def test_it_looks_seldom_at_a_source_that_is_never_late_and_often_at_one_that_was(
    flusher,
):
    source = Gatherer()
    until_s = time.perf_counter() + 5
    while flusher._pause_s < SELDOM * HELD_S and time.perf_counter() < until_s:
        source.read += 1
        flusher.look_after(source)
        time.sleep(0.0005)
    assert SELDOM * HELD_S == flusher._pause_s

    source.holds = True
    flusher.look_after(source)
    assert source.flushed.wait(5)
    while flusher._moving:
        time.sleep(0.001)
    assert flusher._pause_s < SELDOM * HELD_S


def test_an_error_of_a_source_is_reported():
    class Broken(Gatherer):
        def flush_if_late(self, now_s: float) -> bool:
            raise ValueError(now_s)

    errors: list[BaseException] = []
    told = threading.Event()

    def fail(error: BaseException) -> None:
        errors.append(error)
        told.set()

    flusher = Flusher(fail, Ambient())
    flusher.start()
    source = Broken()
    source.holds = True
    flusher.look_after(source)

    assert told.wait(5)
    assert ["ValueError"] == [type(error).__name__ for error in errors]
