"""What the controller sees of a program on Spark, and changes from epoch to epoch.

The levels of a program run one after the other, so threads compete for cores only with
those of their level. What is shown to the controller is the level that takes longest,
with its share of the epoch. All regions have the same number of channels, as many as
there are cores from the start; cuts are for what cannot be replicated.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from anabranch.engines.spark.cuts import behind_cut, why_not_cut
from anabranch.engines.spark.epoch_log import EpochLog, Seen
from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.level_times import LevelTimes
from anabranch.engines.spark.task import Report
from anabranch.graph.reaching import ancestors
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.metrics.rates import Rates
from anabranch.metrics.samples import profile_of
from anabranch.plan.arrangement import Arrangement

EPOCHS = 3  # measured for one answer
PROFILED = 1
WARM_UP = 8  # epochs at most until the first measurement begins
STEADY = 0.05  # how much faster an epoch may be than the one before it
FULL = 0.75  # an epoch with less of the usual number of items is not compared
FADING = 0.8  # so much of it remains usual if they become fewer
REGIONS = "all regions"  # they have one degree


class Adjustable(Protocol):
    """A run whose epochs can be changed."""

    @property
    def elapsed_s(self) -> float:
        """How long it has run."""

    @property
    def ended(self) -> threading.Event:
        """Set when it has ended, well or not."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    @property
    def degree(self) -> int:
        """How many channels regions have in the epochs that begin now."""

    def set_degree(self, degree: int) -> None:
        """Change the number of channels, from the next epoch on."""

    def set_cuts(self, operators: Collection[str]) -> None:
        """Cut elements before these operators, from the next epoch on."""


class SparkActuator:
    """Watches and changes one program; used by one thread, its controller."""

    def __init__(self, run: Adjustable, layout: Layout, log: EpochLog) -> None:
        self._run = run
        self._layout = layout
        self._log = log
        self._ports: frozenset[str] = frozenset()
        self._looked_at = 0  # the last epoch that was, or that is none of ours
        self._warm = False
        self._usual = 0.0  # items of an epoch

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @property
    def cores(self) -> int:
        return self._run.cores

    @property
    def places(self) -> frozenset[str]:
        """What can be cut in elements that are whole: none is cut twice."""
        unit_of = self._layout.unit_of
        cut = {unit_of[name].number for name in self._ports}
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

    @cached_property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        """All operators that are replicated, as one region: they have one degree.

        The first is the one to measure at: all that most sources give comes by it.
        """
        inside = [
            name
            for unit in self._layout.units
            if unit.replicated
            for name in unit.operators
        ]
        inside.sort(key=lambda name: -len(self._leading[name]))
        return {REGIONS: tuple(inside)} if inside else {}

    @cached_property
    def _leading(self) -> Mapping[str, frozenset[str]]:
        """The sources that lead to each operator; a source leads to itself."""
        graph = self._layout.graph
        sources = frozenset(op.name for op in graph.sources)
        return {
            op.name: sources & {op.name, *ancestors(graph, op.name)} for op in graph
        }

    @property
    def arrangement(self) -> Arrangement:
        cut = Arrangement(self._ports)
        return cut.with_degree(REGIONS, self._run.degree) if self.regions else cut

    def arrange(self, arrangement: Arrangement) -> str | None:
        if self._run.ended.is_set():
            return None
        self._run.set_cuts(arrangement.ports)
        if self.regions and arrangement.degree(REGIONS) != self._run.degree:
            self._run.set_degree(arrangement.degree(REGIONS))
        self._ports = arrangement.ports
        self._looked_at = self._log.started
        return "from the next epoch on"

    def profile(self) -> Profile | None:
        self._log.profiling = True
        seen = self._log.next(PROFILED, self._run.ended)
        self._log.profiling = False
        self._looked_at = self._log.started
        if seen is None:
            return None
        took_s = sum(one.seconds for one in seen)
        return self.profile_from([r for one in seen for r in one.reports], took_s)

    def profile_from(self, reports: Collection[Report], took_s: float) -> Profile:
        """Return the profile of the level that took longest, of epochs that took so long."""
        levels = LevelTimes(self._layout, reports, self.cores)
        slowest = levels.slowest
        profile = profile_of(
            samples
            for report in reports
            if self._layout.units[report.unit].level == slowest
            for samples in report.samples
        )

        degree = self._run.degree

        def relative(other: int) -> dict[str, float]:
            longer = 1.0
            if took_s > 0 and levels.differ(other, degree):
                longer += levels.longer_s(degree, other) / took_s
            return dict.fromkeys(self.regions, longer)

        fewer = degree > 1 and levels.differ(degree - 1, degree)
        return replace(
            profile,
            threads=tuple(map(self._with_cuts, profile.threads)),
            locked=0.0,  # every worker has a lock of its own
            share=min(1.0, levels.longest_s / took_s) if took_s > 0 else 1.0,
            with_more=relative(degree + 1),
            with_fewer=relative(degree - 1) if fewer else {},
        )

    def _with_cuts(self, load: ThreadLoad) -> ThreadLoad:
        """Return a load with what each cut would move: all that is behind it."""
        unit = self._layout.unit_of[load.thread]
        moved = {
            name: sum(
                load.own.get(one, 0.0) for one in behind_cut(self._layout, unit, name)
            )
            for name in unit.operators
            if name in self._possible
        }
        ports = {name: use for name, use in moved.items() if use > 0}
        return replace(load, ports=ports, held_up=0.0)  # no lock in common

    def rates(self) -> Rates | None:
        seen = [] if self._warm else [self._first_warm()]
        self._warm = True
        while len(seen) < EPOCHS and None not in seen:
            seen.append(self._next_full())
        return self._rates_of([one for one in seen if one]) if all(seen) else None

    def _first_warm(self) -> Seen | None:
        """Return the first epoch that is not faster than the one before it.

        What Java compiles in the first epochs would look like the gain of a change.
        """
        one = self._next_full()
        for _ in range(WARM_UP):
            before, one = one, self._next_full()
            if (
                before is None
                or one is None
                or one.speed <= before.speed * (1 + STEADY)
            ):
                break
        return one

    def _next_full(self) -> Seen | None:
        """Return the next epoch that has enough items to be compared with others.

        The costs that each epoch has once weigh more in a small one, which also means
        that the program keeps up with its sources: nothing has to become faster.
        """
        while True:
            seen = self._log.next(1, self._run.ended, self._looked_at)
            if seen is None:
                return None
            self._looked_at = seen[0].started
            items = seen[0].items
            self._usual = max(items, FADING * self._usual)
            if items >= FULL * self._usual:
                return seen[0]

    def _rates_of(self, seen: Sequence[Seen]) -> Rates:
        read = [one.read() for one in seen]
        return Rates(
            {
                name: tuple(
                    sum(counts.get(source, 0) for source in leading) / one.seconds
                    for counts, one in zip(read, seen, strict=True)
                )
                for name, leading in self._leading.items()
            }
        )
