"""What a threaded port would do to the threads that come by it (section 3.1).

A prediction is about how work is divided, not about how busy threads will be: when a
bottleneck is gone, all of them get more to do.
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.metrics.load import Profile


def predict(profile: Profile, port: str) -> dict[str, float]:
    """Return the work of each thread that comes by a port, and of the new thread.

    The new thread has the name of the port.

    >>> from anabranch.metrics.load import ThreadLoad
    >>> loads = (ThreadLoad("t0", 0.75, {"o1": 0.5}), ThreadLoad("t1", 1, {"o1": 0.25}))
    >>> predict(Profile(loads), "o1")
    {'t0': 0.25, 't1': 0.75, 'o1': 0.75}
    """
    sharing = profile.sharing(port)
    work = {load.thread: load.utilization - load.ports[port] for load in sharing}
    work[port] = sum(load.ports[port] for load in sharing)
    return work


def utility(profile: Profile, port: str) -> float:
    """Return the work of the busiest thread after an insertion: less is better.

    >>> from anabranch.metrics.load import ThreadLoad
    >>> utility(Profile((ThreadLoad("t0", 0.9, {"o1": 0.6}),)), "o1")
    0.6
    """
    return max(predict(profile, port).values())


def aggregate_utility(profile: Profile, ports: Iterable[str]) -> float:
    """Return the utility of several insertions: that of the worst one."""
    return max(utility(profile, port) for port in ports)
