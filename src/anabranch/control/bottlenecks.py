"""Bottleneck selection: the threads that need help, in groups that depend on each other.

The first phase of the optimizer (section 4.1). Threads that share operators depend on
each other; groups that share none are solved apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.metrics.load import Profile, ThreadLoad


def select_bottlenecks(profile: Profile, beta: float) -> tuple[ThreadLoad, ...]:
    """Return the threads that have work to do for `beta` of the time or more.

    In the paper that is their utilization. Where threads share an interpreter, one that
    waits for its lock is not on a core, but everybody else waits for it.

    >>> loads = ThreadLoad("t0", 0.9, {}), ThreadLoad("t1", 1.0, {})
    >>> [load.thread for load in select_bottlenecks(Profile(loads), beta=0.92)]
    ['t1']
    """
    return tuple(load for load in profile.threads if load.wanted >= beta)


def dependent_groups(
    threads: Sequence[ThreadLoad],
) -> tuple[tuple[ThreadLoad, ...], ...]:
    """Return the threads in groups: those that share operators, directly or not.

    >>> a, b = ThreadLoad("a", 1, {"o1": 0.5, "o2": 0.1}), ThreadLoad("b", 1, {"o3": 1})
    >>> c = ThreadLoad("c", 1, {"o2": 0.3})
    >>> [[load.thread for load in group] for group in dependent_groups((a, b, c))]
    [['a', 'c'], ['b']]
    """
    groups: list[list[ThreadLoad]] = []
    for load in threads:
        near = [group for group in groups if any(_share(load, one) for one in group)]
        joined = [one for group in near for one in group]
        groups = [group for group in groups if group not in near]
        groups.append([*joined, load])
    place = {load.thread: number for number, load in enumerate(threads)}
    ordered = [sorted(group, key=lambda load: place[load.thread]) for group in groups]
    ordered.sort(key=lambda group: place[group[0].thread])
    return tuple(map(tuple, ordered))


def _share(one: ThreadLoad, other: ThreadLoad) -> bool:
    return not one.ports.keys().isdisjoint(other.ports)
