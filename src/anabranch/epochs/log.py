"""The log of epochs: their items, the arrival of their rows, the time of their levels,
and the load of their operators.

The latency of a row from a source that can be read at any time starts when the epoch
takes it. A live row has waited since the epoch before, unless its source knows better.

The tasks of a level run concurrently: it takes as long as its longest task, and at
least as long as the work of all cores. Every stage has a start-up cost.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from anabranch.epochs.division import OF_JOBS, Division, StageCosts, divide, widths
from anabranch.epochs.intake.intake import Intake, Piece
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.state.restore import measure_directory
from anabranch.epochs.task import Report, having
from anabranch.logs import log, logger_of
from anabranch.metrics.job_metrics import (
    EpochTrace,
    OnEpoch,
    OperatorLoad,
    find_skew,
    ignore,
)
from anabranch.metrics.latency import Latencies
from anabranch.metrics.load import Epoch, UnitWork
from anabranch.runtime.births import Births, births_of, on_this_clock

_LOGGER = logger_of("epochs")
MOST_EPOCHS = 1000  # whose times are kept


class Arrivals:
    """Arrival counts, written by the thread that runs epochs; any may read."""

    def __init__(self) -> None:
        self.latencies = Latencies()  # from birth
        self.from_reading = Latencies()
        self.epochs: deque[Epoch] = deque(maxlen=MOST_EPOCHS)
        self.ran = 0  # epochs so far
        self.degree: int | None = None  # of the current or last epoch
        self.taken_items = 0
        self._epoch_items = 0
        self._began_s = 0.0
        self._intakes: Mapping[str, Intake] = {}
        self._before: dict[str, int] = {}  # rows taken of each source
        self._left: dict[str, int] = {}  # backlog when rows were last taken
        self._asked_s: dict[str, float] = {}
        self._born: dict[str, tuple[float, int]] = {}  # time, and rows
        self._each: list[npt.NDArray[np.float64]] = []

    def count_arrivals(self) -> int:
        """Return the number of arrived items: those taken, and the backlog if known."""
        intakes = dict(self._intakes)
        known = {name: intake.count_arrivals() for name, intake in intakes.items()}
        return sum(
            max(taken + self._left.get(name, 0), known.get(name) or 0)
            for name, taken in dict(self._before).items()
        )

    def count_backlog(self) -> int:
        """Return the backlog: items that have arrived and were not taken."""
        return max(0, self.count_arrivals() - self.taken_items)

    def note_intake(
        self,
        intakes: Mapping[str, Intake],
        pieces: Mapping[str, Sequence[Piece]],
        degree: int,
        at_s: float | None = None,
    ) -> None:
        """Record the input of an epoch, now or at another time."""
        now_s = self._began_s = time.perf_counter() if at_s is None else at_s
        self.degree, self._intakes, self._epoch_items = degree, intakes, 0
        self._born, self._each = {}, []
        for name, parts in pieces.items():
            rows = sum(piece.rows for piece in parts)
            self._before[name] = self._before.get(name, 0) + rows
            self.taken_items += rows
            self._epoch_items += rows
            if intakes[name].live:
                self._left[name] = intakes[name].waiting() or 0
            born_s = intakes[name].born_s()
            if born_s is not None:
                self._each.append(np.minimum(born_s, now_s))
            elif intakes[name].live:
                self._born[name] = self._asked_s.get(name, now_s), rows
            else:
                self._born[name] = now_s, rows
        self._asked_s.update(dict.fromkeys(intakes, now_s))

    def note_delivery(
        self,
        tasks: TaskTimes,
        births: Mapping[str, Births] | None = None,
    ) -> None:
        """Record that the epoch's output is complete, and its tasks' times.

        `births` are those that the tasks found, in seconds since 1970.
        """
        now_s = time.perf_counter()
        for name, (born_s, rows) in self._born.items():
            oldest_s, youngest_s = born_s, born_s
            if births and name in births:
                oldest_s, youngest_s = on_this_clock(births[name])
            self.latencies.record_between(
                now_s - oldest_s, now_s - youngest_s, rows, at_s=now_s
            )
        for each in self._each:
            self.latencies.record_each(now_s - each)
        self.from_reading.record(now_s - self._began_s, self._epoch_items, at_s=now_s)
        seconds = now_s - self._began_s
        degree = self.degree or 1
        self.epochs.append(
            Epoch(
                self._epoch_items,
                seconds,
                degree,
                tasks.work_s,
                tasks.longest_s,
                tasks.slowest,
                tasks.units,
            )
        )
        self.ran += 1

    def epochs_since(self, ran: int) -> tuple[Epoch, ...]:
        """Return the epochs after the first `ran`, as far as they are kept."""
        epochs = tuple(self.epochs)
        new = self.ran - ran
        return epochs[-new:] if new > 0 else ()

    @property
    def live(self) -> bool:
        """Whether some source is live."""
        return any(intake.live for intake in dict(self._intakes).values())


@dataclass(frozen=True)
class TaskTimes:
    """The work of all replicas, the longest tasks of all levels, and their units."""

    work_s: float = 0.0
    longest_s: float = 0.0
    slowest: tuple[str, ...] = ()
    units: tuple[UnitWork, ...] = ()


def tasks_of(layout: EpochLayout, reports: Sequence[Report]) -> TaskTimes:
    """Return the durations of an epoch's tasks."""
    seconds: dict[int, list[float]] = {}  # by unit
    for report in reports:
        seconds.setdefault(report.unit, []).append(report.seconds)
    longest_s = dict.fromkeys(range(len(layout.levels)), 0.0)
    for number, own in seconds.items():
        level = layout.units[number].level
        longest_s[level] = max(longest_s[level], *own)
    works = (sum(own) for n, own in seconds.items() if layout.units[n].replicated)
    last = max(seconds, key=lambda number: max(seconds[number]), default=None)
    slowest = () if last is None else tuple(layout.units[last].operators)
    units = tuple(_add_up_units(layout, seconds, reports))
    return TaskTimes(sum(works), sum(longest_s.values()), slowest, units)


def _add_up_units(
    layout: EpochLayout,
    seconds: Mapping[int, Sequence[float]],
    reports: Iterable[Report],
) -> Iterator[UnitWork]:
    """Yield the work of each unit with operators in an epoch."""
    taken: Counter[int] = Counter()
    for report in having(reports, "taken"):
        taken[report.unit] += sum(report.taken)
    for number, own in sorted(seconds.items()):
        unit = layout.units[number]
        if unit.operators:
            work_s = sum(own)
            yield UnitWork(
                tuple(unit.operators),
                taken[number],
                work_s,
                max(own) / (work_s or 1.0),
                unit.replicated,
            )


def births_in(reports: Iterable[Report]) -> dict[str, Births]:
    """Return the births of each source's items found by tasks, since 1970."""
    found: dict[str, Births] = {}
    for report in having(reports, "births"):
        for name, births in report.births.items():
            found[name] = births_of([*found.get(name, births), *births]) or births
    return found


KEPT = 16  # epochs that a slow reader can still get


class Reporting(Protocol):
    """The interface of an epoch loop."""

    profiled: bool  # whether the last epoch was
    commit_s: float  # duration of the last commit

    @property
    def reports(self) -> Sequence[Report]:
        """The reports of the last epoch's tasks."""


@dataclass(frozen=True)
class Seen:
    """A finished epoch; `started` counts the epochs begun until then."""

    started: int
    seconds: float
    profiled: bool
    reports: Sequence[Report]

    @property
    def items(self) -> int:
        """The number of items of all sources."""
        return sum(self.read().values())

    @property
    def speed(self) -> float:
        """Items per second."""
        return self.items / self.seconds

    def read(self) -> Mapping[str, int]:
        """Return the number of items of each source."""
        counts: dict[str, int] = {}
        for report in self.reports:
            for source, count in report.read.items():
                counts[source] = counts.get(source, 0) + count
        return counts


class Moment(NamedTuple):
    """A time by two clocks: one to show, and one that nobody sets."""

    since_1970_s: float
    clock_s: float

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(time.time(), time.monotonic())


class EpochLog:
    """Written by the thread that runs epochs, awaited by the controller."""

    def __init__(self, told: OnEpoch = ignore) -> None:
        self.seconds: deque[float] = deque(maxlen=MOST_EPOCHS)
        self.items: deque[int] = deque(maxlen=MOST_EPOCHS)
        self.ran = 0  # epochs so far
        self.started = 0
        self.profiling = False  # requests a profile of the next epochs
        self._told = told
        self._began = Moment.now()
        self._news = threading.Condition()
        self._recent: deque[Seen] = deque(maxlen=KEPT)

    def begin(self) -> int:
        """Record that an epoch begins, before its configuration is read.

        So a controller that changes the configuration and then waits for new epochs
        gets none with the old one. Returns the epoch's number.
        """
        with self._news:
            self.started += 1
            self._began = Moment.now()
            return self.started

    @contextlib.contextmanager
    def epoch(
        self, epochs: Reporting, number: int | None = None, *, usual: bool = True
    ) -> Iterator[None]:
        """Record the block as the epoch with that number, or the last one begun.

        An epoch not of the `usual` size is not used for comparisons.
        """
        started = self.started if number is None else number
        began_s = time.monotonic()
        read_s = began_s - self._began.clock_s
        yield
        seconds = time.monotonic() - began_s
        seen = Seen(started, seconds, epochs.profiled, epochs.reports)
        self.seconds.append(seconds)
        self.items.append(seen.items)
        self.ran += 1
        commit_s = min(seconds, epochs.commit_s)
        phases = {"read": read_s, "run": seconds - commit_s, "commit": commit_s}
        self._tell(
            EpochTrace(
                self.ran, self._began.since_1970_s, (*phases.items(),), seen.items
            )
        )
        if not usual:
            return
        with self._news:
            self._recent.append(seen)
            self._news.notify_all()

    def _tell(self, epoch: EpochTrace) -> None:
        """Log the end of an epoch. A job does not fail because a listener does."""
        fields = {"epoch": epoch.number, "items": epoch.items}
        log(_LOGGER, logging.DEBUG, "epoch", **fields, **dict(epoch.phases))
        try:
            self._told(epoch)
        except Exception:
            _LOGGER.exception("epoch %s could not be traced", epoch.number)

    def next(
        self, count: int, over: threading.Event, after: int | None = None
    ) -> list[Seen] | None:
        """Wait for `count` epochs; None if the job ends first.

        Only those that begin from now on, or after number `after`, count.
        """
        with self._news:
            since = self.started if after is None else after
            while True:
                found = [seen for seen in self._recent if seen.started > since]
                if len(found) >= count:
                    return found[:count]
                if over.is_set():
                    return None
                self._news.wait(0.1)  # not told when it is over


class UnitLoads:
    """The work and the items of each unit so far, from the reports of its tasks.

    >>> loads = UnitLoads()
    >>> loads.note([Report(0, 0, {"read": 30}, seconds=3.0), Report(0, 1, seconds=1.0)])
    >>> loads.of(0, "read_csv", 2)
    OperatorLoad(element='read_csv', replicas=2, items=30, work_s=4.0, skew=1.5, \
waiting=0, full=0.0, keys=None, state_bytes=None)
    """

    def __init__(self) -> None:
        self._work_s: dict[int, dict[int, float]] = {}  # unit -> replica -> seconds
        self._items: Counter[int] = Counter()  # by unit

    def note(self, reports: Iterable[Report]) -> None:
        """Add the reports of an epoch."""
        for report in reports:
            work = self._work_s.setdefault(report.unit, {})
            work[report.channel] = work.get(report.channel, 0.0) + report.seconds
            self._items[report.unit] += sum(report.taken or report.read.values())

    def of(
        self, unit: int, element: str, replicas: int, state_bytes: int | None = None
    ) -> OperatorLoad:
        """Return the load of a unit, attributed to its operators."""
        work = self._work_s.get(unit, {})
        seconds = [work.get(channel, 0.0) for channel in range(replicas)]
        return OperatorLoad(
            element,
            replicas,
            self._items[unit] or None,
            sum(tuple(work.values())),
            find_skew(seconds),
            state_bytes=state_bytes,
        )


class LevelTimes:
    """The levels of profiled epochs, from their workers' samples."""

    def __init__(
        self,
        layout: EpochLayout,
        reports: Collection[Report],
        cores: int,
        costs: StageCosts = OF_JOBS,
    ) -> None:
        self._layout = layout
        self._cores = cores
        self._costs = costs
        self._took: dict[int, float] = {}  # unit -> its longest task
        self._work: dict[int, float] = {}  # unit -> work of all its tasks
        for report in reports:
            for seen in report.samples:
                unit = report.unit
                self._took[unit] = max(self._took.get(unit, 0.0), seen.elapsed_s)
                self._work[unit] = self._work.get(unit, 0.0) + seen.cpu_s

    @property
    def slowest(self) -> int:
        """The longest level."""
        times = self._times(self._took)
        return max(times, key=lambda level: times[level], default=0)

    @property
    def longest_s(self) -> float:
        """The duration of that level."""
        return max(self._times(self._took).values(), default=0.0)

    @property
    def now_s(self) -> float:
        """The duration of all levels."""
        return sum(self._times(self._took).values())

    def with_degree(self, degree: int) -> float:
        """Return the duration of all levels with another degree."""
        width = self._divide(degree).channels
        took = {
            unit: self._work[unit] / width[unit]
            if self._layout.units[unit].replicated
            else took_s
            for unit, took_s in self._took.items()
        }
        return sum(self._times(took).values())

    def longer_s(self, degree: int, other: int) -> float:
        """Return how much longer an epoch would take with another degree."""
        stages, now = (len(self._divide(d).stages) for d in (other, degree))
        return (
            self.with_degree(other) - self.now_s + self._costs.stage_s * (stages - now)
        )

    def differ(self, degree: int, other: int) -> bool:
        """Tell whether the degrees differ in effect: units with little work get one
        replica.
        """
        return self._divide(degree) != self._divide(other)

    def _divide(self, degree: int) -> Division:
        layout, work, costs = self._layout, self._work, self._costs
        width = widths(layout, degree, exactly=False, work=work, costs=costs)
        return divide(layout, width, work, self._cores, costs=costs)

    def _times(self, took: dict[int, float]) -> dict[int, float]:
        """Return the duration of each level, given those of its units."""
        found: dict[int, float] = {}
        work: dict[int, float] = {}
        for unit, took_s in took.items():
            level = self._layout.units[unit].level
            found[level] = max(found.get(level, 0.0), took_s)
            work[level] = work.get(level, 0.0) + self._work[unit]
        return {level: max(s, work[level] / self._cores) for level, s in found.items()}


STATE_S = 5.0  # between two measurements of the size of states


class OperatorMeasures:
    """The load of operators, the size of their states, and their items in columns.

    `states` is the directory of the states on this host, once there is one.
    """

    def __init__(self) -> None:
        self.states: Path | None = None
        self.channels: Mapping[str, int] = {}  # by operator, in the last epoch
        self.buckets_opened = self.buckets_restored = 0
        self._loads = UnitLoads()
        self._ran: dict[str, tuple[int, int]] = {}  # in columns, in Python
        self._state_sizes: dict[str, tuple[float, int | None]] = {}  # when; bytes

    def note(self, reports: Iterable[Report], channels: Mapping[str, int]) -> None:
        """Add the reports of an epoch."""
        self.channels = channels
        self._loads.note(reports)
        for report in reports:
            self.buckets_opened += report.opened
            self.buckets_restored += report.restored
            for name, (done, others) in report.ran.items():
                columns, python = self._ran.get(name, (0, 0))
                self._ran[name] = columns + done, python + others

    def find_shares_in_columns(self) -> dict[str, float]:
        """Return the share of items run in columns, of operators that can be."""
        return {
            name: columns / (columns + python)
            for name, (columns, python) in self._ran.items()
            if columns + python
        }

    def measure_loads(self, layout: EpochLayout) -> dict[str, OperatorLoad]:
        """Return the load of each operator, which is that of its unit."""
        found: dict[str, OperatorLoad] = {}
        for unit in layout.units:
            operators = (*unit.operators, *unit.writes)
            if not operators:
                continue
            replicas = self.channels.get(operators[0], 1)
            held = self._measure_state(unit.name)
            load = self._loads.of(unit.number, operators[0], replicas, held)
            found |= dict.fromkeys(operators, load)
        return found

    def _measure_state(self, unit: str) -> int | None:
        """Return the size of a unit's states on this host, some seconds old."""
        if self.states is None:
            return None
        now_s = time.monotonic()
        known = self._state_sizes.get(unit)
        if known is None or now_s - known[0] > STATE_S:
            size = measure_directory(self.states / unit)
            known = self._state_sizes[unit] = now_s, size
        return known[1]
