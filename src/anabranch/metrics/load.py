"""Rates of items, profiler samples, and the observations of a control step.

The terms are those of *Auto-pipelining for Data Stream Processing*: the utilization of
a thread is the share of a core that it uses, and the utilization of a port by a thread
is the share that it uses at the operator behind the port or downstream of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean, variance
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from anabranch.metrics.latency import NO_SOJOURNS, Sojourns
from anabranch.metrics.pipeline import (
    InputLoad,
    Pipeline,
    RegionLoad,
    Route,
    ServiceTime,
)

Series: TypeAlias = Sequence[float]  # items per second, one slice of time after another


@dataclass(frozen=True)
class Rates:
    """Items per second at the input of each operator (at the output of a source)."""

    at: Mapping[str, tuple[float, ...]]

    def __add__(self, other: Rates) -> Rates:
        """Concatenate both series.

        >>> (Rates({"a": (1.0,)}) + Rates({"a": (2.0,)})).at
        {'a': (1.0, 2.0)}
        """
        return Rates({name: one + other.at[name] for name, one in self.at.items()})


@dataclass(frozen=True)
class Gain:
    """The change of throughput: `ratio` of after to before, with its `margin`."""

    ratio: float
    margin: float

    def exceeds(self, least: float) -> bool:
        """Tell whether the gain is above `least`, beyond chance.

        >>> Gain(ratio=1.2, margin=0.05).exceeds(0.03)
        True
        >>> Gain(ratio=1.2, margin=0.25).exceeds(0.03)
        False
        """
        return self.ratio - 1 > max(least, self.margin)

    def __str__(self) -> str:
        return f"{self.ratio:.2f}x \N{PLUS-MINUS SIGN}{self.margin:.2f}"


def gain(before: Series, after: Series, sureness: float = 2.0) -> Gain:
    """Compare two series; the margin is `sureness` standard errors of their difference.

    >>> gain([100, 102, 98], [150, 152, 148]).ratio
    1.5
    """
    base = fmean(before)
    if base <= 0:
        return Gain(1.0, float("inf"))
    error = sum(
        variance(series) / len(series) for series in (before, after) if len(series) > 1
    )
    return Gain(fmean(after) / base, sureness * error**0.5 / base)


LOOKS = 20  # readings of arrivals in a control step
FEW_LOOKS = 2  # too few for an alarm or a load
STEP_PARTS = 4  # in which the load of a step is told


class StepArrivals:
    """Counts arrivals within a control step, until it is over or too many wait.

    The load is given in equal parts of the step. An alarmed step gives the load of all
    of it, and that of its end: the highest since any reading, over at least two.

    >>> step = StepArrivals(most_waiting=9)
    >>> [step.look(*one) for one in ((0.0, 0, 0), (0.5, 5, 0), (1.0, 30, 0))]
    [True, True, True]
    >>> step.rates()
    (10.0, 10.0, 50.0, 50.0)
    >>> step.look(1.1, 45, waiting=12), step.alarmed, step.rates()
    (False, True, (40.9, 66.7))
    """

    def __init__(self, most_waiting: float = math.inf) -> None:
        self.alarmed = False
        self._most = most_waiting
        self._looks: list[tuple[float, int]] = []

    def look(self, at_s: float, arrived: int, waiting: float) -> bool:
        """Add a reading; tell whether to continue."""
        self._looks.append((at_s, arrived))
        self.alarmed = len(self._looks) > FEW_LOOKS and waiting > self._most
        return len(self._looks) <= LOOKS and not self.alarmed

    def rates(self) -> tuple[float, ...]:
        """Return the load in items per second."""
        (first_s, first), (last_s, last) = self._looks[0], self._looks[-1]
        if last_s <= first_s:
            return (0.0,)
        if self.alarmed:
            early = self._looks[:-FEW_LOOKS]
            of_late = max((last - count) / (last_s - at_s) for at_s, count in early)
            return round((last - first) / (last_s - first_s), 1), round(of_late, 1)
        ends_s = np.linspace(first_s, last_s, STEP_PARTS + 1)
        at_s, counts = zip(*self._looks, strict=True)
        known = np.interp(ends_s, at_s, counts).tolist()
        part_s = (last_s - first_s) / STEP_PARTS
        return tuple((b - a) / part_s for a, b in pairwise(known))


RECENT_S = 2.0  # over which a load is measured
PARTS = 8


class RecentArrivals:
    """Keeps readings for as long as they describe the recent load.

    >>> recent = RecentArrivals()
    >>> _ = recent.look(0.0, 0), recent.look(1.0, 100)
    >>> recent.look(2.0, 300)
    (100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0)
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now_s: float, arrived: int) -> tuple[float, ...]:
        """Add a reading; return the recent load in equal parts, oldest first."""
        looks = self._looks
        looks.append((now_s, arrived))
        while len(looks) > 2 and now_s - looks[1][0] >= RECENT_S:  # noqa: PLR2004
            looks.popleft()
        first_s = max(looks[0][0], now_s - RECENT_S)
        if now_s <= first_s:
            return (0.0,)
        at_s, counts = zip(*looks, strict=True)
        ends_s = np.linspace(first_s, now_s, PARTS + 1)
        known = np.interp(ends_s, at_s, counts).tolist()
        part_s = (now_s - first_s) / PARTS
        return tuple((after - before) / part_s for before, after in pairwise(known))


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


class UnitWork(NamedTuple):
    """The work of operators that run together, and the items that enter them.

    `share` is the busiest replica's part of the time.
    """

    operators: tuple[str, ...]
    items: int
    seconds: float
    share: float = 1.0
    replicated: bool = False


@dataclass(frozen=True)
class Epoch:
    """A finished epoch: its items, its duration, and its degree.

    `work_s` is the work of all replicas, and `longest_s` the time of the tasks that the
    epoch had to wait for, level by level. Of all tasks, that of the operators `slowest`
    took longest. `units` are the parts that the program runs in.
    """

    items: int
    seconds: float
    degree: int
    work_s: float = 0.0
    longest_s: float = 0.0
    slowest: tuple[str, ...] = ()
    units: tuple[UnitWork, ...] = ()


@dataclass(frozen=True)
class Observed:
    """The observations of one control step.

    `arrivals` are arrivals per second at the sources, in equal parts of the step;
    `backlog` is how many have arrived and wait. A `closed` program has sources that are
    read as fast as it can: then arrivals are its throughput. A step that was `alarmed`
    ended early, because the backlog was too large; its arrivals are those of the whole
    step and of its end. `pipeline` is the model of the program in this step.
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
