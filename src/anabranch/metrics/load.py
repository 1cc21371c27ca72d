"""Profiler samples, the observations of a control step, and the model derived from
them.

The terms are those of *Auto-pipelining for Data Stream Processing*: the utilization of
a thread is the share of a core that it uses, and the utilization of a port by a thread
is the share that it uses at the operator behind the port or downstream of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.metrics.latency import NO_SOJOURNS, Sojourns
from anabranch.metrics.pipeline import (
    InputLoad,
    Pipeline,
    RegionLoad,
    Route,
    ServiceTime,
)

LEAST_BLOCKED = 0.1  # of the time: less may be chance
ENOUGH_LOOKS = 10  # samples needed to locate a thread without a core
CONTENDED = 0.1  # of the time: above this, threads count as waiting for the lock


@dataclass(frozen=True)
class ThreadSamples:
    """The samples of one thread.

    `begin` is its first operator: threads of one region with the same first operator
    are replicas of each other. `at_work` divides its CPU time by position, in any unit;
    waiting has no position. `cpu_s` is its CPU time, and `denied_s` how long it was
    ready while other processes had all cores. `locked` is the share of the time in
    which the interpreter lock was held. `looks` is the number of samples of all
    threads, and `sampler_s` their CPU time. `stood` counts samples by position, on a
    core or not, except waiting for items. Of the samples in which it was `waiting`, it
    waited at `full` for room in the buffer behind it.
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
    full: int = 0

    @property
    def utilization(self) -> float:
        """The share of a core it used, of the time it could have had one.

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
        """Return the share of the time in which it was blocked, by position.

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


def pipeline_of(
    threads: Iterable[ThreadSamples],
    inputs: Sequence[InputLoad] = (),
    **facts: Any,
) -> Pipeline:
    """Return the model of a program from samples of its threads.

    A thread's time is divided by position. `inputs` are the known ones, with their
    rates; an input seen besides them counts one item per second. `facts` are further
    attributes of the pipeline.

    If several threads share a lock that is held for some of the time, time spent
    neither at work nor waiting for items counts as waiting for the lock: it may as well
    be a device.

    >>> seen = {("read",): 1, ("read", "a"): 1, ("read", "a", "b"): 2}
    >>> (load,) = pipeline_of([ThreadSamples("read", 1.0, 0.8, seen)]).threads
    >>> round(load.utilization, 2), {n: round(use, 2) for n, use in load.ports.items()}
    (0.8, {'a': 0.6, 'b': 0.4})
    """
    alike: dict[str, list[ThreadSamples]] = {}
    for one in threads:
        alike.setdefault(one.begin, []).append(one)
    locked = max((o.locked for group in alike.values() for o in group), default=0.0)
    contended = len(alike) > 1 and locked >= CONTENDED
    uses = {
        name: _uses_by_route(group, contended=contended)
        for name, group in alike.items()
    }
    totals: dict[Route, float] = {}  # of all routes with the same end
    for routes in uses.values():
        for route, use in routes.items():
            totals[route[-2:]] = totals.get(route[-2:], 0.0) + use.work_s
    filled = [
        _fill(route, use, totals[route[-2:]], len(alike[name]), inputs)
        for name, routes in uses.items()
        for route, use in routes.items()
    ]
    seen = {one.operator for one in filled}
    idle = [one for one in inputs if one.operator not in seen and one.thread in alike]
    return Pipeline((*filled, *idle), locked=locked, **facts)


def _fill(
    route: Route,
    use: ServiceTime,
    total: float,
    replicas: int,
    inputs: Sequence[InputLoad],
) -> InputLoad:
    """Return the input at the end of a route, with its cost per item.

    If several routes end at an input, each has its part of the work.
    """
    *before, operator = route
    known = [
        one
        for one in inputs
        if one.operator == operator and (not before or one.producer == before[-1])
    ]
    part = use.work_s / total if total > 0 else 1.0
    in_per_s = part * sum(one.in_per_s for one in known) or 1.0
    out_per_s = part * sum(one.out_per_s for one in known)
    each = replicas / in_per_s
    service = ServiceTime(
        use.cpu_s * each, use.lock_s * each, use.blocked_s * each, use.output_s * each
    )
    first = known[0] if known else InputLoad(operator, route, service, in_per_s)
    return replace(
        first,
        route=route,
        service=service,
        in_per_s=in_per_s,
        out_per_s=out_per_s,
        replicas=replicas,
    )


def _uses_by_route(
    samples: Sequence[ThreadSamples], *, contended: bool
) -> dict[Route, ServiceTime]:
    """Return the shares of a thread's time by route, averaged over its replicas."""
    if not samples:
        return {}
    begin, count = samples[0].begin, len(samples)
    on_core = sum(one.utilization for one in samples) / count
    seen: dict[Route, float] = {}
    for one in samples:
        for route, time in one.at_work.items():
            seen[route or (begin,)] = seen.get(route or (begin,), 0.0) + time
    each = on_core / (sum(seen.values()) or 1.0)
    cpu = {route: time * each for route, time in seen.items()}
    blocked: dict[Route, float] = {}
    if not contended:  # else it may be waiting for the lock
        for one in samples:
            for route, share in one.find_blocked().items():
                at = route or (begin,)
                blocked[at] = blocked.get(at, 0.0) + share / count
    held_up = sum(one.held_up for one in samples) / count if contended else 0.0
    full = sum(one.full / max(1, one.looks) for one in samples) / count
    work = {r: cpu.get(r, 0.0) + blocked.get(r, 0.0) for r in {**cpu, **blocked}}
    if not work:
        work = {(begin,): 0.0}
    total = sum(work.values())
    found = {}
    for route, use in work.items():
        part = use / total if total > 0 else 1 / len(work)
        found[route] = ServiceTime(
            cpu.get(route, 0.0), held_up * part, blocked.get(route, 0.0), full * part
        )
    return found


@dataclass(frozen=True)
class Epoch:
    """A finished epoch: its items, its duration, and its degree.

    `work_s` is the work of all replicas, and `longest_s` the time of the tasks that the
    epoch had to wait for, level by level. Of all tasks, that of the operators `slowest`
    took longest.
    """

    items: int
    seconds: float
    degree: int
    work_s: float = 0.0
    longest_s: float = 0.0
    slowest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observed:
    """The observations of one control step.

    `arrivals` are arrivals per second at the sources, in equal parts of the step;
    `backlog` is how many have arrived and wait. A `closed` program has sources that are
    read as fast as it can: then arrivals are its throughput. A step that was `alarmed`
    ended early, because too many waited; its arrivals are those of all of it and of its
    end. `pipeline` is the model of the program in this step.
    """

    seconds: float
    arrivals: tuple[float, ...]
    backlog: float
    sojourns: Sojourns = NO_SOJOURNS
    pipeline: Pipeline = field(default_factory=Pipeline)
    closed: bool = False
    alarmed: bool = False
    epochs: tuple[Epoch, ...] = ()

    @property
    def regions(self) -> Mapping[str, RegionLoad]:
        """The regions of the pipeline."""
        return self.pipeline.regions

    @property
    def arrived_per_s(self) -> float:
        """The mean arrivals per second."""
        return sum(self.arrivals) / max(1, len(self.arrivals))

    @property
    def latest_per_s(self) -> float:
        """The arrivals per second in the later half of the step.

        >>> Observed(1.0, (10.0, 10.0, 30.0, 30.0), backlog=0).latest_per_s
        30.0
        """
        if self.alarmed:
            return self.arrivals[-1]
        half = self.arrivals[len(self.arrivals) // 2 :]
        return sum(half) / max(1, len(half))
