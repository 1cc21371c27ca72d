"""A region with a queue, item by item, on any number of cores: for the latency policies.

It is an actuator like those of engines, and takes no time: so the same policies answer
what a program would do on a larger machine, or under hours of load. Replicas serve items
in the order in which they came; a change waits until the items at work are done, as on
the local engine. The source is a load, or one that is read as fast as there is room.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.observed import Observed, RegionLoad

SLICES = 4
REGION = "r0"


@dataclass(frozen=True)
class Machine:
    """So many cores, each of which runs `threads` at a time that then share it.

    `gain` is what a core does more with two threads than with one.
    """

    cores: int
    threads: int = 1
    gain: float = 0.25

    def slowdown(self, busy: float) -> float:
        """Return how much longer work takes when so many threads are at work.

        >>> Machine(12, threads=2).slowdown(12), Machine(12, threads=2).slowdown(24)
        (1.0, 1.6)
        >>> Machine(2).slowdown(4)
        2.0
        """
        if busy <= self.cores:
            return 1.0
        shared = min(busy, self.cores * self.threads) - self.cores
        return busy / (self.cores + self.gain * shared)


@dataclass
class SimulatedQueue:
    """A program with one region; `due_s` is its load.

    An item takes `services_s`, again and again, on an idle machine. A program whose
    source is `closed` reads when there are less than `window` items for each replica.
    """

    services_s: Sequence[float]
    machine: Machine
    due_s: Sequence[float] = ()
    others: int = 2
    others_busy: float = 0.0
    closed: int = 0  # items in the window of each replica; 0 where there is a load
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
        self._out: deque[tuple[float, float]] = deque()  # leaves, and how long it took
        self._left: deque[float] = deque()  # when the last items left, for the window
        self._opened_s = 0.0  # when there was last more room
        self._last_s = 0.0
        self._busy_s = 0.0
        self._served = 0
        self.each: list[tuple[float, float]] = []  # due, and latency, of every item

    @property
    def cores(self) -> int:
        return self.machine.cores * self.machine.threads

    @property
    def degrees(self) -> Mapping[str, int]:
        return {REGION: self.degree}

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        """Change the replicas when those at work are done."""
        if self._over:
            return None
        self.degree = degrees.get(REGION, self.degree)
        still_s = self._opened_s = max(self.now_s, *self._free_s)
        self._free_s = [still_s] * self.degree
        return f"the flow stood still for {(still_s - self.now_s) * 1000:.0f} ms"

    def watch(self, seconds: float, alarm_per_s: float = math.inf) -> Observed | None:
        """Let time pass."""
        if self._over:
            return None
        arrivals, seconds = self._arrivals(seconds, alarm_per_s)
        until_s = self.now_s + seconds
        before = sojourns([self.latencies])
        busy_s, served, first = self._busy_s, self._served, self._next
        self._serve(until_s)
        self._deliver(until_s)
        self.now_s = until_s
        items, worked_s = self._served - served, self._busy_s - busy_s
        seen = sojourns([self.latencies]).since(before)
        self.timeline.append((until_s, seen.mean_s, self.degree))
        if self.closed:
            arrivals = (seen.items / seconds,)
        return Observed(
            seconds,
            arrivals,
            backlog=0 if self.closed else self._arrived(until_s) - self._next,
            sojourns=seen,
            regions={
                REGION: RegionLoad(
                    self.degree,
                    worked_s / max(1, items),
                    (self._next - first) / seconds,
                )
            },
            others_busy=self.others_busy,
            closed=bool(self.closed),
            alarmed=max(arrivals[:-1], default=0.0) > alarm_per_s,
        )

    @property
    def _over(self) -> bool:
        if self.now_s >= self.seconds:
            return True
        return not self.closed and self._next >= len(self.due_s) and not self._out

    def _arrivals(
        self, seconds: float, alarm_per_s: float
    ) -> tuple[tuple[float, ...], float]:
        """Return what arrives in parts of a step, and how long it is until an alarm."""
        part_s = seconds / SLICES
        found: list[float] = []
        while len(found) < SLICES and max(found[-2:-1], default=0.0) <= alarm_per_s:
            at_s = self.now_s + part_s * len(found)
            found.append((self._arrived(at_s + part_s) - self._arrived(at_s)) / part_s)
        return tuple(found), part_s * len(found)

    def _arrived(self, by_s: float) -> int:
        low, high = 0, len(self.due_s)
        while low < high:
            middle = (low + high) // 2
            if self.due_s[middle] <= by_s:
                low = middle + 1
            else:
                high = middle
        return low

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
