"""A program that works in epochs, in no time: for the policy that plans them.

An epoch takes what waits, as far as it admits it, and all of it comes out at its end. It
takes what its costs say, give or take some noise; now and then one takes far longer, as
where a virtual machine collects its garbage.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.control.latency_epoch_costs import Costs
from anabranch.metrics.arriving import RecentArrivals
from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.observed import Epoch, Observed

REGIONS = "all regions"
IDLE_S = 0.02
HICCUP = 0.02  # of the epochs
HICCUP_S = 0.15


@dataclass
class SimulatedEpochs:
    """A program with one degree for all regions; `due_s` is its load."""

    costs: Costs
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
        self.each: list[tuple[float, float]] = []  # due, and latency, of every item
        self.ends_s: list[float] = []  # of epochs
        self.timeline: list[tuple[float, float, int]] = []

    @property
    def degrees(self) -> Mapping[str, int]:
        return {REGIONS: self.degree}

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        """Change what the next epoch is like."""
        self.degree = degrees.get(REGIONS, self.degree)
        self.epoch_items = epoch_items or self.epoch_items
        return "from the next epoch on"

    def watch(self, seconds: float, alarm_per_s: float = math.inf) -> Observed | None:
        """Let an epoch run."""
        if self._taken >= len(self.due_s):
            return None
        began_s = self.now_s
        while self._arrived() == self._taken:
            self.now_s += IDLE_S
        before = sojourns([self.latencies])
        items = min(self._arrived() - self._taken, self.epoch_items or 1)
        epoch = self._run(items)
        seen = sojourns([self.latencies]).since(before)
        self.timeline.append((self.now_s, seen.mean_s, self.degree))
        return Observed(
            self.now_s - began_s,
            self._recent.look(self.now_s, self._arrived()),
            backlog=self._arrived() - self._taken,
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

    def _arrived(self) -> int:
        return bisect_right(self.due_s, self.now_s)
