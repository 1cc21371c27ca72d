"""A main thread that looks at itself."""

import signal
import threading
import time

import anabranch as ab
from anabranch.runtime.profile import OwnSampler, Watched, can_look_at_itself
from tests.runtime.test_profile import program_of


def busy(n):
    end_s = time.process_time() + n / 1000
    while time.process_time() < end_s:
        pass
    return n


def sampled(work, *programs):
    """Return what was seen of this thread while it did some work."""
    watched = Watched(threading.current_thread(), "read", programs)
    sampler = OwnSampler(watched, rate_hz=1000)
    sampler.start()
    try:
        work()
    finally:
        found = sampler.stop()
    return found


def test_time_is_told_by_operator():
    numbers = ab.from_iterable([100, 300], int, name="read")
    sink = numbers.map(busy, name="a").map(lambda n: busy(2 * n), name="b").to_list()
    program = program_of(sink)

    (seen,) = sampled(lambda: program.run([100, 300]), program)

    in_a = seen.at_work["read", "a"]
    in_b = seen.at_work["read", "a", "b"]
    assert in_a < in_b
    assert seen.looks > 100
    assert 0 < seen.sampler_s < seen.cpu_s


def test_a_thread_that_waits_is_nowhere():
    (seen,) = sampled(lambda: time.sleep(0.2))

    assert sum(seen.at_work.values()) < 0.1
    assert seen.elapsed_s >= 0.2


def test_nobody_is_interrupted_afterwards():
    sampled(lambda: busy(50))

    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_PROF)
    assert signal.SIG_IGN == signal.getsignal(signal.SIGPROF)
    assert can_look_at_itself()


def test_only_a_main_thread_can_and_only_where_the_signal_is_free():
    found = []
    thread = threading.Thread(target=lambda: found.append(can_look_at_itself()))
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGPROF, lambda *_: None)
    try:
        found.append(can_look_at_itself())
    finally:
        signal.signal(signal.SIGPROF, before)

    assert [False, False] == found
