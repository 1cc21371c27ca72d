"""What a sampling profiler saw of the threads of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from anabranch.metrics.load import Profile, ThreadLoad

Route: TypeAlias = tuple[
    str, ...
]  # operators from where a thread begins to where it is

CONTENDED = 0.1  # of the time: from then on, threads are taken to wait for the lock


@dataclass(frozen=True)
class ThreadSamples:
    """One thread while it was watched.

    `begin` is the operator that it begins with: threads of one region that begin with
    the same one are replicas of each other. `at_work` divides its time on a core by
    where it was seen, in any unit; when it was seen waiting, it was nowhere. `cpu_s` is
    how long it was on a core, and `denied_s` how long it was ready, but other processes
    had all cores. `locked` is the share of the time in which somebody held the lock of
    its interpreter. `looks` is how often all threads were looked at, and
    `sampler_s` what that took on a core, for all of them.
    """

    begin: str
    elapsed_s: float
    cpu_s: float
    at_work: Mapping[Route, float]
    waiting: int = 0
    denied_s: float = 0.0
    locked: float = 0.0
    looks: int = 0
    sampler_s: float = 0.0

    @property
    def utilization(self) -> float:
        """The share of a core that it used, of those that it could have had.

        >>> ThreadSamples("a", elapsed_s=2.0, cpu_s=1.5, at_work={}).utilization
        0.75
        >>> ThreadSamples("a", 2.0, 0.75, at_work={}, denied_s=1.0).utilization
        0.75
        """
        could_s = self.elapsed_s - self.denied_s
        return min(1.0, self.cpu_s / could_s) if could_s > 0 else 0.0

    @property
    def held_up(self) -> float:
        """The share of the time in which it neither ran nor waited for items.

        >>> seen = ThreadSamples("a", 2.0, 1.0, at_work={}, waiting=50, looks=200)
        >>> seen.held_up
        0.25
        """
        if not self.looks:
            return 0.0
        return max(0.0, 1 - self.utilization - self.waiting / self.looks)


def profile_of(threads: Iterable[ThreadSamples]) -> Profile:
    """Return how busy each thread is, and where.

    A thread's use of a core is divided by where it was seen. A port is used by all that
    happens at its operator or downstream of it, which are those that came by it. What a
    thread of several does not spend at work or waiting for items counts as waiting for
    the lock, if that is taken for some of the time: it may as well be a device.

    >>> seen = {("read",): 1, ("read", "a"): 1, ("read", "a", "b"): 2}
    >>> (load,) = profile_of([ThreadSamples("read", 1.0, 0.8, seen)]).threads
    >>> load.utilization, load.ports
    (0.8, {'a': 0.6000000000000001, 'b': 0.4})
    """
    alike: dict[str, list[ThreadSamples]] = {}
    for one in threads:
        alike.setdefault(one.begin, []).append(one)
    locked = max((o.locked for group in alike.values() for o in group), default=0.0)
    return Profile(
        tuple(
            _load(begin, group, contended=len(alike) > 1 and locked >= CONTENDED)
            for begin, group in alike.items()
        ),
        locked=locked,
    )


def _load(begin: str, group: list[ThreadSamples], *, contended: bool) -> ThreadLoad:
    utilization = sum(one.utilization for one in group) / len(group)
    seen: dict[Route, float] = {}
    for one in group:
        for route, time in one.at_work.items():
            seen[route] = seen.get(route, 0.0) + time
    each = utilization / (sum(seen.values()) or 1.0)
    ports: dict[str, float] = {}
    own: dict[str, float] = {}
    for path in sorted(seen, key=len):
        at = path[-1] if path else begin
        own[at] = own.get(at, 0.0) + seen[path] * each
        for operator in dict.fromkeys(path):
            if operator != begin:
                ports[operator] = ports.get(operator, 0.0) + seen[path] * each
    held_up = sum(one.held_up for one in group) / len(group) if contended else 0.0
    return ThreadLoad(begin, utilization, ports, own, len(group), held_up)
