"""A simulated pipeline for the latency policies: stages in a row, some with replicas.

The source deals items to the replicas of a stage in turn, or by key. A few wait in
front of each replica; if there are too many, the splitter blocks, and with it
everything behind: that is how one hot key holds up the others. The output of a stage is
in order again.

Replicas are resumed and suspended while items flow. One that gets keys of another waits
until that one has done the items it has, as on the local engine.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import LOOKS, Observed, StepArrivals
from anabranch.metrics.pipeline import InputLoad, Pipeline, RegionShape, ServiceTime
from bench.latency.simulated_queue import Machine

ROOM = 4  # items that may wait in front of a replica
MOST_DEGREE = 64  # for which the division of keys is told


@dataclass(frozen=True)
class SimulatedStage:
    """One stage: an item takes `service_s`, of which a share `on_core` needs a core.

    One that is not `replicated` runs once. `keys` are those of the items, cyclically;
    empty: it has none.
    """

    name: str
    service_s: float
    replicated: bool = True
    keys: tuple[int, ...] = ()
    on_core: float = 1.0


@dataclass
class _Line:
    """A running stage: when each replica is free, and its completed items."""

    stage: SimulatedStage
    degree: int
    free_s: list[float] = field(default_factory=list)
    begun_s: list[deque[float]] = field(
        default_factory=list
    )  # the last of each replica
    arrived: deque[tuple[float, float, int]] = field(default_factory=deque)
    turn: int = 0
    dealt_s: float = 0.0
    last_s: float = 0.0
    busy_s: list[float] = field(default_factory=list)
    served: int = 0
    counted: bool = False  # keys, since it has had several replicas

    @property
    def shape(self) -> RegionShape:
        """The region as the local engine describes it."""
        keys, shares = self.stage.keys, {}
        if self.counted:
            shares = {
                degree: max(Counter(key % degree for key in keys).values()) / len(keys)
                for degree in range(1, MOST_DEGREE + 1)
            }
        return RegionShape((self.stage.name,), self.degree, bool(keys), shares=shares)

    def widen(self, degree: int, at_s: float) -> None:
        """Set the number of active replicas from a time on."""
        if self.stage.keys:
            self.counted = self.counted or degree > 1
            at_s = max([at_s, *self.free_s])
            for replica in range(self.degree, degree):  # resumed: they get keys
                if replica < len(self.free_s):
                    self.free_s[replica] = at_s
            lost_s = max(self.free_s[degree:], default=0.0)
            for replica in range(min(degree, len(self.free_s))):
                self.free_s[replica] = max(self.free_s[replica], lost_s)
        more = degree - len(self.free_s)
        self.free_s += [at_s] * more
        self.begun_s += [deque(maxlen=ROOM) for _ in range(more)]
        self.busy_s += [0.0] * more
        self.degree, self.turn = degree, 0


@dataclass
class SimulatedPipeline:
    """A program of stages under a load; `due_s` are the arrival times."""

    stages: Sequence[SimulatedStage]
    machine: Machine
    due_s: Sequence[float]
    degree: int = 1
    others: int = 2
    now_s: float = 0.0
    epoch_items: int | None = None
    latencies: Latencies = field(default_factory=Latencies)

    def __post_init__(self) -> None:
        self._lines = [_Line(stage, 0) for stage in self.stages]
        for line in self._lines:
            line.widen(self.degree if line.stage.replicated else 1, 0.0)
        self._read = 0
        self._waiting: deque[tuple[float, float]] = (
            deque()
        )  # departure, and service time
        self.each: list[tuple[float, float]] = []  # arrival, and latency, of every item
        self.widths: list[tuple[float, int]] = [(0.0, self._width)]

    @property
    def cores(self) -> int:
        return self.machine.cores * self.machine.threads

    @property
    def degrees(self) -> Mapping[str, int]:
        lines = (line for line in self._lines if line.stage.replicated)
        return {line.stage.name: line.degree for line in lines}

    @property
    def _width(self) -> int:
        return sum(self.degrees.values())

    def mean_replicas(self) -> float:
        """Return the time average of the number of replicas."""
        ends = [*self.widths, (max(self.now_s, self.widths[-1][0]), 0)]
        spans = [(b[0] - a[0]) * a[1] for a, b in pairwise(ends)]
        return sum(spans) / max(ends[-1][0], 1e-9)

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        """Resume and suspend replicas, or move keys."""
        if self._over:
            return None
        for line in self._lines:
            degree = degrees.get(line.stage.name, line.degree)
            if degree != line.degree:
                line.widen(degree, self.now_s)
        self.widths.append((self.now_s, self._width))
        return "simulated"

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        """Let time pass."""
        if self._over:
            return None
        before, read, began_s = sojourns([self.latencies]), self._read, self.now_s
        marks = [(list(line.busy_s), line.served) for line in self._lines]
        step = StepArrivals(most_waiting)
        while step.look(self.now_s, self._count_arrivals(), self._count_waiting()):
            self.now_s += seconds / LOOKS
            self._pass()
        seconds = self.now_s - began_s
        per_s = max(1, self._read - read) / seconds
        return Observed(
            seconds,
            step.rates(),
            backlog=self._count_waiting(),
            sojourns=sojourns([self.latencies]).since(before),
            pipeline=Pipeline(
                tuple(
                    self._describe(line, *mark, seconds)
                    for line, mark in zip(self._lines, marks, strict=True)
                ),
                {
                    line.stage.name: line.shape
                    for line in self._lines
                    if line.stage.replicated
                },
                source_per_s=per_s,
            ),
            alarmed=step.alarmed,
        )

    def _describe(
        self, line: _Line, each: Sequence[float], served: int, seconds: float
    ) -> InputLoad:
        """Return the load of a stage since an earlier reading."""
        known = [*each, *[0.0] * (len(line.busy_s) - len(each))]
        own = [now - then for now, then in zip(line.busy_s, known, strict=False)]
        # Keys have moved: earlier work belongs to none of them.
        worked_s = sum(line.busy_s) - sum(each)
        items, on_core = line.served - served, line.stage.on_core
        each_s = worked_s / max(1, items)
        return InputLoad(
            line.stage.name,
            (line.stage.name,),
            ServiceTime(cpu_s=each_s * on_core, blocked_s=each_s * (1 - on_core)),
            items / seconds,
            items / seconds,
            line.degree,
            max(own) / worked_s if worked_s > 0 else 1 / line.degree,
        )

    @property
    def _over(self) -> bool:
        return (
            self._read >= len(self.due_s)
            and not self._waiting
            and not any(line.arrived for line in self._lines)
        )

    def _count_arrivals(self) -> int:
        return bisect_right(self.due_s, self.now_s)

    def _count_waiting(self) -> int:
        now_s = self.now_s
        before = sum(
            sum(came_s <= now_s for came_s, *_ in line.arrived)
            for line in self._lines[1:]
        )
        dealt = sum(
            start_s > now_s
            for line in self._lines
            for begun_s in line.begun_s
            for start_s in begun_s
        )
        return self._count_arrivals() - self._read + before + dealt

    def _pass(self) -> None:
        """Serve what can begin by now, stage by stage."""
        until_s = self.now_s
        first, *rest = self._lines
        while self._read < len(self.due_s) and self.due_s[self._read] <= until_s:
            due_s = self.due_s[self._read]
            left_s = self._serve(first, due_s, self._read, until_s)
            if left_s is None:
                break
            self._hand(0, left_s, due_s, self._read)
            self._read += 1
        for place, line in enumerate(rest, 1):
            while line.arrived and line.arrived[0][0] <= until_s:
                came_s, due_s, number = line.arrived[0]
                left_s = self._serve(line, came_s, number, until_s)
                if left_s is None:
                    break
                line.arrived.popleft()
                self._hand(place, left_s, due_s, number)
        while self._waiting and self._waiting[0][0] <= until_s:
            self.latencies.record(self._waiting.popleft()[1])

    def _hand(self, place: int, left_s: float, due_s: float, number: int) -> None:
        if place + 1 < len(self._lines):
            self._lines[place + 1].arrived.append((left_s, due_s, number))
        else:
            self._waiting.append((left_s, left_s - due_s))
            self.each.append((due_s, left_s - due_s))

    def _serve(
        self, line: _Line, came_s: float, number: int, until_s: float
    ) -> float | None:
        """Return the time at which an item leaves a stage; None: not dealt yet."""
        keys = line.stage.keys
        channel = keys[number % len(keys)] % line.degree if keys else line.turn
        begun_s = line.begun_s[channel]
        full_s = begun_s[0] if len(begun_s) == ROOM else 0.0
        dealt_s = max(came_s, line.dealt_s, full_s)
        if dealt_s > until_s:
            return None
        line.dealt_s = dealt_s
        line.turn = (line.turn + 1) % line.degree
        start_s = max(dealt_s, line.free_s[channel])
        service_s = line.stage.service_s * self._slowdown(line, start_s)
        begun_s.append(start_s)
        line.free_s[channel] = start_s + service_s
        line.busy_s[channel] += service_s
        line.served += 1
        line.last_s = max(line.last_s, start_s + service_s)
        return line.last_s

    def _slowdown(self, line: _Line, at_s: float) -> float:
        """Return the slowdown of work that needs a core."""
        share = line.stage.on_core
        busy = share + sum(
            one.stage.on_core * sum(free_s > at_s for free_s in one.free_s)
            for one in self._lines
        )
        return 1 - share + share * self.machine.slowdown(busy)
