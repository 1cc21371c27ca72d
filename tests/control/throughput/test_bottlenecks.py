"""Groups of threads that depend on each other."""

from __future__ import annotations

from anabranch.control.throughput.pipelining import dependent_groups, select_bottlenecks
from anabranch.metrics.pipeline import ThreadLoad
from tests.control.example import EXAMPLE


def groups_of(**paths: str) -> list[str]:
    loads = [
        ThreadLoad(thread, 1.0, dict.fromkeys(path, 0.1))
        for thread, path in paths.items()
    ]
    return ["".join(one.thread for one in group) for group in dependent_groups(loads)]


def test_all_threads_of_the_example_are_one_group():
    (group,) = dependent_groups(EXAMPLE)

    assert ["t0", "t1", "t2", "t3"] == [load.thread for load in group]


def test_threads_that_share_nothing_stand_apart():
    assert ["a", "b"] == groups_of(a="xy", b="z")


def test_dependence_goes_on_through_a_third_thread():
    assert ["abc"] == groups_of(a="x", b="y", c="xy")


def test_a_thread_at_the_threshold_is_a_bottleneck():
    loads = ThreadLoad("a", 0.8, {}), ThreadLoad("b", 0.79, {})

    assert (loads[0],) == select_bottlenecks((loads), beta=0.8)


def test_a_thread_that_waits_for_the_lock_is_a_bottleneck():
    """
    It is on a core for half of the time, but has work to do for all of it.
    """
    loads = ThreadLoad("t0", 0.5, {}, held_up=0.5), ThreadLoad("t1", 0.5, {})

    assert loads[:1] == select_bottlenecks((loads), beta=0.8)
