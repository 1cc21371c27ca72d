"""What keeps a program on Spark within a latency bound sees of it, epoch by epoch."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Mapping
from time import perf_counter, sleep
from typing import Protocol

from anabranch.engines.spark.arrivals import Arrivals
from anabranch.engines.spark.layout import Layout
from anabranch.metrics.latency import sojourns
from anabranch.metrics.observed import Observed, RegionLoad

LOOK_S = 0.02
RECENT_S = 2.0  # over which the load is measured
REGIONS = "all regions"  # they have one degree


class Resizable(Protocol):
    """A run whose epochs can be changed."""

    epoch_items: int

    @property
    def elapsed_s(self) -> float:
        """How long it has run."""

    @property
    def ended(self) -> threading.Event:
        """Set when it has ended, well or not."""

    def set_degree(self, degree: int) -> None:
        """Change the number of replicas, from the next epoch on."""


class SparkLatencyActuator:
    """Watches one program and changes its epochs; used by one thread."""

    def __init__(self, run: Resizable, layout: Layout, arrivals: Arrivals) -> None:
        self._run = run
        self._layout = layout
        self._arrivals = arrivals
        self._seen = 0  # epochs
        self._last = sojourns([arrivals.latencies])
        self._recent: deque[tuple[float, int]] = deque()  # when, how many had arrived
        self._degree: int | None = None  # as was asked for
        self._cores: int | None = None

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @property
    def cores(self) -> int:
        """How many tasks run at a time: as many as the first epoch had."""
        return self._cores or os.cpu_count() or 1

    @property
    def others(self) -> int:
        return sum(not unit.replicated for unit in self._layout.units)

    @property
    def degrees(self) -> Mapping[str, int]:
        if not any(unit.replicated for unit in self._layout.units):
            return {}
        return {REGIONS: self._degree or self._arrivals.degree or self.cores}

    @property
    def epoch_items(self) -> int:
        return self._run.epoch_items

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        if self._run.ended.is_set():
            return None
        if REGIONS in degrees:
            self._degree = degrees[REGIONS]
            self._run.set_degree(self._degree)
        if epoch_items is not None:
            self._run.epoch_items = epoch_items
        return "from the next epoch on"

    def watch(self, seconds: float, alarm_per_s: float = math.inf) -> Observed | None:
        """Watch until an epoch has ended, or for so long; there is no earlier change."""
        arrivals, started_s = self._arrivals, perf_counter()
        while True:
            if self._run.ended.wait(0):
                return None
            ran = len(arrivals.epochs) > self._seen
            if ran or (perf_counter() - started_s >= seconds and self._seen):
                break
            sleep(LOOK_S)
        epochs = tuple(arrivals.epochs[self._seen :])
        self._seen += len(epochs)
        if self._cores is None and epochs:
            self._cores = epochs[0].degree
        now = sojourns([arrivals.latencies])
        came_out, self._last = now.since(self._last), now
        rates = self._rates()
        return Observed(
            perf_counter() - started_s,
            rates,
            backlog=max(0, arrivals.arrived() - arrivals.taken_items),
            sojourns=came_out,
            regions={
                name: RegionLoad(degree, 0.0, rates[-1])
                for name, degree in self.degrees.items()
            },
            closed=not arrivals.live,
            epochs=epochs,
        )

    def _rates(self) -> tuple[float, ...]:
        """Return how many items a second arrived of late, and since the last look."""
        now_s, arrived = perf_counter(), self._arrivals.arrived()
        self._recent.append((now_s, arrived))
        while len(self._recent) > 2 and now_s - self._recent[1][0] >= RECENT_S:  # noqa: PLR2004
            self._recent.popleft()
        halves = []
        middle = self._recent[len(self._recent) // 2]
        for (from_s, before), (to_s, after) in (
            (self._recent[0], middle),
            (middle, (now_s, arrived)),
        ):
            if to_s > from_s:
                halves.append((after - before) / (to_s - from_s))
        return tuple(halves) or (0.0,)
