"""The epoch loop: what the tasks of an epoch do, and the rows they exchange."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from anabranch.connectors.files.arrow_items import form_of
from anabranch.engines.spark.residence import Residence
from anabranch.engines.spark.session import describe_python, for_queries, row_by_row
from anabranch.engines.spark.stage_plan import Run, StagePlans, StageShape
from anabranch.engines.spark.worker import Runner, run_task
from anabranch.engines.spark.workers import TRIES, Tasks, is_loss, is_too_large
from anabranch.epochs.checkpoint.record import IncompleteGroup, Record
from anabranch.epochs.commit import Committer, FilesOfSinks, FinishedEpoch
from anabranch.epochs.division import (
    NOT_KNOWN,
    OF_JOBS,
    Division,
    KeyTables,
    StageCosts,
    Work,
    divide,
    divide_as_given,
    times,
    widths,
    work_of,
)
from anabranch.epochs.intake.intake import Piece, SurveyPiece
from anabranch.epochs.item_files import Delivered
from anabranch.epochs.layout import (
    MOST_UNDER_WAY,
    SparkLayout,
    why_not_cut,
    why_not_overlap,
)
from anabranch.epochs.pickle import Originals
from anabranch.epochs.resident.link import LostError
from anabranch.epochs.ship import pack
from anabranch.epochs.shuffle import Row, TaskRows
from anabranch.epochs.state.buckets import EMPTY, Ranges, Stamp, Versions, VersionsOf
from anabranch.epochs.state.states import BUCKETS, fit_buckets
from anabranch.epochs.task import (
    REPORT,
    TO_DRIVER,
    DeliverItems,
    EpochAttempt,
    EpochTask,
    FinishOperators,
    InjectOutputs,
    KeySpan,
    Mode,
    ProcessRows,
    Report,
    Share,
    Spec,
    TaskStage,
    WarmUp,
    having,
    load_report,
    pause_collection,
)
from anabranch.epochs.wire import decode, end_to_end, in_order
from anabranch.errors import AnabranchError, EngineError, FencedError, RefutedError
from anabranch.graph.graph import ancestors
from anabranch.operators.clock import IdlePorts
from anabranch.operators.sinks import is_unordered
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import END
from anabranch.runtime.verify.verifier import Refutation, Verifier

Tell = Callable[[str, str, str], object]  # what is done, why, and the effect

MOST_KEYS = 1 << 20  # whose last outputs the driver takes at a time
NONE = range(0)  # levels of the stage behind the last
COST_RUNS = 3  # the fastest counts
LEAST_S = 0.0002  # cost of a stage or a task


@dataclass(frozen=True)
class SharedRounds:
    """The rounds of an operator that tasks share, from the items of a window."""

    operator: str
    run: Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Flight:
    """An epoch running in resident tasks, beside earlier ones."""

    run: int
    task: EpochTask
    division: Division
    pieces: Mapping[str, list[Piece]]


@dataclass
class PastDeliveries:
    """What this run has delivered to external sinks, epoch by epoch."""

    last: dict[str, int] = field(default_factory=dict)  # epoch by sink
    done: tuple[str, ...] = ()  # files that the next delivery removes

    def note(self, stamp: Stamp, files: FilesOfSinks) -> None:
        """Note a delivery."""
        self.last |= dict.fromkeys(files, stamp.epoch)
        self.done = tuple(one.file for some in files.values() for one in some)


class Epochs:
    """Runs epochs; knows Spark, but not where items come from or go to."""

    def __init__(
        self,
        spark: SparkSession,
        spec: Spec,
        degree: int,
        committer: Committer,
        tasks: Tasks,
        *,
        buckets: int = BUCKETS,
    ) -> None:
        self.degree = degree
        self.exactly = (
            True  # exactly this degree for every unit; else fewer if it is full
        )
        self.sparing = False  # no replicas for units with little work
        self.cuts: frozenset[str] = frozenset()
        self.profiling = False
        self.costs = OF_JOBS
        self.profiled = False  # whether the last epoch was
        self.commit_s = 0.0  # duration of the last commit
        self.reports: Sequence[Report] = ()  # of the last epoch
        self.result_bytes = 0  # bytes that the driver received
        shipped, names = pack(spec)
        in_driver = any(unit.in_driver for unit in spec.layout.units)
        originals = Originals.of_driver() if in_driver else None
        self.runner = Runner(spec, names, originals)
        self.spark = spark
        self._spec = spec
        self._layout: SparkLayout = spec.layout
        self._committer = committer
        committer.carry = self.deliver
        self._deliveries = PastDeliveries()
        self._tasks = tasks
        self.refuted: tuple[Refutation, ...] = ()  # by the last epoch
        self._verifier = Verifier(self._layout.graph, spec.verdicts, spec.verify)
        self._verifier.watch()
        packed = spark.sparkContext.broadcast(shipped)
        self._plans = StagePlans(run_shipped(spec.job, packed))
        self._residence = Residence(spark, self._layout, spec.job, packed, tasks)
        self._base = EMPTY
        self._versions: VersionsOf = {}  # of buckets
        self._turn = 0
        self._flights: deque[Flight] = deque()  # epochs that have begun, oldest first
        self._ended = END
        self._finished: set[str] = set()
        self._finishing: tuple[str, str] | None = None  # as in `Record`
        self._most_keys = MOST_KEYS
        self._snapshots: frozenset[tuple[str, int]] = frozenset()
        self._buckets = buckets  # of keys; a checkpoint keeps its own number
        self._begun: Mapping[str, IncompleteGroup] = {}
        self._shared: Mapping[str, Any] = {}  # by operator
        self.idle: IdlePorts = {}  # in the epoch that runs
        self._last_division: Division | None = None
        # a division, and its units with their replicas
        self._places: tuple[Division, list[tuple[int, int]]] | None = None
        self._row_work: Work = NOT_KNOWN  # of a row, as it was
        self._key_tables = KeyTables(self._layout)
        self.tell: Tell = lambda *_: None  # is told about keys that move, and why
        self.rounds: Mapping[str, SharedRounds] = {}  # by the operator that holds items

    @cached_property
    def session(self) -> SparkSession:
        """The session for its queries."""
        return for_queries(self.spark)

    def close(self) -> None:
        """Release the resident workers of this program."""
        self._residence.leave()

    @property
    def stamp(self) -> Stamp:
        """The last committed epoch and its turn."""
        return self._base

    @property
    def channels(self) -> Mapping[str, int]:
        """The number of replicas of each operator in this epoch, or in the last."""
        channels = self._division.channels
        units = self._layout.unit_of
        return {name: channels[unit.number] for name, unit in units.items()}

    def find_hot_keys(self) -> dict[str, tuple[str, ...]]:
        """Return the hot keys, by region."""
        return self._key_tables.find_hot_keys()

    @property
    def finishing(self) -> bool:
        """Whether operators have given their last outputs; no rows may follow them."""
        return bool(self._finished or self._finishing)

    def resume(self, record: Record | None, turn: int) -> None:
        """Resume from a checkpoint's record; turns are numbered from `turn` on."""
        self._turn = turn
        if record is not None:
            self._base = record.stamp
            self._versions = record.versions
            self._ended = END if record.ended is None else record.ended
            self._finished = set(record.finished)
            self._finishing = record.finishing
            self._begun = record.begun
            self._shared = {
                name: self.runner.pickler.loads(shared)
                for name, shared in record.shared.items()
            }
            self._buckets = record.buckets

    def take_over(self, other: Epochs) -> None:
        """Continue after the last commit of epochs with another layout."""
        self.degree, self.exactly = other.degree, other.exactly
        self.sparing, self.profiling = other.sparing, other.profiling
        self._base, self._turn, self._ended = other._base, other._turn, other._ended
        self._buckets, self.tell = other._buckets, other.tell
        self.rounds = other.rounds
        self._shared, self.idle = other._shared, other.idle

    def begin_anew(self) -> None:
        """Forget all states: another run of the program follows."""
        self._versions, self._begun, self._shared = {}, {}, {}
        self._ended, self._finished, self._finishing = END, set(), None

    @property
    def why_not_again(self) -> str | None:
        """Why the last epoch cannot run again with another layout, or None."""
        if self.in_driver_too:
            return "what the driver has run of this epoch cannot be taken back"
        changed = any(one.has_any for one in self._versions.values())
        if changed or self._begun or self._finished:
            return "states of earlier epochs would have to move"
        return None

    def warm_up(self) -> None:
        """Start the workers and load the program, before any data comes."""
        stages = self._division.stages
        workers = [levels for levels in stages if not self._is_in_driver(levels)]
        if workers:
            try:
                self._retry(lambda: self._job(workers, self._task(WarmUp()), {}))
            except Exception as error:
                described = describe_python(self.spark, error)
                if described is not None:
                    raise described from None
                raise
        if self._residence.stays and not self.exactly:  # a set degree needs no choice
            self.costs = self._measure_costs()
            self._last_division = None

    def _measure_costs(self) -> StageCosts:
        """Measure the cost of stages here, with empty tasks in three divisions."""
        layout, nothing = self._layout, {u.number: 0.0 for u in self._layout.units}
        alone = (1,) * len(layout.units)
        wide = widths(layout, self.degree, exactly=True)
        ways = [
            divide(layout, alone, nothing, cores=1),
            divide_as_given(layout, alone),
            divide_as_given(layout, wide),
        ]
        few_s, each_s, wide_s = map(self._time_nothing, ways)
        stages = len(ways[1].stages) - len(ways[0].stages)
        tasks = sum(wide) - sum(alone)
        return StageCosts(
            _rise(each_s - few_s, stages, OF_JOBS.stage_s),
            _rise(wide_s - each_s, tasks, OF_JOBS.task_s),
        )

    def _time_nothing(self, division: Division) -> float:
        """Return the duration of an epoch without rows under a division."""
        self._last_division = division
        stages = [one for one in division.stages if not self._is_in_driver(one)]
        took_s = []
        for _ in range(COST_RUNS):
            began_s = time.perf_counter()
            self._retry(lambda: self._job(stages, self._task(WarmUp()), {}))
            took_s.append(time.perf_counter() - began_s)
        return min(took_s)

    @cached_property
    def why_not_overlap(self) -> str | None:
        """Why epochs cannot overlap, or None."""
        return why_not_overlap(self._layout)

    @property
    def in_flight(self) -> int:
        """The number of epochs begun and not over."""
        return len(self._flights)

    @property
    def depth(self) -> int:
        """The number of epochs that keeps all workers busy, one of them being
        committed.
        """
        cores: int = self.spark.sparkContext.defaultParallelism
        workers = len(self._division.stages) + sum(map(len, self._cuts().values()))
        return 1 + min(workers, cores, MOST_UNDER_WAY)

    def begin(self, pieces: Mapping[str, list[Piece]]) -> bool:
        """Begin an epoch beside running ones, if possible; tell whether it has begun.

        It is over when `run` has reached it. Its tasks begin with the states made by
        the epochs before it, so all have the same division.
        """
        if self.why_not_overlap is not None:
            return False
        if self._has_to_see_one():
            return False
        division = self._divide(times(_count_rows(pieces), self._row_work))
        if not self._flights:
            self._last_division = division
            self._fit_buckets()
        elif (
            division != self._flights[-1].division
            or self._count_buckets() != self._buckets
        ):
            return False
        mode = ProcessRows(_find_range(pieces), cuts=self._cuts())
        task = self._prepare(self._task(mode))
        if self._flights:
            last = self._flights[-1].task
            if (task.stage, task.cuts) != (last.stage, last.cuts):
                return False
        shares = self._share_out(pieces)
        _, tasks = self._stages_of(division.stages, task, shares)
        oldest = self._flights[0].run if self._flights else None
        try:
            run = self._residence.begin(tasks, shares, self._row_work, behind=oldest)
        except LostError:  # `run` will find out
            return False
        if run is not None:
            self._flights.append(Flight(run, task, division, pieces))
        return run is not None

    def _has_to_see_one(self) -> bool:
        """Tell whether an epoch must end before others run beside it.

        It shows the work per row, and which keys are hot: those that begin beside it
        would have the same division.
        """
        if self.sparing and not self._row_work:
            return True
        return not self._key_tables.has_looked(self._division.channels)

    def is_done(self) -> bool:
        """Tell whether the oldest running epoch waits for its commit."""
        return not self._flights or self._residence.is_done(self._flights[0].run)

    def run(self, pieces: Mapping[str, list[Piece]]) -> None:
        """Run the rows of one epoch through the program."""
        flight = self._find_flight(pieces)
        rows = _count_rows(pieces)
        if flight is None:
            self._last_division = self._divide(times(rows, self._row_work))
            self._fit_buckets()
        else:
            self._last_division = flight.division
        tables = self._tables()
        with pause_collection():
            shares = self._share_out(pieces)
        self._through(shares, _find_range(pieces), flight=flight)
        self._row_work = NOT_KNOWN
        if self.sparing and rows:
            self._row_work = times(1 / rows, work_of(self.reports))
        if flight is not None and flight.task.stage.tables != tables:
            return  # keys have moved since it began
        for uneven in self._key_tables.note(
            self._division.channels, self._buckets, self.reports
        ):
            self.tell(*uneven.describe())

    def find_homes(self) -> dict[tuple[int, int], int]:
        """Return the resident process of each replica of a unit, by number."""
        return self._residence.find_homes()

    def _find_flight(self, pieces: Mapping[str, list[Piece]]) -> Flight | None:
        """Return the next epoch if it has begun, after the current commit."""
        flight = self._flights.popleft() if self._flights else None
        if flight is not None and flight.pieces is pieces:
            attempt = flight.task.attempt
            before = attempt.pending[-1] if attempt.pending else attempt.base.turn
            if (attempt.epoch - 1, before) == self._base[:2]:
                return flight
        self._flights.clear()
        return None

    def _share_out(
        self, pieces: Mapping[str, list[Piece]]
    ) -> dict[tuple[int, int], Share]:
        """Assign pieces to the replicas of the sources."""
        shares: dict[tuple[int, int], Share] = {}
        for source, parts in pieces.items():
            unit = self._layout.unit_of[source]
            channels = self._division.channels[unit.number]
            for channel, some in deal_out(parts, channels).items():
                place = unit.number, channel
                before = shares[place].pieces if place in shares else ()
                shares[place] = Share((*before, *some))
        return shares

    @property
    def _division(self) -> Division:
        """The division of this epoch, or of the last one."""
        if self._last_division is None:
            self._last_division = self._divide(NOT_KNOWN)
        return self._last_division

    def _divide(self, work: Work) -> Division:
        """Return the division of an epoch with so much work."""
        exactly = self.exactly
        costs = self.costs
        channels = widths(
            self._layout, self.degree, exactly=exactly, work=work, costs=costs
        )
        if exactly:
            return divide_as_given(self._layout, channels)
        cores = self.spark.sparkContext.defaultParallelism
        return divide(self._layout, channels, work, cores, self._cuts(), costs=costs)

    def _fit_buckets(self) -> None:
        """Split the buckets of keys further if this epoch has many replicas.

        A half begins with the version of the bucket it was split from.
        """
        buckets = self._count_buckets()
        if buckets == self._buckets:
            return
        divided = {unit.name for unit in self._layout.units if unit.key}
        self._versions = {
            unit: versions.divide(buckets) if unit in divided else versions
            for unit, versions in self._versions.items()
        }
        self._buckets = buckets
        self._snapshots = frozenset()  # chosen for buckets that no longer exist

    def _count_buckets(self) -> int:
        """Return the number of buckets of keys there should be."""
        channels = self._division.channels
        keyed = [channels[unit.number] for unit in self._layout.units if unit.key]
        fitting = fit_buckets(self._buckets, max(keyed, default=1))
        return max(fitting, self._key_tables.buckets)

    def finish(self, go_on: Callable[[], bool] = lambda: True) -> bool:
        """End the stream: operators finish one by one, producers first.

        All are asked for their last outputs at once; after one has given them, its
        consumers are asked again. `go_on` is asked before each epoch; returns whether
        all have finished.
        """
        waiting = [
            name
            for name in self._layout.graph.names
            if name in self._layout.unit_of
            and _may_finish(self._layout, name)
            and name not in self._finished
        ]
        # In the driver, an operator's last outputs cannot be undone.
        together = not self.in_driver_too
        answers: dict[str, list[Report]] = {}
        while waiting:
            name, *others = waiting
            if not go_on():
                return False
            if name not in answers:
                found = self._ask_all(waiting if together else [name])
                together = found is not None
                if found is None:
                    continue
                answers = found
            reports = answers.pop(name)
            giver = name
            if name in self.rounds:
                giver, reports = self._run_rounds(name, reports)
            given = self._give_last_outputs(name, reports, go_on, giver)
            if given is None:
                return False
            if given:
                answers = {
                    other: reports
                    for other, reports in answers.items()
                    if name not in ancestors(self._layout.graph, other)
                }
            waiting = others
        return True

    def _give_last_outputs(
        self, name: str, reports: list[Report], go_on: Callable[[], bool], giver: str
    ) -> bool | None:
        """Run an operator's last outputs through the rest; return whether it has any.

        They are those of `giver`: of the operator itself, or of rounds behind it.
        Where it has many keys, that takes several epochs, each for a span of the keys in
        the order of their ranks. None if it was stopped on the way.
        """
        given = False
        until: bytes | None = None  # of the keys that have reported
        while True:
            bound = min(
                (r.bounds[name] for r in reports if name in r.bounds), default=None
            )
            if until is None and bound is None:
                self._finishing = None
                return self._inject(name, reports, giver) or given
            if until is not None:
                self._finishing = name, until.hex()
                given |= self._inject(name, reports, giver)
                if not go_on():
                    return None
            until, reports = self._ask_span(name, bound)

    def _ask_span(
        self, name: str, until: bytes | None
    ) -> tuple[bytes | None, list[Report]]:
        """Ask an operator for the last outputs of its next keys, up to a rank if any.

        If they are more than the driver can take, ask how far fewer of them go.
        """
        while True:
            try:
                found = self._ask([name], spans=self._find_spans([name], until))
            except Exception as error:
                if not self._asks_fewer(error):
                    raise
                until = None
            else:
                return until, (found or {})[name]

    def _ask_all(self, names: Sequence[str]) -> dict[str, list[Report]] | None:
        """Ask operators for their last outputs; those with many keys tell how far."""
        while True:
            try:
                return self._ask(names, spans=self._find_spans(names, None))
            except Exception as error:
                if not self._asks_fewer(error):
                    raise

    def _find_spans(
        self, names: Iterable[str], until: bytes | None
    ) -> dict[str, KeySpan]:
        """Return the keys that operators are asked for; those in the driver have all."""
        spans = {}
        for name in names:
            unit = self._layout.unit_of[name]
            if not unit.in_driver:
                most = max(1, self._most_keys // self._division.channels[unit.number])
                done = self._finishing
                after = bytes.fromhex(done[1]) if done and done[0] == name else b""
                spans[name] = KeySpan(most, after, until)
        return spans

    def _asks_fewer(self, error: Exception) -> bool:
        """Ask for the last outputs of fewer keys at a time, if they were too large."""
        if not is_too_large(error) or self._most_keys == 1 or self.in_driver_too:
            return False
        self._most_keys = max(1, self._most_keys // 8)
        self.tell(
            f"the last outputs of at most {self._most_keys} keys are taken at a time",
            "those of more keys are larger than spark.driver.maxResultSize",
            "the end of the stream takes more epochs",
        )
        return True

    def _run_rounds(self, name: str, reports: list[Report]) -> tuple[str, list[Report]]:
        """Return reports in which rounds replace the items that an operator holds, and
        the operator whose outputs these are.

        If something fails, tasks of the operator run them, as one thread would.
        """
        items = [
            item
            for report in reports
            for _, held in report.finished[name]
            for item in held
        ]
        if not items:
            return name, []
        self._residence.leave()  # the rounds need its slots
        shared = self.rounds[name]
        try:
            outputs = shared.run(items)
        except RefutedError:
            raise
        except Exception:
            if self._tasks.cancelled:
                raise
            return name, (self._ask([name], held=False) or {})[name]
        return shared.operator, [replace(reports[0], finished={name: [(b"", outputs)]})]

    def _ask(
        self,
        names: Sequence[str],
        *,
        held: bool = True,
        spans: Mapping[str, KeySpan] | None = None,
    ) -> dict[str, list[Report]] | None:
        """Ask operators for their last outputs; return their reports.

        None if one of several has failed: it may lack the outputs of others. Operators
        whose rounds tasks share are asked what they have `held`.
        """
        sharing = self.rounds.keys() & names if held else ()

        def ask() -> list[Row]:
            self._flights.clear()
            task = self._task(
                FinishOperators(tuple(names), frozenset(sharing), spans or {})
            )
            levels = sorted({self._layout.unit_of[name].level for name in names})
            here = range(levels[0], levels[-1] + 1)
            if self._layout.unit_of[names[0]].in_driver:
                return self._in_driver(_at(task, here), {}, [])
            stages = [range(level, level + 1) for level in here]
            return self._job(stages, task, {})

        told = self._load(self._retry(ask))
        self._refuse_refuted(told)
        try:
            reports = _without_errors(told)
        except AnabranchError:
            if len(names) == 1:
                raise
            return None
        if len(names) > 1 and any(report.failures for report in reports):
            return None
        return {
            name: [report for report in reports if name in report.finished]
            for name in names
        }

    def _inject(self, name: str, reports: list[Report], giver: str) -> bool:
        """Run an operator's last outputs through the rest; tell whether there were any.

        They are numbered in order, over all its replicas, and leave from `giver`.
        """
        found = [
            (order, report.channel, outputs)
            for report in reports
            for order, outputs in report.finished[name]
        ]
        failures = any(report.failures for report in reports)
        if not found and not failures:
            return False
        placed: dict[int, list[tuple[int, Any]]] = {}
        first = number = self._ended
        for _, channel, outputs in sorted(found, key=itemgetter(0)):
            for output in outputs:
                placed.setdefault(channel, []).append((number, output))
                number += 1
        unit = self._layout.unit_of[giver].number
        positions = self._layout.positions
        filled = [
            b"" if place in positions.turns[giver] else 0
            for place in range(1, positions.after[giver])
        ]
        shares = {}
        for channel, some in placed.items():
            columns: list[list[Any]] = [[number for number, _ in some]]
            columns += [[one] * len(some) for one in filled]
            items = [item for _, item in some]
            injected = self.runner.pickler.dumps((items, columns))
            shares[unit, channel] = Share(injected=injected)
        self._ended = number
        inject = InjectOutputs(giver, range(first, number), self._begun)
        self._through(shares, inject.rows, inject=inject, after=name, asked=reports)
        return True

    def ask_state(self, name: str) -> Any:
        """Return the state of an unkeyed operator, as of the last commit."""
        answers = self._ask([name]) or {}
        ((_, (state,)),) = (
            one for told in answers[name] for one in told.finished[name]
        )
        return state

    def _task(self, mode: Mode) -> EpochTask:
        """Return the task of a new try of the next epoch."""
        self._turn += 1
        return EpochTask(
            TaskStage(
                self._division.stages[0],
                self._division.channels,
                buckets=self._buckets,
                tables=self._tables(),
                watched=self._key_tables.watched,
            ),
            EpochAttempt(
                self._base,
                self._turn,
                tuple(flight.task.attempt.turn for flight in self._flights),
                versions=self._versions,
                snapshots=self._snapshots.difference(
                    *(flight.task.attempt.snapshots for flight in self._flights)
                ),
            ),
            mode,
            profiling=self.profiling,
            shared=self._shared,
            idle=self.idle,
        )

    def _tables(self) -> dict[int, tuple[int, ...]]:
        return self._key_tables.of(self._division.channels, self._buckets)

    def _prepare(self, task: EpochTask) -> EpochTask:
        """Prepare the directories for an epoch's parts."""
        directory = self._committer.begin(task.attempt.stamp)
        return replace(task, attempt=replace(task.attempt, parts_directory=directory))

    def _cuts(self) -> dict[int, tuple[str, ...]]:
        """Return the operators before which each unit is cut."""
        found: dict[int, tuple[str, ...]] = {}
        for name in self._layout.graph.names:
            if name in self.cuts and why_not_cut(self._layout, name) is None:
                unit = self._layout.unit_of[name].number
                found[unit] = (*found.get(unit, ()), name)
        return found

    def _through(
        self,
        shares: dict[tuple[int, int], Share],
        rows: range,
        *,
        after: str | None = None,
        inject: InjectOutputs | None = None,
        asked: Sequence[Report] = (),
        flight: Flight | None = None,
    ) -> None:
        """Run an epoch through all levels, and commit it.

        One that is in `flight` is only awaited, unless it fails. `after` is the operator
        that has finished, if its last outputs are to `inject`.
        """
        tried: list[EpochTask] = []

        def go(until: tuple[int, ...] | None = None) -> list[Row]:
            self._flights.clear()  # they follow another try
            process = ProcessRows(rows, self._begun, self._cuts(), until)
            task = self._task(inject or process)
            tried.append(self._prepare(task))
            return self._levels(tried[-1], shares)

        given = None if flight is None else self._await(flight)
        if given is None or flight is None:
            given = self._retry(go)
        else:
            tried.append(flight.task)
        self._tasks.refuse_if_abandoned()
        self.result_bytes = sum(len(payload) for *_, payload in given)
        told = self._load(given)
        self._refuse_refuted(told)
        try:
            ran = _without_errors(told)
        except AnabranchError as error:
            if after is not None:
                raise
            found = self._find_first(error, go)
            raise found from found.__cause__
        self._refuse_missing(ran, tried[-1].cuts)
        self.reports = reports = [*asked, *ran]
        units = self._layout.units
        began = having(ran, "begun")
        self._begun = {units[r.unit].name: r.begun for r in began if r.begun}
        self.profiled = tried[-1].profiling
        self._base = Stamp(self._base.epoch + 1, tried[-1].attempt.turn)
        with pause_collection():
            self._versions = self._with_new_versions(ran)
        self._shared = find_latest(self._shared, ran)
        sunk = self._collect_sinks(given)
        done = FinishedEpoch(
            self._base,
            reports,
            sunk,
            after if self._finishing is None else None,
            self._ended,
            self._begun,
            self._buckets,
            {
                name: self.runner.pickler.dumps_state(s)
                for name, s in self._shared.items()
            },
            self._finishing if after is not None else None,
        )
        began_s = time.monotonic()
        self._snapshots = self._committer.commit(done)
        self.commit_s = time.monotonic() - began_s

    def deliver(self, stamp: Stamp, files: FilesOfSinks) -> dict[str, Delivered]:
        """Have tasks deliver the items of an epoch to external sinks.

        Epochs in flight go on meanwhile. If a process is lost, or another one has taken
        over a sink, it is tried again, unless another run has the checkpoint: the sinks
        know which epochs they have.
        """
        for tries in range(TRIES):
            task = self._make_delivery(stamp, files, again=tries > 0)
            try:
                reports = self._reports(self._run_delivery(task))
            except Exception as error:
                self._committer.refuse_other_run()
                lost = isinstance(error, FencedError) or is_loss(error)
                if self._tasks.cancelled or not lost or tries == TRIES - 1:
                    raise
            else:
                break
        self._deliveries.note(stamp, files)
        return {
            sink: Delivered(accepted, report.failures)
            for report in reports
            for sink, accepted in report.written.items()
        }

    def _make_delivery(
        self, stamp: Stamp, files: FilesOfSinks, *, again: bool
    ) -> EpochTask:
        """Return the task that delivers an epoch: one replica of a unit per sink."""
        units = [unit for unit in self._layout.units if not unit.in_driver]
        unit = min(units, key=lambda one: len(self._layout.levels[one.level]))
        channels = [1] * len(self._layout.units)
        channels[unit.number] = len(files)
        self._turn += 1
        known = self._deliveries
        return EpochTask(
            TaskStage(range(unit.level, unit.level + 1), tuple(channels)),
            EpochAttempt(Stamp(stamp.epoch - 1, 0), self._turn),
            DeliverItems(
                stamp, unit.number, files, dict(known.last), known.done, again
            ),
        )

    def _run_delivery(self, task: EpochTask) -> list[Row]:
        """Run a delivery in a resident task, or else as a Spark job."""
        oldest = self._flights[0].run if self._flights else None
        rows = self._residence.deliver(task, behind=oldest)
        if rows is not None:
            return rows
        self._residence.leave()  # it may need its slots
        levels = task.stage.levels
        shapes, tasks = self._stages_of([levels], task, {})
        self._tasks.describe(_name_step(task), _name_sinks(task))
        return _rows(self._plans.collect(self.session, shapes, tasks))

    def _await(self, flight: Flight) -> list[Row] | None:
        """Return the rows of a running epoch; None if it has to run again."""
        self._tasks.note(flight.division.stages, flight.task.attempt)
        try:
            rows = self._residence.collect(flight.run)
        except LostError:
            if self._tasks.cancelled:
                raise
            return None
        failed = any(report.error is not None for report in self._load(rows))
        return None if failed else rows

    def _refuse_refuted(self, reports: Sequence[Report]) -> None:
        """Raise `RefutedError` if the epoch has refuted a verdict; nothing is
        committed.

        Changes in this process were made by a sink, or outside the program, or by
        repeating here what a worker has computed.
        """
        refuting = having(reports, "refuted")
        found = {one.operator: one for report in refuting for one in report.refuted}
        told = [o for report in having(reports, "rehearsed") for o in report.rehearsed]
        samples = [one for one in told if one.operator not in found]
        repeated = self._verifier.repeat(samples)
        here = self._verifier.find()
        if repeated != self._verifier.repeat(samples):  # it has a state in this process
            here = here or repeated
        found |= {one.operator: one for one in repeated}
        self.refuted = () if here else tuple(found.values())
        for one in (*here, *self.refuted):
            raise one.error()

    def find_sharing(self, found: Refutation) -> tuple[str, ...]:
        """Return the operators that can reach what has changed."""
        return self._verifier.find_sharing(found.what)

    def _find_first(
        self, error: AnabranchError, go: Callable[[tuple[int, ...]], list[Row]]
    ) -> AnabranchError:
        """Return the failure that a single thread would have met first, in a failed
        epoch.

        Tasks fail concurrently, and a failed task passes nothing on, so an earlier item
        may fail further on. The epoch runs again up to the failure, until nothing fails
        before it; driver sinks then get what precedes it. Nothing is repeated if units
        ran in the driver: that would be visible.
        """
        while error.place is not None and not self.in_driver_too:
            until = error.place
            rows = self._retry(lambda: go(until))  # noqa: B023 - called at once
            try:
                reports = self._reports(rows)
            except AnabranchError as earlier:
                if earlier.place is None or earlier.place >= until:
                    return earlier
                error = earlier
                continue
            stamp = Stamp(self._base.epoch + 1, self._turn)
            sunk = self._collect_sinks(rows)
            self._committer.deliver_before_failure(stamp, reports, sunk)
            break
        return error

    def _refuse_missing(
        self, reports: Sequence[Report], cuts: Mapping[int, Sequence[str]]
    ) -> None:
        """Refuse an epoch unless each task has reported once, or once per part."""
        expected = self._list_places(self._division)
        found = [(report.unit, report.channel) for report in reports]  # sorted
        if found == expected:
            return
        counts = Counter(found)
        if sorted(counts) == expected and all(
            count <= 1 + len(cuts.get(unit, ())) for (unit, _), count in counts.items()
        ):
            return
        msg = (
            f"each task must report once; of {expected} (unit, replica) the "
            f"reports were {dict(counts)}; this is a fault of Anabranch, please report it"
        )
        raise EngineError(msg)

    def _list_places(self, division: Division) -> list[tuple[int, int]]:
        """Return the unit and replica of each task, sorted."""
        if self._places is None or self._places[0] != division:
            places = sorted(
                (unit.number, channel)
                for levels in division.stages
                for together in self._layout.together(levels)
                for unit in together
                for channel in range(division.channels[together[0].number])
            )
            self._places = division, places
        return self._places[1]

    def _with_new_versions(self, reports: Sequence[Report]) -> VersionsOf:
        """Return the versions of buckets, updated from the reports."""
        made: dict[int, list[tuple[Ranges, Stamp]]] = {}
        for report in having(reports, "changed"):
            made.setdefault(report.unit, []).append((report.changed, report.stamp))
        versions = dict(self._versions)
        for number, some in made.items():
            unit = self._layout.units[number]
            before = versions.get(unit.name)
            if before is None:
                before = Versions.none(self._buckets if unit.key else 1)
            versions[unit.name] = before.with_new(some)
        return versions

    def _retry(self, run: Callable[[], list[Row]]) -> list[Row]:
        """Run something again if a process it needs was lost meanwhile."""
        for _ in range(TRIES - 1):
            try:
                return run()
            except Exception as error:
                # The effects of a unit in the driver cannot be undone; and cancelled
                # workers are not lost.
                if self.in_driver_too or self._tasks.cancelled or not is_loss(error):
                    raise
        return run()

    @property
    def in_driver_too(self) -> bool:
        """Whether the driver runs units too, which cannot run again."""
        return any(unit.in_driver for unit in self._layout.units)

    def _levels(
        self, task: EpochTask, shares: dict[tuple[int, int], Share]
    ) -> list[Row]:
        """Run one try of an epoch through all levels."""
        rows: list[Row] = []
        stages = self._division.stages
        for in_driver, some in itertools.groupby(stages, self._is_in_driver):
            part = list(some)
            if in_driver:
                for levels in part:
                    rows = self._in_driver(_at(task, levels), shares, rows)
            else:
                levels = range(part[0].start, part[-1].stop)
                later = [row for row in rows if not self._is_at(row, levels)]
                rows = later + self._job(part, task, self._hand_out(shares, rows))
        return rows

    def _is_in_driver(self, levels: range) -> bool:
        return self._layout.levels[levels[0]][0].in_driver

    def _hand_out(
        self, shares: dict[tuple[int, int], Share], rows: list[Row]
    ) -> dict[tuple[int, int], Share]:
        """Return the shares of tasks, with the driver's rows for them."""
        handed = dict(shares)
        for unit, channel, entry, payload in rows:
            if unit >= 0:
                share = handed.get((unit, channel), Share())
                blobs = (*share.blobs, (entry, payload))
                handed[unit, channel] = replace(share, blobs=blobs)
        return handed

    def _job(
        self,
        stages: Sequence[range],
        task: EpochTask,
        shares: dict[tuple[int, int], Share],
    ) -> list[Row]:
        """Run some stages as one Spark job and return their output rows."""
        self._tasks.note(stages, task.attempt)
        shapes, tasks = self._stages_of(stages, task, shares)
        rows = self._residence.run(tasks, shares, self._row_work)
        if rows is not None:
            return rows
        self._residence.leave()  # it may need its slots
        self._tasks.describe_stages(_name_step(task))
        spark = self._row_by_row if task.cuts else self.session
        return _rows(self._plans.collect(spark, shapes, tasks))

    def _stages_of(
        self,
        stages: Sequence[range],
        task: EpochTask,
        shares: dict[tuple[int, int], Share],
    ) -> tuple[list[StageShape], list[EpochTask]]:
        """Return the task of each stage, and its shape for Spark."""
        shapes, tasks = [], []
        for levels, then in itertools.zip_longest(stages, stages[1:], fillvalue=NONE):
            units = {u.number for level in levels for u in self._layout.levels[level]}
            own = {place: share for place, share in shares.items() if place[0] in units}
            versions = {
                name: found
                for name, found in task.attempt.versions.items()
                if name in {self._layout.units[number].name for number in units}
            }
            attempt = replace(task.attempt, versions=versions)
            stage = replace(task.stage, levels=levels, then=then)
            tasks.append(replace(task, stage=stage, attempt=attempt, shares=own))
            together = self._layout.together(levels)
            count = sum(task.stage.channels[some[0].number] for some in together)
            cuts = max(len(task.cuts.get(number, ())) for number in units)
            name = ", ".join(
                self._layout.units[number].name for number in sorted(units)
            )
            shapes.append(StageShape(count, 1 + cuts, name))
        return shapes, tasks

    @cached_property
    def _row_by_row(self) -> SparkSession:
        return row_by_row(self.session)

    def _in_driver(
        self,
        task: EpochTask,
        shares: dict[tuple[int, int], Share],
        rows: list[Row],
    ) -> list[Row]:
        """Run the units of a level in this process."""
        task = replace(task, shares=self._hand_out(shares, rows))
        passed = [row for row in rows if not self._is_at(row, task.stage.levels)]
        for ((unit, channel),) in task.stage.places(self._layout, task.stage.levels):
            match task.mode:
                case FinishOperators(some) if not {*some}.intersection(unit.operators):
                    continue
            out = TaskRows()
            self.runner.run_unit(task, (unit, channel), out)
            passed += out.list_blobs()
        return passed

    def _is_at(self, row: Row, levels: range) -> bool:
        """Tell whether a row is for a unit on one of these levels."""
        return row[0] >= 0 and self._layout.units[row[0]].level in levels

    def _reports(self, rows: list[Row]) -> list[Report]:
        return _without_errors(self._load(rows))

    def _load(self, rows: list[Row]) -> list[Report]:
        pickler = self.runner.pickler
        with pause_collection():
            reports = [
                load_report(payload, pickler)
                for unit, _, _, payload in rows
                if unit == REPORT
            ]
        return sorted(reports, key=attrgetter("unit", "channel"))

    def _collect_sinks(self, rows: list[Row]) -> dict[str, list[Any]]:
        """Return the items of driver sinks, in order unless a sink takes any."""
        graph, pickler = self._layout.graph, self.runner.pickler
        found: dict[str, list[Any]] = {}
        for unit, _, entry, payload in rows:
            if unit == TO_DRIVER:
                found.setdefault(graph.names[entry], []).append(payload)
        sunk = {}
        for sink, blobs in found.items():
            kind = graph[graph[sink].inputs[0].operator].type
            form = None if kind is None else form_of(kind)
            batches = [decode(pa.py_buffer(blob), form, pickler) for blob in blobs]
            join = end_to_end if is_unordered(graph[sink]) else in_order
            sunk[sink] = join(batches).items
        return sunk


def find_latest(before: Mapping[str, Any], reports: Iterable[Report]) -> dict[str, Any]:
    """Return the shared state of replicas, as the last of them has seen it.

    A replica of a range does not see what comes after its range.

    >>> first, last = ({"clock": ("number", [n])} for n in (5, 7))
    >>> find_latest({}, [Report(0, 1, shared=last), Report(0, 0, shared=first)])
    {'clock': ('number', [7])}
    >>> find_latest({"clock": (None, [None])}, [Report(0, 0, shared={"clock": ("date", [None])})])
    {'clock': ('date', [None])}
    """
    latest = dict(before)
    for report in having(reports, "shared"):
        for name, found in report.shared.items():
            if name not in latest or _count(found) > _count(latest[name]):
                latest[name] = found
    return latest


def _count(shared: tuple[Any, Sequence[Any]]) -> list[tuple[bool, Any]]:
    """Return the progress of clocks; one that has not begun precedes all others.

    The time scale may be known before any clock has begun.
    """
    scale, clocks = shared
    known = (scale is not None, None)
    return [known, *((clock is not None, clock) for clock in clocks)]


def _rise(seconds: float, more: int, usual_s: float) -> float:
    """Return the marginal cost of `more` units, within bounds.

    >>> _rise(0.006, 3, usual_s=0.03), _rise(0.0, 0, usual_s=0.03)
    (0.002, 0.03)
    """
    return min(max(seconds / more, LEAST_S), usual_s) if more else usual_s


def deal_out(pieces: Sequence[Piece], channels: int) -> dict[int, list[Piece]]:
    """Return the pieces of each replica: of its rows, and of those to survey.

    >>> rows = [Piece("in", first, 10) for first in (1, 11)]
    >>> surveys = [SurveyPiece("in", 1, 0, "in.csv", 0, 64, 64)]
    >>> dealt = deal_out([*rows, *surveys], 2)
    >>> [[piece.first for piece in dealt[n]] for n in range(2)]
    [[1, 1], [11]]
    """
    dealt: dict[int, list[Piece]] = {}
    surveys = [piece for piece in pieces if isinstance(piece, SurveyPiece)]
    rows = [piece for piece in pieces if not isinstance(piece, SurveyPiece)]
    for some in (rows, surveys):
        for index, piece in enumerate(some):
            dealt.setdefault(index * channels // len(some), []).append(piece)
    return dealt


def _count_rows(pieces: Mapping[str, list[Piece]]) -> int:
    return sum(piece.rows for parts in pieces.values() for piece in parts)


def _find_range(pieces: Mapping[str, list[Piece]]) -> range:
    """Return the row numbers of an epoch."""
    taken = list(itertools.chain.from_iterable(pieces.values()))
    first = min(piece.first for piece in taken)
    return range(first, max(piece.first + piece.rows for piece in taken))


def run_shipped(job: str, shipped: Broadcast[bytes]) -> Run:
    """Return the function that runs the tasks of a job in a worker."""

    def run(
        task: EpochTask, batches: Iterable[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        return run_task(job, shipped, task, batches)

    return run


def _name_step(task: EpochTask) -> str:
    """Return the name of a Spark job's step, for Spark's pages."""
    match task.mode:
        case WarmUp():
            return "warm-up"
        case ProcessRows():
            return f"epoch {task.attempt.epoch}"
        case DeliverItems():
            return f"delivery of epoch {task.attempt.epoch}"
    return f"epoch {task.attempt.epoch}, end of the stream"


def _name_sinks(task: EpochTask) -> list[str]:
    """Return the sinks that a task delivers to."""
    return list(task.mode.files) if isinstance(task.mode, DeliverItems) else []


def _at(task: EpochTask, levels: range) -> EpochTask:
    """Return a task as units on other levels get it."""
    return replace(task, stage=replace(task.stage, levels=levels))


def _rows(table: pa.Table) -> list[Row]:
    columns = (table.column(name) for name in ("unit", "channel", "entry", "payload"))
    with pause_collection():
        return list(zip(*(one.to_numpy().tolist() for one in columns), strict=True))


def _without_errors(reports: list[Report]) -> list[Report]:
    """Return reports; raise the first error in them, by place."""
    failed = [(r.error, r.cause) for r in reports if r.error is not None]
    if failed:
        error, cause = min(failed, key=lambda one: _place_of(one[0]))
        raise error from cause
    return reports


def _place_of(error: BaseException) -> tuple[tuple[float, ...], bytes]:
    if not isinstance(error, AnabranchError):
        return (math.inf,), b""
    return (math.inf,) if error.place is None else error.place, error.rank


def _may_finish(layout: SparkLayout, name: str) -> bool:
    op = layout.graph[name]
    return bool(op.inputs) and kernel_of(op).finishes
