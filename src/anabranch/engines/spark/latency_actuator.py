"""What keeps a program on Spark within a latency bound sees of it, epoch by epoch."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from time import perf_counter, sleep
from typing import Protocol

from anabranch.engines.spark.arrivals import Arrivals
from anabranch.engines.spark.layout import Layout
from anabranch.metrics.arriving import RecentArrivals
from anabranch.metrics.latency import sojourns
from anabranch.metrics.observed import Observed, RegionLoad

LOOK_S = 0.02
REGIONS = "all regions"  # they have one degree


class Resizable(Protocol):
    """A run whose epochs can be changed."""

    epoch_items: int

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    @property
    def elapsed_s(self) -> float:
        """How long it has run."""

    @property
    def ended(self) -> threading.Event:
        """Set when it has ended, well or not."""

    def set_degree(self, degree: int) -> None:
        """Change the number of replicas, from the next epoch on."""


class SparkLatencyActuator:
    """Watches one program and changes its epochs; used by one thread.

    A program begins with one replica.
    """

    def __init__(self, run: Resizable, layout: Layout, arrivals: Arrivals) -> None:
        self._run = run
        self._layout = layout
        self._arrivals = arrivals
        self._seen = 0  # epochs
        self._last = sojourns([arrivals.latencies])
        self._recent = RecentArrivals()
        self._degree = 1  # as was asked for
        run.set_degree(1)

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""
        return self._run.cores

    @property
    def others(self) -> int:
        return sum(not unit.replicated for unit in self._layout.units)

    @property
    def degrees(self) -> Mapping[str, int]:
        if not any(unit.replicated for unit in self._layout.units):
            return {}
        return {REGIONS: self._degree}

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
        now = sojourns([arrivals.latencies])
        came_out, self._last = now.since(self._last), now
        rates = self._recent.look(perf_counter(), arrivals.arrived())
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
