"""How busy threads are, and where: what the optimizer decides from.

The words are those of *Auto-pipelining for Data Stream Processing*: the utilization of
a thread is the share of a core that it uses, and the utilization of a port by a thread
is the share that it uses at the operator behind the port or downstream of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ThreadLoad:
    """One thread, or one of several alike.

    `ports` holds every operator in the thread's path that could have a threaded port,
    so not the one that the thread begins with. `own` is what the thread uses at each
    operator alone. A thread of a region stands for all its `replicas`. `held_up` is the
    share of the time in which it had work to do but waited for the interpreter's lock.
    """

    thread: str
    utilization: float
    ports: Mapping[str, float]
    own: Mapping[str, float] = field(default_factory=dict)
    replicas: int = 1
    held_up: float = 0.0

    @property
    def wanted(self) -> float:
        """The share of the time in which it had work to do.

        >>> ThreadLoad("a", 0.5, {}, held_up=0.25).wanted
        0.75
        """
        return min(1.0, self.utilization + self.held_up)


@dataclass(frozen=True)
class Profile:
    """The threads of a program as they were while it was watched.

    `locked` is the share of the time in which one of them held a lock that they all
    need, which is the interpreter's where they are in one process. Where parts of a
    program run one after the other, these are the threads of the part that takes
    longest, and `share` is its share of the whole time. There, `with_more` and
    `with_fewer` tell for regions how long all of it would take with one channel more,
    and with one less, compared with now.
    """

    threads: tuple[ThreadLoad, ...]
    locked: float = 0.0
    share: float = 1.0
    with_more: Mapping[str, float] = field(default_factory=dict)
    with_fewer: Mapping[str, float] = field(default_factory=dict)

    @property
    def busy_cores(self) -> float:
        """How many cores the program keeps busy."""
        return sum(load.utilization * load.replicas for load in self.threads)

    @property
    def wanted_cores(self) -> float:
        """How many it would keep busy if no thread waited for a lock."""
        return sum(load.wanted * load.replicas for load in self.threads)

    def sharing(self, port: str) -> tuple[ThreadLoad, ...]:
        """Return the threads that come by a port: T(o)."""
        return tuple(load for load in self.threads if load.ports.get(port, 0.0) > 0)
