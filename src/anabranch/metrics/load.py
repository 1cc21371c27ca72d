"""The load of threads and regions: samples of the profiler, and the profile made of them.

The terms are those of *Auto-pipelining for Data Stream Processing*: the utilization of
a thread is the share of a core that it uses, and the utilization of a port by a thread
is the share that it uses at the operator behind the port or downstream of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from anabranch.metrics.latency import NO_SOJOURNS, Sojourns

Route: TypeAlias = tuple[
    str, ...
]  # operators from where a thread begins to where it is

LEAST_BLOCKED = 0.1  # of the time: less may as well be chance
ENOUGH_LOOKS = 10  # to tell where a thread stands without a core
LEAST_WORK = 0.2  # of a thread's time, to tell where it goes
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
    `sampler_s` what that took on a core, for all of them. `stood` is how often it was
    seen where, on a core or not, but not where it waits for items.
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
    stood: Mapping[Route, int] = field(default_factory=dict)

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

    def find_blocked(self) -> dict[Route, float]:
        """Return the share of the time in which it waited for the world, by place.

        >>> stood = {("a",): 10, ("a", "fetch"): 90}
        >>> seen = ThreadSamples("a", 1.0, 0.1, {("a",): 1.0}, looks=100, stood=stood)
        >>> {route: round(share, 2) for route, share in seen.find_blocked().items()}
        {('a', 'fetch'): 0.9}
        """
        if self.looks < ENOUGH_LOOKS:
            return {}
        worked = sum(self.at_work.values()) or 1.0
        left = {
            route: count / max(1, self.looks)
            - self.utilization * self.at_work.get(route, 0.0) / worked
            for route, count in self.stood.items()
        }
        left = {route: share for route, share in left.items() if share > LEAST_BLOCKED}
        most = self.held_up
        scale = min(1.0, most / (sum(left.values()) or 1.0))
        return {route: share * scale for route, share in left.items()}


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
    on_core = sum(one.utilization for one in group) / len(group)
    seen: dict[Route, float] = {}
    for one in group:
        for route, time in one.at_work.items():
            seen[route] = seen.get(route, 0.0) + time
    each = on_core / (sum(seen.values()) or 1.0)
    busy = {route: time * each for route, time in seen.items()}
    blocked = 0.0
    if not contended:  # else it may as well wait for the lock
        for one in group:
            for route, share in one.find_blocked().items():
                busy[route] = busy.get(route, 0.0) + share / len(group)
                blocked += share / len(group)
    ports: dict[str, float] = {}
    own: dict[str, float] = {}
    for path in sorted(busy, key=len):
        at = path[-1] if path else begin
        own[at] = own.get(at, 0.0) + busy[path]
        for operator in dict.fromkeys(path):
            if operator != begin:
                ports[operator] = ports.get(operator, 0.0) + busy[path]
    held_up = sum(one.held_up for one in group) / len(group) if contended else 0.0
    utilization = min(1.0, on_core + blocked)
    return ThreadLoad(begin, utilization, ports, own, len(group), held_up, blocked)


@dataclass(frozen=True)
class ThreadLoad:
    """One thread, or one of several alike.

    `ports` holds every operator in the thread's path that could have a threaded port,
    so not the one that the thread begins with. `own` is what the thread uses at each
    operator alone. A thread of a region stands for all its `replicas`. `held_up` is the
    share of the time in which it had work to do but waited for the interpreter's lock.
    Of its utilization, `blocked` needs no core: an operator waited for the world.
    """

    thread: str
    utilization: float
    ports: Mapping[str, float]
    own: Mapping[str, float] = field(default_factory=dict)
    replicas: int = 1
    held_up: float = 0.0
    blocked: float = 0.0

    @property
    def on_core(self) -> float:
        """The share of a core that it uses."""
        return max(0.0, self.utilization - self.blocked)

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
    `with_fewer` tell for regions how long all of it would take with one replica more,
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
        return sum(load.on_core * load.replicas for load in self.threads)

    @property
    def wanted_cores(self) -> float:
        """How many it would keep busy if no thread waited for a lock."""
        return sum(
            (load.wanted - load.blocked) * load.replicas for load in self.threads
        )

    def shares(self) -> dict[str, float]:
        """Return which share of the work each operator has; nothing if there is little.

        >>> Profile((ThreadLoad("a", 0.8, {}, {"a": 0.25, "b": 0.75}),)).shares()["b"]
        0.75
        """
        work: dict[str, float] = {}
        for load in self.threads:
            for operator, use in load.own.items():
                work[operator] = work.get(operator, 0.0) + use * load.replicas
        total = sum(work.values())
        if total < LEAST_WORK:
            return {}
        return {operator: use / total for operator, use in work.items()}

    def sharing(self, port: str) -> tuple[ThreadLoad, ...]:
        """Return the threads that come by a port: T(o)."""
        return tuple(load for load in self.threads if load.ports.get(port, 0.0) > 0)


@dataclass(frozen=True)
class RegionLoad:
    """A region: `degree` replicas that each take `service_s` for an item.

    `items_per_s` came in, `per_item` for each item of the sources, and `share` of the
    work was the busiest replica's. A region that is one thread with others around it may
    only tell what they take together. `operators` are those of the region; one that is
    `keyed` has a queue for each replica, which others cannot help with.
    """

    degree: int
    service_s: float
    items_per_s: float
    share: float = 0.0
    per_item: float = 1.0
    operators: tuple[str, ...] = ()
    keyed: bool = False

    @property
    def capacity_per_s(self) -> float:
        """How many items a second it could do at most, as it is.

        >>> RegionLoad(degree=4, service_s=0.02, items_per_s=50).capacity_per_s
        200.0
        """
        if self.service_s <= 0:
            return float("inf")
        return 1 / (self.service_s * max(self.share, 1 / self.degree))


@dataclass(frozen=True)
class Epoch:
    """An epoch that has run: its items, how long it took, and with which degree.

    `work_s` is what all replicas did for the items, and `longest_s` how long the tasks
    took that the epoch had to wait for, one level after the other. Of all tasks, that of
    the operators `slowest` took longest.
    """

    items: int
    seconds: float
    degree: int
    work_s: float = 0.0
    longest_s: float = 0.0
    slowest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observed:
    """What was seen in one control step.

    `arrivals` are items a second that came to the sources, in equal parts of the step;
    `backlog` is how many have arrived and wait. A `closed` program has sources that are
    read as fast as it can: then arrivals are what it could do. A step that was `alarmed`
    ended early, since too many waited; its arrivals are those of all of it and of its end. `others_busy` is how many
    threads' time goes into what is not replicated, `others_s` what that is for an item.
    `stages` tells the latter for each thread, by the names of its operators. `on_core` is
    the share of the time at work that needs a core.
    """

    seconds: float
    arrivals: tuple[float, ...]
    backlog: float
    sojourns: Sojourns = NO_SOJOURNS
    regions: Mapping[str, RegionLoad] = field(default_factory=dict)
    others_busy: float = 0.0
    others_s: float = 0.0
    closed: bool = False
    alarmed: bool = False
    epochs: tuple[Epoch, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    on_core: float = 1.0

    @property
    def arrived_per_s(self) -> float:
        """How many items a second arrived on average."""
        return sum(self.arrivals) / max(1, len(self.arrivals))

    @property
    def latest_per_s(self) -> float:
        """How many items a second arrived in the later half of the step.

        >>> Observed(1.0, (10.0, 10.0, 30.0, 30.0), backlog=0).latest_per_s
        30.0
        """
        if self.alarmed:
            return self.arrivals[-1]
        half = self.arrivals[len(self.arrivals) // 2 :]
        return sum(half) / max(1, len(half))
