"""What the controller sees of a program on Spark, and changes: cuts, from epoch to epoch.

The levels of a program run one after the other, so threads compete for cores only with
those of their level. What is shown to the controller is the level that takes longest.
A region has as many channels as there are cores from the start; cuts are for what
cannot be replicated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from anabranch.engines.spark.cuts import why_not_cut
from anabranch.engines.spark.epoch_log import EpochLog
from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.task import Report
from anabranch.engines.thread import RunningThread
from anabranch.graph.reaching import ancestors
from anabranch.metrics.load import Profile
from anabranch.metrics.rates import Rates
from anabranch.metrics.samples import profile_of
from anabranch.plan.arrangement import Arrangement

EPOCHS = 3  # measured for one answer
PROFILED = 1


class SparkActuator:
    """Watches one program and cuts its elements; used by one thread, its controller."""

    regions: Mapping[str, tuple[str, ...]] = {}

    def __init__(
        self,
        run: RunningThread,
        layout: Layout,
        log: EpochLog,
        cut: Callable[[Collection[str]], None],
    ) -> None:
        self._run = run
        self._layout = layout
        self._log = log
        self._cut = cut
        self.arrangement = Arrangement()
        self.cores = os.cpu_count() or 1

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @property
    def places(self) -> frozenset[str]:
        """What can be cut in elements that are whole: none is cut twice."""
        unit_of = self._layout.unit_of
        cut = {unit_of[name].number for name in self.arrangement.ports}
        return frozenset(
            name for name in self._possible if unit_of[name].number not in cut
        )

    @cached_property
    def _possible(self) -> frozenset[str]:
        return frozenset(
            op.name
            for op in self._layout.graph
            if why_not_cut(self._layout, op.name) is None
        )

    def arrange(self, arrangement: Arrangement) -> str | None:
        if self._run.ended_within(0):
            return None
        self._cut(arrangement.ports)
        self.arrangement = arrangement
        return "from the next epoch on"

    def profile(self) -> Profile | None:
        self._log.profiling = True
        seen = self._log.next(PROFILED, self._run.ended)
        self._log.profiling = False
        if seen is None:
            return None
        return self.profile_from([report for one in seen for report in one.reports])

    def profile_from(self, reports: Collection[Report]) -> Profile:
        """Return the profile of the level that took longest."""
        took: dict[int, float] = {}
        for report in reports:
            level = self._layout.units[report.unit].level
            longest = max((s.elapsed_s for s in report.samples), default=0.0)
            took[level] = max(took.get(level, 0.0), longest)
        slowest = max(took, key=lambda level: took[level], default=0)
        return profile_of(
            samples
            for report in reports
            if self._layout.units[report.unit].level == slowest
            for samples in report.samples
        )

    def rates(self) -> Rates | None:
        seen = self._log.next(EPOCHS, self._run.ended)
        if seen is None:
            return None
        graph = self._layout.graph
        sources = {op.name for op in graph.sources}
        read = [one.read() for one in seen]
        return Rates(
            {
                op.name: tuple(
                    sum(counts.get(name, 0) for name in leading) / one.seconds
                    for counts, one in zip(read, seen, strict=True)
                )
                for op in graph
                for leading in (sources & {op.name, *ancestors(graph, op.name)},)
            }
        )
