"""The controllers' view of a program that runs in epochs, and its controls.

The levels of a program run one after the other, so threads compete for cores only
within their level. The controller sees the longest level, with its share of the epoch.
All regions have the same number of replicas, initially the number of cores; cuts are
for operators that cannot be replicated.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import (
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import cached_property
from time import perf_counter, sleep
from typing import Protocol

from anabranch.epochs.division import StageCosts
from anabranch.epochs.layout import EpochLayout, behind_cut, parts_of, why_not_cut
from anabranch.epochs.log import Arrivals, EpochLog, LevelTimes, Seen
from anabranch.epochs.task import Report
from anabranch.graph.graph import Edge, ancestors
from anabranch.metrics.latency import sojourns
from anabranch.metrics.load import (
    Epoch,
    Observed,
    Rates,
    RecentArrivals,
    UnitWork,
    pipeline_of,
)
from anabranch.metrics.pipeline import InputLoad, Pipeline, RegionShape, ServiceTime
from anabranch.plan.plan import Arrangement
from anabranch.runtime.profile import fill_rates, in_edges

EPOCHS = 3  # measured for one answer
PROFILED = 1
WARM_UP = 8  # epochs at most before the first measurement
STEADY = 0.05  # allowed speed-up of an epoch over the one before it
FULL = 0.75  # an epoch with a smaller share of the usual items is not compared
FADING = 0.8  # decay of the usual number when epochs become smaller
REGIONS = "all regions"  # they have one degree


class Adjustable(Protocol):
    """A run whose epochs can be changed."""

    epoch_items: int

    @property
    def elapsed_s(self) -> float:
        """How long it has run."""

    @property
    def ended(self) -> threading.Event:
        """Set when it has ended, well or not."""

    @property
    def cores(self) -> int:
        """The number of task slots."""

    @property
    def degree(self) -> int:
        """The degree of regions in the next epochs."""

    @property
    def costs(self) -> StageCosts:
        """The measured cost of stages."""

    def set_degree(self, degree: int) -> None:
        """Change the degree, from the next epoch on."""

    def set_cuts(self, operators: Collection[str]) -> None:
        """Cut elements before these operators, from the next epoch on."""


class EpochActuator:
    """Observes and changes one program; used by one thread, its controller."""

    def __init__(self, run: Adjustable, layout: EpochLayout, log: EpochLog) -> None:
        self._run = run
        self.layout = layout
        self._log = log
        self._ports: frozenset[str] = frozenset()
        self._looked_at = 0  # the last epoch used, or one before this controller
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
        """The operators before which a cut is possible and absent."""
        return self._possible - self._ports

    @cached_property
    def _possible(self) -> frozenset[str]:
        return frozenset(
            op.name
            for op in self.layout.graph
            if why_not_cut(self.layout, op.name) is None
        )

    @cached_property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        """All replicated operators, as one region: they have one degree.

        The first is the one to measure at: most source items pass it.
        """
        inside = [
            name
            for unit in self.layout.units
            if unit.replicated
            for name in unit.operators
        ]
        inside.sort(key=lambda name: -len(self._leading[name]))
        return {REGIONS: tuple(inside)} if inside else {}

    @cached_property
    def _leading(self) -> Mapping[str, frozenset[str]]:
        """The sources that lead to each operator; a source leads to itself."""
        graph = self.layout.graph
        sources = frozenset(op.name for op in graph.sources)
        return {
            op.name: sources & {op.name, *ancestors(graph, op.name)} for op in graph
        }

    @property
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        """Nothing: cuts depend on measured epochs alone."""
        return {}

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

    def glance(self) -> tuple[Rates, Pipeline] | None:
        return None

    def profile(self) -> Pipeline | None:
        self._log.profiling = True
        seen = self._log.next(PROFILED, self._run.ended)
        self._log.profiling = False
        self._looked_at = self._log.started
        if seen is None:
            return None
        took_s = sum(one.seconds for one in seen)
        return self.profile_from([r for one in seen for r in one.reports], took_s)

    def profile_from(self, reports: Collection[Report], took_s: float) -> Pipeline:
        """Return the model of the longest level, of epochs that took `took_s`."""
        levels = LevelTimes(self.layout, reports, self.cores, self._run.costs)
        slowest = levels.slowest
        samples = [
            samples
            for report in reports
            if self.layout.units[report.unit].level == slowest
            for samples in report.samples
        ]
        counts = count_streams(self.layout, reports)
        read = sum(sum(report.read.values()) for report in reports)
        pipeline = pipeline_of(
            samples,
            list(list_inputs(self.layout, counts, took_s)),
            source_per_s=read / took_s if took_s > 0 else 0.0,
        )

        degree = self._run.degree

        def relative(other: int) -> dict[str, float]:
            longer = 1.0
            if took_s > 0 and levels.differ(other, degree):
                longer += levels.longer_s(degree, other) / took_s
            return dict.fromkeys(self.regions, longer)

        fewer = degree > 1 and levels.differ(degree - 1, degree)
        in_columns = {
            report.unit
            for report in reports
            if any(columns for columns, _ in report.ran.values())
        }
        return replace(
            pipeline,
            inputs=tuple(self._with_cuts(one, in_columns) for one in pipeline.inputs),
            shapes={
                name: RegionShape(ops, degree) for name, ops in self.regions.items()
            },
            locked=0.0,  # every worker has a lock of its own
            share=min(1.0, levels.longest_s / took_s) if took_s > 0 else 1.0,
            with_more=relative(degree + 1),
            with_fewer=relative(degree - 1) if fewer else {},
        )

    def _with_cuts(self, one: InputLoad, in_columns: Container[int]) -> InputLoad:
        """Return an input whose route has the cuts that would move it to another
        worker.

        There are none in a unit that runs in columns, since its parts would run in
        Python. Workers share no lock.
        """
        service = replace(one.service, lock_s=0.0)
        unit = self.layout.unit_of[one.thread]
        if unit.number in in_columns:
            return replace(one, route=one.route[:1], service=service)
        parts = parts_of(self.layout, unit, self._ports)
        (inside,) = (p.operators for p in parts if one.thread in p.operators)
        cuts = [
            name
            for name in inside
            if name in self.places
            and one.operator in behind_cut(self.layout, unit, name)
        ]
        return replace(one, route=(one.thread, *cuts), service=service)

    def rates(self) -> Rates | None:
        seen = [] if self._warm else [self._first_warm()]
        self._warm = True
        while len(seen) < EPOCHS and None not in seen:
            seen.append(self._next_full())
        return self._rates_of([one for one in seen if one]) if all(seen) else None

    def _first_warm(self) -> Seen | None:
        """Return the first epoch that is not faster than the one before it.

        The engine's warm-up in the first epochs would look like the gain of a change.
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

        The fixed costs of an epoch weigh more in a small one, which also means that the
        program keeps up with its sources: nothing has to become faster.
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


def count_streams(layout: EpochLayout, reports: Iterable[Report]) -> dict[Edge, float]:
    """Return the items of every stream in profiled epochs.

    Between units, and in Python, they are counted. In columns, an operator that is no
    map is assumed to give one output per item, unless all it gives leaves its unit.
    """
    passed: Counter[Edge] = Counter()
    taken: Counter[Edge] = Counter()
    came: Counter[int] = Counter()
    for report in reports:
        unit = layout.units[report.unit]
        passed.update(report.passed)
        for entry, count in zip(unit.entries, report.taken, strict=False):
            came[unit.number] += count
            if isinstance(entry, Edge):
                taken[entry] += count
        for one in report.written:
            for edge in in_edges(layout.graph, one.sink):
                taken[edge] += one.items
    counts: dict[Edge, float] = {**passed, **taken}
    for unit in layout.units:
        fill_rates(layout.graph, unit.operators, counts, came[unit.number])
    return counts


def list_inputs(
    layout: EpochLayout, counts: Mapping[Edge, float], took_s: float
) -> Iterator[InputLoad]:
    """Yield the inputs of all operators with their rates, without costs."""
    took_s = max(took_s, 1e-9)
    for op in layout.graph:
        out_edges = layout.graph.out_edges(op.name)
        out_per_s = max((counts.get(e, 0.0) for e in out_edges), default=0.0) / took_s
        into = [
            (edge.consumer.port, counts.get(edge, 0.0) / took_s, edge.producer.operator)
            for edge in in_edges(layout.graph, op.name)
        ] or [(0, out_per_s, "")]
        for port, in_per_s, producer in into:
            yield InputLoad(
                op.name,
                (op.name,),
                ServiceTime(),
                in_per_s,
                out_per_s / len(into),
                port=port,
                producer=producer,
            )


LOOK_S = 0.02


class EpochLatencyActuator:
    """Observes one program and changes its epochs; used by one thread.

    A program begins with one replica.
    """

    def __init__(
        self, run: Adjustable, layout: EpochLayout, arrivals: Arrivals
    ) -> None:
        self._run = run
        self.layout = layout
        self._arrivals = arrivals
        self._seen = 0  # epochs
        self._last = sojourns([arrivals.latencies])
        self._recent = RecentArrivals()
        self._degree = 1  # as requested
        run.set_degree(1)

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @property
    def cores(self) -> int:
        """The number of task slots."""
        return self._run.cores

    @property
    def others(self) -> int:
        return sum(not unit.replicated for unit in self.layout.units)

    @property
    def degrees(self) -> Mapping[str, int]:
        if not any(unit.replicated for unit in self.layout.units):
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

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        """Observe until an epoch has ended, or for `seconds`; no change comes earlier."""
        arrivals, started_s = self._arrivals, perf_counter()
        while True:
            if self._run.ended.wait(0):
                return None
            ran = arrivals.ran > self._seen
            if ran or (perf_counter() - started_s >= seconds and self._seen):
                break
            sleep(LOOK_S)
        seen = arrivals.ran
        epochs = arrivals.epochs_since(self._seen)[: seen - self._seen]
        self._seen = seen
        now = sojourns([arrivals.latencies])
        came_out, self._last = now.since(self._last), now
        rates = self._recent.look(perf_counter(), arrivals.count_arrivals())
        return Observed(
            perf_counter() - started_s,
            rates,
            backlog=arrivals.count_backlog(),
            sojourns=came_out,
            pipeline=self._describe(epochs, rates[-1]),
            closed=not arrivals.live,
            epochs=epochs,
        )

    def _describe(self, epochs: Sequence[Epoch], per_s: float) -> Pipeline:
        """Return the model of the program from measured epochs, unit by unit.

        All regions count as one. Items arrive at `per_s`; each unit gets its own share
        of them.
        """
        items = sum(one.items for one in epochs)
        works: dict[tuple[str, ...], list[UnitWork]] = {}
        for work in (work for one in epochs for work in one.units):
            works.setdefault(work.operators, []).append(work)
        regions = tuple(
            operators[0] for operators, own in works.items() if own[-1].replicated
        )
        inputs = (
            _load_unit(own, per_s / max(1, items), self._degree)
            for own in works.values()
        )
        return Pipeline(
            tuple(inputs),
            {name: RegionShape(regions, self._degree) for name in self.degrees}
            if regions
            else {},
            source_per_s=per_s,
        )


def _load_unit(own: Sequence[UnitWork], per_item: float, degree: int) -> InputLoad:
    """Return the input of a unit, for its items times `per_item`."""
    taken = sum(work.items for work in own)
    each_s = sum(work.seconds for work in own) / max(1, taken)
    last = own[-1]
    rate = taken * per_item
    replicas = degree if last.replicated else 1
    first = last.operators[0]
    share = max(work.share for work in own) if last.replicated else 0.0
    return InputLoad(first, (first,), ServiceTime(each_s), rate, rate, replicas, share)
