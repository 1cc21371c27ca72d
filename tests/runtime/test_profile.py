"""The sampler: threads that stand still at known places are seen there."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import threading
import time

import pytest

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.runtime.profile import (
    UNDISTURBED_S,
    Sampler,
    Undisturbed,
    Watched,
    cpu_clock,
)
from anabranch.runtime.program import Program


class Stop:
    """A function for a map that holds the thread until it may go on."""

    def __init__(self):
        self.there = threading.Event()
        self.go = threading.Event()

    def __call__(self, item):
        self.there.set()
        while not self.go.is_set():
            pass  # busy, unlike a thread that waits
        return item


def program_of(sink) -> Program:
    graph = build_graph([sink])
    names = [op.name for op in graph if op not in graph.sinks]
    return Program(graph, names, ["read"])


def paths_at(stop: Stop, program: Program) -> set[tuple[str, ...]]:
    """Return where the sampler sees a thread that is held in `stop`."""
    thread = threading.Thread(target=program.run, args=([1],), daemon=True)
    thread.start()
    assert stop.there.wait(10)
    sampler = Sampler([Watched(thread, "read", [program])], rate_hz=1000)
    sampler.start()
    deadline_s = time.monotonic() + 10
    while not sampler.looks and time.monotonic() < deadline_s:
        time.sleep(0.001)
    (seen,) = sampler.stop()
    stop.go.set()
    thread.join()
    return set(seen.at_work)


def test_a_thread_in_the_middle_of_a_chain():
    stop = Stop()
    source = ab.from_iterable([1], name="read")
    sink = source.map(abs, name="a").map(stop, name="b").map(abs, name="c").to_list()

    assert {("read", "a", "b")} == paths_at(stop, program_of(sink))


def test_a_thread_in_user_code_that_was_called_by_user_code():
    stop = Stop()

    def deep(item):
        return max(stop(item) for _ in range(1))

    source = ab.from_iterable([1], name="read").filter(bool, name="a")
    sink = source.scan(lambda s, n: (s, deep(n)), 0, name="b").to_list()

    assert {("read", "a", "b")} == paths_at(stop, program_of(sink))


def test_an_operator_behind_a_fan_in_is_seen_on_the_way_that_was_taken():
    stop = Stop()
    source = ab.from_iterable([1], name="read")
    one = source.filter(lambda n: n > 5, name="one")
    other = source.map(abs, name="other")
    sink = ab.union(one, other, name="both").map(stop, name="end").to_list()

    assert {("read", "other", "both", "end")} == paths_at(stop, program_of(sink))


def test_a_deep_chain_is_seen_whole():
    """
    Generated programs put the rest of a deep chain into a function of its own.
    """
    stop = Stop()
    stream = ab.from_iterable([1], name="read")
    for number in range(15):
        stream = stream.flat_map(lambda n: [n], name=f"m{number}")
    sink = stream.scan(lambda s, n: (s, stop(n)), 0, name="end").to_list()

    names = [f"m{number}" for number in range(15)]
    assert {("read", *names, "end")} == paths_at(stop, program_of(sink))


def test_a_thread_that_waits_is_not_at_work():
    go = threading.Event()
    thread = threading.Thread(target=go.wait, daemon=True)
    thread.start()
    sampler = Sampler([Watched(thread, "read", [])], rate_hz=1000)
    sampler.start()
    deadline_s = time.monotonic() + 10
    while not sampler.looks and time.monotonic() < deadline_s:
        time.sleep(0.001)
    (seen,) = sampler.stop()
    go.set()
    thread.join()

    assert {} == seen.at_work
    assert seen.waiting > 0


def test_a_thread_that_is_gone_is_left_out():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    sampler = Sampler([Watched(thread, "read", [])])
    sampler.start()
    thread.join()

    assert () == sampler.stop()
    assert cpu_clock(thread) is None


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux")  # noqa: PTH112 - a path of the kernel
def test_a_thread_that_the_kernel_no_longer_knows_is_not_asked():
    """Python may call a thread alive that has ended; asking for its clock would crash."""
    none_has_it = 1 << 30

    assert cpu_clock(threading.current_thread(), none_has_it) is None


def test_it_leaves_the_interpreter_as_it_was():
    before_s, collecting = sys.getswitchinterval(), gc.isenabled()
    sampler = Sampler([], rate_hz=1000)
    sampler.start()
    deadline_s = time.monotonic() + 10
    while not sampler.looks and time.monotonic() < deadline_s:
        time.sleep(0.001)
    sampler.stop()

    assert (before_s, collecting) == (sys.getswitchinterval(), gc.isenabled())
    assert not [t for t in threading.enumerate() if t.name == "sampler"]


def test_while_it_looks_threads_ask_for_the_lock_later_and_nothing_is_collected():
    before_s = sys.getswitchinterval()

    with Undisturbed():
        during = sys.getswitchinterval(), gc.isenabled()

    assert (UNDISTURBED_S, False) == pytest.approx(during)
    assert before_s < UNDISTURBED_S


def locked_while(work) -> float:
    """Return which share of the time the sampler finds the lock taken."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), daemon=True)
    thread.start()
    sampler = Sampler([Watched(thread, "read", [])], rate_hz=200)
    sampler.start()
    deadline_s = time.monotonic() + 20
    while sampler.looks < 40 and time.monotonic() < deadline_s:
        time.sleep(0.02)
    (seen,) = sampler.stop()
    over.set()
    thread.join()
    return seen.locked


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nobody counts")
def test_it_tells_how_much_of_the_time_the_lock_is_taken():
    def python(over):
        while not over.is_set():
            pass

    def outside(over):
        block = bytes(2**24)
        while not over.is_set():
            hashlib.sha256(block).digest()

    assert locked_while(outside) < 0.5 < locked_while(python)


def test_a_thread_that_came_out_of_a_fork_is_watched_under_its_own_number():
    """
    Python 3.11 does not tell such a thread its new number; nor is the old one anybody's.
    """
    seen_s, tell_s = os.pipe()
    child = os.fork()
    if child == 0:
        thread, task = threading.current_thread(), threading.get_native_id()
        sampler = Sampler([Watched(thread, "read", [], task=task)], rate_hz=1000)
        sampler.start()
        until_s = time.monotonic() + 10
        while sampler.looks < 20 and time.monotonic() < until_s:
            sum(range(1000))
        (found,) = sampler.stop()
        os.write(tell_s, str(sum(found.at_work.values())).encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert float(os.read(seen_s, 100)) > 0


def test_looks_are_at_unequal_distances(monkeypatch):
    """
    At equal ones, a program that repeats itself would be seen at few places only.
    """
    pauses, period_s, sleep = [], 0.005, time.sleep

    def noted(seconds):
        pauses.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", noted)
    sampler = Sampler([], rate_hz=1 / period_s)
    sampler.start()
    sleep(40 * period_s)
    sampler.stop()

    assert max(pauses) > 1.1 * period_s
