"""Simulated actuators for the latency policies: a region with a queue, a program in
epochs.

They take no time, so the same policies show what a program would do on a larger
machine, or under hours of load.

In the queue, replicas serve items in order of arrival, on any number of cores; a change
waits until the items in progress are done, as on the local engine. The source is a
load, or one that is read as fast as there is room.

An epoch takes the waiting items, up to its limit, and all of them come out at its end.
It takes the time given by its costs, plus some noise; from time to time one takes far
longer, like a garbage collection of a virtual machine.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.control.latency.admission import EpochCosts
from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import LOOKS, Epoch, Observed, RecentArrivals, StepArrivals
from anabranch.metrics.pipeline import InputLoad, Pipeline, RegionShape, ServiceTime

REGION = "r0"


@dataclass(frozen=True)
class Machine:
    """A number of cores, each of which runs `threads` at a time, sharing it.

    `gain` is the extra work of a core with two threads over one.
    """

    cores: int
    threads: int = 1
    gain: float = 0.25

    def slowdown(self, busy: float) -> float:
        """Return the slowdown of work when so many threads are busy."""
        if busy <= self.cores:
            return 1.0
        shared = min(busy, self.cores * self.threads) - self.cores
        return busy / (self.cores + self.gain * shared)


@dataclass
class SimulatedQueue:
    """A program with one region; `due_s` is its load.

    An item takes `services_s`, cyclically, on an idle machine. A program whose source
    is `closed` reads when there are fewer than `window` items per replica.
    """

    services_s: Sequence[float]
    machine: Machine
    due_s: Sequence[float] = ()
    others: int = 2
    others_busy: float = 0.0
    closed: int = 0  # items in the window of each replica; 0 for a load
    seconds: float = float("inf")
    degree: int = 1
    noise: float = 0.0
    seed: int = 0
    now_s: float = 0.0
    epoch_items: int | None = None
    latencies: Latencies = field(default_factory=Latencies)
    timeline: list[tuple[float, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._free_s = [0.0] * self.degree
        self._next = 0  # the item that is served next
        self._out: deque[tuple[float, float]] = deque()  # departure, and service time
        self._left: deque[float] = deque()  # when the last items left, for the window
        self._opened_s = 0.0  # when there was last more room
        self._last_s = 0.0
        self._busy_s = 0.0
        self._served = 0
        self.each: list[tuple[float, float]] = []  # arrival, and latency, of every item

    @property
    def cores(self) -> int:
        return self.machine.cores * self.machine.threads

    @property
    def degrees(self) -> Mapping[str, int]:
        return {REGION: self.degree}

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        """Change the replicas when those in progress are done."""
        if self._over:
            return None
        self.degree = degrees.get(REGION, self.degree)
        still_s = self._opened_s = max(self.now_s, *self._free_s)
        self._free_s = [still_s] * self.degree
        return f"all items paused for {(still_s - self.now_s) * 1000:.0f} ms"

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        """Let time pass."""
        if self._over:
            return None
        before, began_s = sojourns([self.latencies]), self.now_s
        busy_s, served, first = self._busy_s, self._served, self._next
        step = StepArrivals(most_waiting)
        while self._look(step):
            self.now_s += seconds / LOOKS
            self._serve(self.now_s)
            self._deliver(self.now_s)
        arrivals, until_s = step.rates(), self.now_s
        seconds = until_s - began_s
        items, worked_s = self._served - served, self._busy_s - busy_s
        seen = sojourns([self.latencies]).since(before)
        self.timeline.append((until_s, seen.mean_s, self.degree))
        if self.closed:
            arrivals = (seen.items / seconds,)
        return Observed(
            seconds,
            arrivals,
            backlog=self._count_waiting(),
            sojourns=seen,
            pipeline=self._describe(
                worked_s / max(1, items), (self._next - first) / seconds
            ),
            closed=bool(self.closed),
            alarmed=step.alarmed,
        )

    def _describe(self, service_s: float, per_s: float) -> Pipeline:
        """Return the model of the region and of its environment."""
        region = InputLoad(
            REGION, (REGION,), ServiceTime(service_s), per_s, per_s, self.degree
        )
        beside = ServiceTime(self.others_busy / per_s if per_s > 0 else 0.0)
        others = InputLoad("others", ("others",), beside, per_s, per_s)
        shapes = {REGION: RegionShape((REGION,), self.degree)}
        return Pipeline((region, others), shapes, source_per_s=per_s)

    @property
    def _over(self) -> bool:
        if self.now_s >= self.seconds:
            return True
        return not self.closed and self._next >= len(self.due_s) and not self._out

    def _look(self, step: StepArrivals) -> bool:
        arrived = self._count_arrivals(self.now_s)
        return step.look(self.now_s, arrived, self._count_waiting())

    def _count_waiting(self) -> int:
        return 0 if self.closed else self._count_arrivals(self.now_s) - self._next

    def _count_arrivals(self, by_s: float) -> int:
        return bisect_right(self.due_s, by_s)

    def _serve(self, until_s: float) -> None:
        heapq.heapify(self._free_s)
        while True:
            due_s = self._due_s()
            if due_s is None:
                return
            start_s = max(due_s, self._free_s[0])
            if start_s > until_s:
                return
            busy = self.others_busy + 1 + sum(one > start_s for one in self._free_s)
            service_s = self.services_s[self._next % len(self.services_s)]
            service_s *= self.machine.slowdown(busy)
            service_s *= max(0.1, self._random.gauss(1.0, self.noise))
            heapq.heapreplace(self._free_s, start_s + service_s)
            self._last_s = max(self._last_s, start_s + service_s)  # order is kept
            self._out.append((self._last_s, self._last_s - due_s))
            self._left.append(self._last_s)
            self.each.append((due_s, self._last_s - due_s))
            self._busy_s += service_s
            self._served += 1
            self._next += 1

    def _due_s(self) -> float | None:
        if not self.closed:
            return self.due_s[self._next] if self._next < len(self.due_s) else None
        while len(self._left) > self.closed * self.degree:
            self._left.popleft()
        full = len(self._left) == self.closed * self.degree
        return max(self._opened_s, self._left[0]) if full else self._opened_s

    def _deliver(self, until_s: float) -> None:
        while self._out and self._out[0][0] <= until_s:
            self.latencies.record(self._out.popleft()[1])


REGIONS = "all regions"
IDLE_S = 0.02
HICCUP = 0.02  # of the epochs
HICCUP_S = 0.15


@dataclass
class SimulatedLatencyEpochs:
    """A program with one degree for all regions; `due_s` is its load."""

    costs: EpochCosts
    due_s: Sequence[float]
    cores: int
    degree: int = 1
    noise: float = 0.1
    seed: int = 0
    others: int = 0
    now_s: float = 0.0
    epoch_items: int | None = 250_000
    latencies: Latencies = field(default_factory=Latencies)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._recent = RecentArrivals()
        self._taken = 0
        self.each: list[tuple[float, float]] = []  # arrival, and latency, of every item
        self.ends_s: list[float] = []  # of epochs
        self.timeline: list[tuple[float, float, int]] = []

    @property
    def degrees(self) -> Mapping[str, int]:
        return {REGIONS: self.degree}

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        """Change the settings of the next epoch."""
        self.degree = degrees.get(REGIONS, self.degree)
        self.epoch_items = epoch_items or self.epoch_items
        return "from the next epoch on"

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        """Let an epoch run."""
        if self._taken >= len(self.due_s):
            return None
        began_s = self.now_s
        while self._count_arrivals() == self._taken:
            self.now_s += IDLE_S
        before = sojourns([self.latencies])
        items = min(self._count_arrivals() - self._taken, self.epoch_items or 1)
        epoch = self._run(items)
        seen = sojourns([self.latencies]).since(before)
        self.timeline.append((self.now_s, seen.mean_s, self.degree))
        return Observed(
            self.now_s - began_s,
            self._recent.look(self.now_s, self._count_arrivals()),
            backlog=self._count_arrivals() - self._taken,
            sojourns=seen,
            epochs=(epoch,),
        )

    def _run(self, items: int) -> Epoch:
        vary = max(0.3, self._random.gauss(1.0, self.noise))
        work_s = self.costs.item_s * items * vary
        longest_s = work_s / self.degree + self.costs.alone_s * items * vary
        fixed_s = self.costs.fixed_s * max(0.3, self._random.gauss(1.0, self.noise))
        if self._random.random() < HICCUP:
            fixed_s += HICCUP_S
        self.now_s += fixed_s + longest_s
        for due_s in self.due_s[self._taken : self._taken + items]:
            self.latencies.record(self.now_s - due_s)
            self.each.append((due_s, self.now_s - due_s))
        self._taken += items
        self.ends_s.append(self.now_s)
        return Epoch(items, fixed_s + longest_s, self.degree, work_s, longest_s)

    def _count_arrivals(self) -> int:
        return bisect_right(self.due_s, self.now_s)
