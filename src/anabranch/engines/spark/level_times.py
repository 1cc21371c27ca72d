"""How long the levels of an epoch took, and would take with other widths.

The tasks of a level run side by side: it is over when the longest is, and not before
all cores together have done the work. Every stage costs something to begin.
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.stages import STAGE_S, Division, divided
from anabranch.engines.spark.task import Report
from anabranch.engines.spark.widths import widths


class LevelTimes:
    """The levels of profiled epochs, from what their workers have seen."""

    def __init__(self, layout: Layout, reports: Collection[Report], cores: int) -> None:
        self._layout = layout
        self._cores = cores
        self._took: dict[int, float] = {}  # unit -> its longest task
        self._work: dict[int, float] = {}  # unit -> what all its tasks did
        for report in reports:
            for seen in report.samples:
                unit = report.unit
                self._took[unit] = max(self._took.get(unit, 0.0), seen.elapsed_s)
                self._work[unit] = self._work.get(unit, 0.0) + seen.cpu_s

    @property
    def slowest(self) -> int:
        """The level that took longest."""
        times = self._times(self._took)
        return max(times, key=lambda level: times[level], default=0)

    @property
    def longest_s(self) -> float:
        """How long that level took."""
        return max(self._times(self._took).values(), default=0.0)

    @property
    def now_s(self) -> float:
        """How long all levels took."""
        return sum(self._times(self._took).values())

    def with_degree(self, degree: int) -> float:
        """Return how long all levels would take with so many channels for regions."""
        width = self._divided(degree).channels
        took = {
            unit: self._work[unit] / width[unit]
            if self._layout.units[unit].replicated
            else took_s
            for unit, took_s in self._took.items()
        }
        return sum(self._times(took).values())

    def longer_s(self, degree: int, other: int) -> float:
        """Return how much longer an epoch would take with another degree than this."""
        stages, now = (len(self._divided(d).stages) for d in (other, degree))
        return self.with_degree(other) - self.now_s + STAGE_S * (stages - now)

    def differ(self, degree: int, other: int) -> bool:
        """Return whether it makes a difference: units with little to do get one channel."""
        return self._divided(degree) != self._divided(other)

    def _divided(self, degree: int) -> Division:
        width = widths(self._layout, degree, exactly=False, work=self._work)
        return divided(self._layout, width, self._work, self._cores)

    def _times(self, took: dict[int, float]) -> dict[int, float]:
        """Return how long each level takes, from how long its units do."""
        found: dict[int, float] = {}
        work: dict[int, float] = {}
        for unit, took_s in took.items():
            level = self._layout.units[unit].level
            found[level] = max(found.get(level, 0.0), took_s)
            work[level] = work.get(level, 0.0) + self._work[unit]
        return {level: max(s, work[level] / self._cores) for level, s in found.items()}
