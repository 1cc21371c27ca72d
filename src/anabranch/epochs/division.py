"""Division of an epoch: the replicas of units, and the levels that share a stage.

Between two stages the engine starts tasks and moves rows. If units send items only to each
other, that gains nothing: one task runs them one after the other. It can even be faster
to give a unit one replica than to start a stage for several.

A level with many units keeps all cores busy without replicas, and every task has a
start-up cost. So unless the user sets the degree, a level gets only a few tasks per
core, and a unit only as many replicas as have enough work.

It also assigns buckets of keys to replicas: if one replica's load stands out, some of
its buckets move to others for the next epoch.
"""

from __future__ import annotations

import math
import reprlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anabranch.epochs.layout import MOST_UNDER_WAY, EpochLayout, Unit, why_not_cut
from anabranch.epochs.task import Report, deal_evenly, replica_of
from anabranch.runtime.keys import (
    STANDS_OUT,
    HotKey,
    Rebalance,
    find_hot_key,
    is_uneven,
    rebalance,
)

UNKNOWN_S = 1.0  # assumed work of a unit that has not run yet
MOST = 16  # levels of a stage


@dataclass(frozen=True)
class StageCosts:
    """The cost of a stage until its tasks run and have their rows, in seconds.

    The defaults are those of one job for each epoch; for resident tasks they are measured at the
    start.
    """

    stage_s: float = 0.03
    task_s: float = 0.005  # for each further task

    @property
    def worth_s(self) -> float:
        """The work a replica should have; at half of it, nothing is gained."""
        return 2 * self.task_s


OF_JOBS = StageCosts()


@dataclass(frozen=True)
class Division:
    """The replicas of each unit, and the levels of each stage."""

    channels: tuple[int, ...]
    stages: tuple[range, ...]


def divide_as_given(layout: EpochLayout, channels: Sequence[int]) -> Division:
    """Return the division with exactly these replicas: one stage per level."""
    stages = (range(level, level + 1) for level in range(len(layout.levels)))
    return Division(tuple(channels), tuple(stages))


def divide(
    layout: EpochLayout,
    channels: Sequence[int],
    work: Mapping[int, float],
    cores: int,
    apart: Collection[int] = (),
    *,
    costs: StageCosts = OF_JOBS,
) -> Division:
    """Return the fastest division with these replicas for units, or one.

    It uses the `work` of units, in seconds. Dynamic programming: only the fastest way
    to a level is extended. Units in `apart` get a stage for their level.
    """
    ways = [_Way(), *(_Way(math.inf) for _ in layout.levels)]
    for start in range(len(layout.levels)):
        for stage in _stages_from(layout, start, apart):
            tasks = _list_tasks(layout, stage, channels, work)
            started_s = costs.stage_s + costs.task_s * (len(tasks) - 1)
            # At least the longest task, or the work of all cores.
            took_s = started_s + max(*tasks, sum(tasks) / cores)
            way = ways[start].then(stage, took_s)
            ways[stage.stop] = min(ways[stage.stop], way, key=attrgetter("seconds"))
    stages = ways[-1].stages
    narrow = {
        unit.number
        for stage in stages
        if len(stage) > 1
        for level in stage
        for unit in layout.levels[level]
    }
    width = (1 if n in narrow else width for n, width in enumerate(channels))
    return Division(tuple(width), stages)


@dataclass(frozen=True)
class _Way:
    """A division of the first levels."""

    seconds: float = 0.0
    stages: tuple[range, ...] = ()

    def then(self, stage: range, took_s: float) -> _Way:
        return _Way(self.seconds + took_s, (*self.stages, stage))


def _stages_from(
    layout: EpochLayout, start: int, apart: Collection[int]
) -> Iterator[range]:
    """Yield the stages that may begin at a level."""
    yield range(start, start + 1)
    for level in range(start, min(len(layout.levels), start + MOST)):
        if any(unit.in_driver or unit.number in apart for unit in layout.levels[level]):
            return
        if level > start:
            yield range(start, level + 1)


def _list_tasks(
    layout: EpochLayout,
    stage: range,
    channels: Sequence[int],
    work: Mapping[int, float],
) -> list[float]:
    """Return the durations of a stage's tasks."""
    tasks: list[float] = []
    for units in layout.together(stage):
        width = channels[units[0].number] if len(stage) == 1 else 1
        took_s = sum(work.get(unit.number, UNKNOWN_S) for unit in units)
        tasks += [took_s / width] * width
    return tasks


TASKS = 3  # tasks per core of a level, so that a slow one does not delay the rest
SHARED = 10  # times a replica's work if the units of a level keep all cores busy

Work = Mapping[int, float]  # unit -> seconds in an epoch; others are unknown
NOT_KNOWN: Work = {}


def widths(
    layout: EpochLayout,
    degree: int,
    *,
    exactly: bool,
    work: Work = NOT_KNOWN,
    costs: StageCosts = OF_JOBS,
) -> tuple[int, ...]:
    """Return the number of replicas of each unit: `degree`, or fewer unless `exactly`.

    If a level has as many units as there are cores, more replicas only even out their
    differences, so each needs more work.
    """
    found = []
    for unit in layout.units:
        width = degree if unit.replicated else 1
        if unit.replicated and not exactly:
            beside = len(layout.levels[unit.level])
            width = min(degree, -(-TASKS * degree // beside))
            if unit.number in work:
                least_s = costs.worth_s
                if beside >= degree:
                    least_s *= SHARED * beside
                width = max(1, min(width, int(work[unit.number] / least_s)))
        found.append(width)
    return tuple(found)


def work_of(reports: Iterable[Report]) -> Work:
    """Return the work of each unit, over all its replicas.

    >>> work_of([Report(0, 0, seconds=0.25), Report(0, 1, seconds=0.5)])
    {0: 0.75}
    """
    found: dict[int, float] = {}
    for report in reports:
        found[report.unit] = found.get(report.unit, 0.0) + report.seconds
    return found


def times(factor: float, work: Work) -> Work:
    """Return the work scaled to `factor` times as many rows.

    >>> times(0.5, {0: 3.0, 1: 1.0})
    {0: 1.5, 1: 0.5}
    """
    return {unit: factor * seconds for unit, seconds in work.items()}


Loads: TypeAlias = npt.NDArray[np.float64]  # of buckets

LEAST_ITEMS = 500  # items sent to a unit before its load is examined
FIRST_LOOK = 2 * LEAST_ITEMS  # items of an epoch that shows which keys are hot
WIDER = 10  # times as many if too few of them came as far as a unit
LOOKS = 3  # epochs until the load of a unit that gets hardly anything is left alone
FADING = 0.5  # weight of earlier loads
LASTING = 3  # consecutive epochs until a slow replica is no outlier
FINEST = 1 << 10  # buckets; more would cost more than they gain


COST_RUNS = 3  # the fastest counts
LEAST_S = 0.0002  # cost of a stage or a task


class Divider:
    """Divides the epochs of a job; the engine and its controllers set how.

    With `exactly`, every unit has the set degree; otherwise a unit has fewer replicas if
    the cores are busy without them, and, with `sparing`, if there is little work.
    """

    def __init__(
        self, layout: EpochLayout, degree: int, count_cores: Callable[[], int]
    ) -> None:
        self.degree = degree
        self.exactly = True
        self.sparing = False
        self.cuts: frozenset[str] = frozenset()  # operators before which units are cut
        self.costs = OF_JOBS
        self.row_work: Work = NOT_KNOWN  # in the last epoch
        self._layout = layout
        self._count_cores = count_cores
        self._last: Division | None = None

    def follow(self, other: Divider) -> None:
        """Divide the epochs of another layout in the same way."""
        self.degree, self.exactly = other.degree, other.exactly
        self.sparing = other.sparing

    @property
    def division(self) -> Division:
        """The division of this epoch, or of the last one."""
        if self._last is None:
            self._last = self._divide(NOT_KNOWN)
        return self._last

    @division.setter
    def division(self, division: Division) -> None:
        self._last = division

    def divide(self, rows: int) -> Division:
        """Return the division of an epoch of this size."""
        return self._divide(times(rows, self.row_work))

    def _divide(self, work: Work) -> Division:
        layout, costs = self._layout, self.costs
        channels = widths(
            layout, self.degree, exactly=self.exactly, work=work, costs=costs
        )
        if self.exactly:
            return divide_as_given(layout, channels)
        cores = self._count_cores()
        return divide(layout, channels, work, cores, self.find_cuts(), costs=costs)

    def note(self, rows: int, reports: Iterable[Report]) -> None:
        """Note the work of an epoch of this size."""
        self.row_work = NOT_KNOWN
        if self.sparing and rows:
            self.row_work = times(1 / rows, work_of(reports))

    def find_cuts(self) -> dict[int, tuple[str, ...]]:
        """Return the operators before which each unit is cut."""
        found: dict[int, tuple[str, ...]] = {}
        for name in self._layout.graph.names:
            if name in self.cuts and why_not_cut(self._layout, name) is None:
                unit = self._layout.unit_of[name].number
                found[unit] = (*found.get(unit, ()), name)
        return found

    @property
    def depth(self) -> int:
        """The number of epochs under way that keeps all workers busy, one of them being
        committed.
        """
        workers = len(self.division.stages) + sum(map(len, self.find_cuts().values()))
        return 1 + min(workers, self._count_cores(), MOST_UNDER_WAY)

    def measure_costs(self, run_empty: Callable[[Division], object]) -> None:
        """Measure the cost of stages here, with empty epochs in three divisions."""
        layout, nothing = self._layout, {u.number: 0.0 for u in self._layout.units}
        alone = (1,) * len(layout.units)
        wide = widths(layout, self.degree, exactly=True)
        ways = [
            divide(layout, alone, nothing, cores=1),
            divide_as_given(layout, alone),
            divide_as_given(layout, wide),
        ]
        few_s, each_s, wide_s = (
            min(_time(run_empty, division) for _ in range(COST_RUNS))
            for division in ways
        )
        stages = len(ways[1].stages) - len(ways[0].stages)
        tasks = sum(wide) - sum(alone)
        self.costs = StageCosts(
            _rise(each_s - few_s, stages, OF_JOBS.stage_s),
            _rise(wide_s - each_s, tasks, OF_JOBS.task_s),
        )
        self._last = None


def _time(run_empty: Callable[[Division], object], division: Division) -> float:
    began_s = time.perf_counter()
    run_empty(division)
    return time.perf_counter() - began_s


def _rise(seconds: float, more: int, usual_s: float) -> float:
    """Return the marginal cost of `more` units, within bounds.

    >>> _rise(0.006, 3, usual_s=0.03), _rise(0.0, 0, usual_s=0.03)
    (0.002, 0.03)
    """
    return min(max(seconds / more, LEAST_S), usual_s) if more else usual_s


@dataclass
class _KeyLoad:
    """The load of a keyed unit's buckets, and its table.

    `counts` are the items of each bucket, `loads` the seconds they took. Seconds also
    include whatever else the machine did, so a replica counts as slow only after some
    slow epochs (`slow`); from then on its items are weighted (`by_seconds`).
    """

    counts: Loads
    loads: Loads
    items: int = 0
    slow: int = 0
    by_seconds: bool = False
    table: tuple[int, ...] = ()
    named: set[Any] = field(default_factory=set)  # hot keys already reported


@dataclass(frozen=True)
class Uneven:
    """An imbalance of a unit: a better table, or a hot key."""

    unit: Unit
    found: Rebalance | HotKey
    replicas: int

    def describe(self) -> tuple[str, str, str]:
        """Return what is done about it, why, and the expected gain."""
        region = self.unit.region or self.unit.name
        if isinstance(self.found, Rebalance):
            return self.found.describe(region)
        return self.found.describe(region, self.replicas)


class KeyTables:
    """The assignment of key buckets to replicas, from epoch to epoch, by measured load.

    Buckets that are too coarse are split: `buckets` is the number wanted. If even that
    would not help, keys are counted: those of the units in `watched`.
    """

    def __init__(self, layout: EpochLayout) -> None:
        self._units = [unit for unit in layout.units if unit.key]
        self._known: dict[int, _KeyLoad] = {}
        self._looks = 0
        self.buckets = 1
        self.watched: frozenset[int] = frozenset()

    def find_look(self, channels: Sequence[int]) -> int | None:
        """Return how many items the next epoch should have to show which keys are hot.

        None if that is known already, or if nothing is divided by key. Until then the
        buckets of an epoch are divided blindly, so it should be a small one.
        """
        several = [unit.number for unit in self._units if channels[unit.number] > 1]
        if self._looks >= LOOKS or all(self._has_seen(number) for number in several):
            return None
        return FIRST_LOOK * int(WIDER**self._looks)

    def _has_seen(self, number: int) -> bool:
        known = self._known.get(number)
        return known is not None and known.items >= LEAST_ITEMS

    def of(self, channels: Sequence[int], buckets: int) -> dict[int, tuple[int, ...]]:
        """Return the tables of the units whose buckets are not distributed evenly."""
        tables = {}
        for number, known in self._known.items():
            self._divide(known, buckets)
            replicas = channels[number]
            if known.table and max(known.table) < replicas > 1:
                tables[number] = known.table
        return tables

    def note(
        self, channels: Sequence[int], buckets: int, reports: Collection[Report]
    ) -> list[Uneven]:
        """Record what an epoch's tasks sent; return the imbalances found."""
        found: list[Uneven] = []
        watched: set[int] = set()
        self._looks += 1
        of_unit = _group_by_unit(reports)
        sending = [report for report in reports if report.sent]
        for unit in self._units:
            replicas = channels[unit.number]
            if replicas == 1:
                continue
            own = of_unit.get(unit.number, [])
            items, keys = self._add(unit.number, buckets, replicas, own, sending)
            known = self._known[unit.number]
            if known.items < LEAST_ITEMS:
                continue
            table = known.table or deal_evenly(buckets, replicas)
            judged = _judge(known, table, replicas)
            if judged is None:
                continue
            better = rebalance(judged, table, replicas)
            if better is not None:
                known.table = table = better.table
                found.append(Uneven(unit, better, replicas))
            if not is_uneven(judged, table, replicas):
                continue
            hot = find_hot_key(keys, items, replicas)
            if unit.number not in self.watched:
                watched.add(unit.number)
            elif hot is None:
                self.buckets = max(self.buckets, min(2 * buckets, FINEST))
            elif hot.key not in known.named:
                known.named.add(hot.key)
                found.append(Uneven(unit, hot, replicas))
        self.watched = frozenset(watched)
        return found

    def find_hot_keys(self) -> dict[str, tuple[str, ...]]:
        """Return the hot keys found, by region."""
        return {
            unit.region or unit.name: tuple(sorted(map(reprlib.repr, known.named)))
            for unit in self._units
            if (known := self._known.get(unit.number)) is not None and known.named
        }

    def _add(
        self,
        number: int,
        buckets: int,
        replicas: int,
        own: Iterable[Report],
        sending: Iterable[Report],
    ) -> tuple[int, Counter[Any]]:
        """Add the load of an epoch to that of a unit; return its items, by key.

        An item of a slow replica counts for more.
        """
        found = np.zeros(buckets, np.int64)
        keys: Counter[Any] = Counter()
        took_s = [0.0] * replicas
        for report in own:
            took_s[report.channel] += report.seconds
        for report in sending:
            if number in report.sent:
                sent = report.sent[number]
                found += sent.counts
                keys.update(sent.keys)
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = _KeyLoad(np.zeros(buckets), np.zeros(buckets))
        self._divide(known, buckets)
        if known.table and max(known.table) >= replicas:
            known.table = ()
        table = known.table or deal_evenly(buckets, replicas)
        counts = found.astype(np.float64)
        owners = replica_of(table)[:-1]
        received = np.bincount(owners, counts, minlength=replicas)
        cost = np.array(took_s) / np.maximum(received, 1.0)
        kept = FADING if known.items >= LEAST_ITEMS else 1.0
        total = int(found.sum())
        known.items = int(kept * known.items) + total
        known.counts = kept * known.counts + counts
        known.loads = kept * known.loads + counts * cost[owners]
        return total, keys

    def _divide(self, known: _KeyLoad, buckets: int) -> None:
        """Convert a unit's loads to a larger number of buckets."""
        more = buckets // len(known.loads)
        if more > 1:
            known.counts = np.tile(known.counts / more, more)
            known.loads = np.tile(known.loads / more, more)
            known.table *= more


def _group_by_unit(reports: Iterable[Report]) -> dict[int, list[Report]]:
    found: dict[int, list[Report]] = {}
    for report in reports:
        found.setdefault(report.unit, []).append(report)
    return found


def _is_uneven(loads: Loads, table: Sequence[int], replicas: int) -> bool:
    """Tell the same as `is_uneven`, of an array: there are thousands of buckets."""
    of_replicas = np.bincount(replica_of(tuple(table))[:-1], loads, replicas)
    return bool(of_replicas.max() > STANDS_OUT * of_replicas.sum() / replicas)


def _judge(known: _KeyLoad, table: Sequence[int], replicas: int) -> list[float] | None:
    """Return the bucket loads by which a table is uneven; None if it is not.

    Item counts decide at once. Seconds decide after some slow epochs: moving keys
    drains all running epochs, which an outlier is not worth.

    >>> known = _KeyLoad(counts=np.array([9.0, 1.0]), loads=np.array([0.9, 0.1]))
    >>> _judge(known, (0, 1), 2)
    [9.0, 1.0]
    >>> known = _KeyLoad(counts=np.array([5.0, 5.0]), loads=np.array([0.9, 0.1]))
    >>> [_judge(known, (0, 1), 2) for _ in range(LASTING)]
    [None, None, [0.9, 0.1]]
    """
    if not _is_uneven(known.loads, table, replicas):
        known.slow = 0
        return None
    loads: list[float] = known.loads.tolist()
    counts: list[float] = known.counts.tolist()
    if not known.by_seconds and is_uneven(counts, table, replicas):
        return counts
    known.slow += 1
    if known.slow < LASTING:
        return None
    known.slow, known.by_seconds = 0, True
    return loads
