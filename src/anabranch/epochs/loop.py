"""The epoch loop: makes the tasks of each epoch, has them run, and commits it.

It knows the states and their versions, but neither the cluster that runs the tasks nor
where items come from or go to.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from anabranch.epochs.checkpoint.record import IncompleteGroup, Record
from anabranch.epochs.cluster import Backend, Cluster
from anabranch.epochs.commit import Committer, FinishedEpoch
from anabranch.epochs.division import Divider, Division, KeyTables
from anabranch.epochs.epoch_stages import DeliveryTasks, EpochStages, raise_first
from anabranch.epochs.intake.intake import Piece, SurveyPiece
from anabranch.epochs.layout import why_not_overlap
from anabranch.epochs.resident.link import LostError
from anabranch.epochs.shuffle import Row
from anabranch.epochs.state.buckets import EMPTY, Ranges, Stamp, Versions, VersionsOf
from anabranch.epochs.state.states import BUCKETS, fit_buckets
from anabranch.epochs.task import (
    EpochAttempt,
    EpochTask,
    FinishOperators,
    InjectOutputs,
    Mode,
    ProcessRows,
    Report,
    Share,
    Shares,
    Spec,
    TaskStage,
    WarmUp,
    having,
    pause_collection,
)
from anabranch.epochs.task_runner import Runner
from anabranch.epochs.transport.module_contents import Variable
from anabranch.epochs.transport.pickle import Originals, PickledNames
from anabranch.epochs.transport.ship import pack
from anabranch.errors import AnabranchError
from anabranch.operators.clock import IdlePorts
from anabranch.runtime.positions import END
from anabranch.runtime.verify.verifier import Refutation, Verifier

Tell = Callable[[str, str, str], object]  # what is done, why, and the effect


@dataclass(frozen=True)
class Flight:
    """An epoch running in resident tasks, beside earlier ones."""

    run: int
    task: EpochTask
    division: Division
    pieces: Mapping[str, list[Piece]]


@dataclass
class Ending:
    """How far the end of the stream has come; see `Record`."""

    finished: set[str] = field(default_factory=set)  # operators
    finishing: tuple[str, str] | None = None
    ended: int = END  # the number of the next last output

    @property
    def has_begun(self) -> bool:
        """Whether operators have given last outputs; no rows may follow them."""
        return bool(self.finished or self.finishing)


class Epochs:
    """Runs epochs on a cluster; `names` are those of the packed `spec`."""

    def __init__(
        self,
        cluster: Cluster,
        spec: Spec,
        names: PickledNames,
        degree: int,
        committer: Committer,
        *,
        buckets: int = BUCKETS,
    ) -> None:
        self.cluster = cluster
        self.layout = layout = spec.layout
        self.divider = Divider(layout, degree, lambda: cluster.cores)
        self.ending = Ending()
        self.profiling = False
        self.profiled = False  # whether the last epoch was
        self.commit_s = 0.0  # duration of the last commit
        self.reports: Sequence[Report] = ()  # of the last epoch
        self.result_bytes = 0  # bytes that the driver received
        self.refuted: tuple[Refutation, ...] = ()  # by the last epoch
        self.begun: Mapping[str, IncompleteGroup] = {}
        self.idle: IdlePorts = {}  # in the epoch that runs
        self.tell: Tell = lambda *_: None  # is told about keys that move, and why
        in_driver = any(unit.in_driver for unit in layout.units)
        originals = Originals.of_driver() if in_driver else None
        self.runner = Runner(spec, names, originals)
        self._stages = EpochStages(cluster, layout, self.runner)
        self._verifier = Verifier(layout.graph, spec.verdicts, spec.verify)
        self._verifier.watch()
        self._committer = committer
        committer.carry = DeliveryTasks(
            self._stages,
            committer.refuse_other_run,
            self._next_turn,
            self._find_oldest_run,
        ).deliver
        self._base = EMPTY
        self._turn = 0
        self._tried: EpochTask | None = None  # the last try of an epoch
        self._versions: VersionsOf = {}  # of buckets
        self._flights: deque[Flight] = deque()  # epochs that have begun, oldest first
        self._snapshots: frozenset[tuple[str, int]] = frozenset()
        self._buckets = buckets  # of keys; a checkpoint keeps its own number
        self._shared: Mapping[str, Any] = {}  # by operator
        self._key_tables = KeyTables(layout)

    def close(self) -> None:
        """Release the resident workers of this program."""
        self.cluster.leave()

    @property
    def stamp(self) -> Stamp:
        """The last committed epoch and its turn."""
        return self._base

    @property
    def channels(self) -> Mapping[str, int]:
        """The number of replicas of each operator in this epoch, or in the last."""
        channels = self.divider.division.channels
        units = self.layout.unit_of
        return {name: channels[unit.number] for name, unit in units.items()}

    @property
    def in_driver_too(self) -> bool:
        """Whether the driver runs units too, which cannot run again."""
        return self._stages.in_driver_too

    def find_hot_keys(self) -> dict[str, tuple[str, ...]]:
        """Return the hot keys, by region."""
        return self._key_tables.find_hot_keys()

    def resume(self, record: Record | None, turn: int) -> None:
        """Resume from a checkpoint's record; turns are numbered from `turn` on."""
        self._turn = turn
        if record is not None:
            self._base = record.stamp
            self._versions = record.versions
            ended = END if record.ended is None else record.ended
            self.ending = Ending(set(record.finished), record.finishing, ended)
            self.begun = record.begun
            self._shared = {
                name: self.runner.pickler.loads(shared)
                for name, shared in record.shared.items()
            }
            self._buckets = record.buckets

    def take_over(self, other: Epochs) -> None:
        """Continue after the last commit of epochs with another layout."""
        self.divider.follow(other.divider)
        self.profiling, self.tell = other.profiling, other.tell
        self._base, self._turn = other._base, other._turn
        self.ending.ended = other.ending.ended
        self._buckets = other._buckets
        self._shared, self.idle = other._shared, other.idle

    def begin_anew(self) -> None:
        """Forget all states: another run of the program follows."""
        self._versions, self.begun, self._shared = {}, {}, {}
        self.ending = Ending()

    @property
    def why_not_again(self) -> str | None:
        """Why the last epoch cannot run again with another layout, or None."""
        if self.in_driver_too:
            return "what the driver has run of this epoch cannot be taken back"
        changed = any(one.has_any for one in self._versions.values())
        if changed or self.begun or self.ending.finished:
            return "states of earlier epochs would have to move"
        return None

    def warm_up(self) -> tuple[Variable, ...]:
        """Start the workers and load the program, before any data comes.

        Return the variables of modules that are not the same there.
        """
        try:
            reports = self._run_empty()
        except Exception as error:
            described = self.cluster.describe_start(error)
            if described is not None:
                raise described from None
            raise
        if self.cluster.stays and not self.divider.exactly:  # else there is no choice
            self.divider.measure_costs(self._run_empty)
        return tuple({name: None for one in reports for name in one.differing})

    def _run_empty(self, division: Division | None = None) -> Sequence[Report]:
        """Run an epoch without rows, under a division if one is given."""
        if division is not None:
            self.divider.division = division
        stages = self._stages
        there = [
            levels
            for levels in self.divider.division.stages
            if not stages.is_in_driver(levels)
        ]
        work = self.divider.row_work
        if not there:
            return ()
        given = stages.retry(
            lambda: stages.run_there(there, self._make_task(WarmUp()), {}, work)
        )
        return stages.load_reports(given)

    @cached_property
    def why_not_overlap(self) -> str | None:
        """Why epochs cannot overlap, or None."""
        return why_not_overlap(self.layout)

    @property
    def in_flight(self) -> int:
        """The number of epochs begun and not over."""
        return len(self._flights)

    def _find_oldest_run(self) -> int | None:
        return self._flights[0].run if self._flights else None

    def begin(self, pieces: Mapping[str, list[Piece]]) -> bool:
        """Begin an epoch beside running ones, if possible; tell whether it has begun.

        It is over when `run` has reached it. Its tasks begin with the states made by
        the epochs before it, so all have the same division.
        """
        if self.why_not_overlap is not None:
            return False
        if self._has_to_see_one():
            return False
        division = self.divider.divide(_count_rows(pieces))
        if not self._flights:
            self.divider.division = division
            self._fit_buckets()
        elif (
            division != self._flights[-1].division
            or self._count_buckets() != self._buckets
        ):
            return False
        mode = ProcessRows(_find_range(pieces), cuts=self.divider.find_cuts())
        task = self._prepare(self._make_task(mode))
        if self._flights:
            last = self._flights[-1].task
            if (task.stage, task.cuts) != (last.stage, last.cuts):
                return False
        shares = self._share_out(pieces)
        _, tasks = self._stages.prepare(division.stages, task, shares)
        work, oldest = self.divider.row_work, self._find_oldest_run()
        try:
            run = self.cluster.begin(tasks, shares, work, behind=oldest)
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
        if self.divider.sparing and not self.divider.row_work:
            return True
        return self.look_items is not None

    @property
    def look_items(self) -> int | None:
        """The items of an epoch that shows which keys are hot; None if that is known."""
        return self._key_tables.find_look(self.divider.division.channels)

    def is_done(self) -> bool:
        """Tell whether the oldest running epoch waits for its commit."""
        return not self._flights or self.cluster.is_done(self._flights[0].run)

    def run(self, pieces: Mapping[str, list[Piece]]) -> None:
        """Run the rows of one epoch through the program, and commit it."""
        flight = self._find_flight(pieces)
        rows = _count_rows(pieces)
        if flight is None:
            self.divider.division = self.divider.divide(rows)
            self._fit_buckets()
        else:
            self.divider.division = flight.division
        tables = self._tables()
        with pause_collection():
            shares = self._share_out(pieces)
        self._run_rows(shares, _find_range(pieces), flight)
        self.divider.note(rows, self.reports)
        if flight is not None and flight.task.stage.tables != tables:
            return  # keys have moved since it began
        for uneven in self._key_tables.note(
            self.divider.division.channels, self._buckets, self.reports
        ):
            self.tell(*uneven.describe())

    def find_homes(self) -> dict[tuple[int, int], int]:
        """Return the resident process of each replica of a unit, by number."""
        return self.cluster.find_homes()

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
            unit = self.layout.unit_of[source]
            channels = self.divider.division.channels[unit.number]
            for channel, some in deal_out(parts, channels).items():
                place = unit.number, channel
                before = shares[place].pieces if place in shares else ()
                shares[place] = Share((*before, *some))
        return shares

    def _fit_buckets(self) -> None:
        """Split the buckets of keys further if this epoch has many replicas.

        A half begins with the version of the bucket it was split from.
        """
        buckets = self._count_buckets()
        if buckets == self._buckets:
            return
        divided = {unit.name for unit in self.layout.units if unit.key}
        self._versions = {
            unit: versions.divide(buckets) if unit in divided else versions
            for unit, versions in self._versions.items()
        }
        self._buckets = buckets
        self._snapshots = frozenset()  # chosen for buckets that no longer exist

    def _count_buckets(self) -> int:
        """Return the number of buckets of keys there should be."""
        channels = self.divider.division.channels
        keyed = [channels[unit.number] for unit in self.layout.units if unit.key]
        fitting = fit_buckets(self._buckets, max(keyed, default=1))
        return max(fitting, self._key_tables.buckets)

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn

    def _make_task(self, mode: Mode) -> EpochTask:
        """Return the task of a new try of the next epoch."""
        return EpochTask(
            TaskStage(
                self.divider.division.stages[0],
                self.divider.division.channels,
                buckets=self._buckets,
                tables=self._tables(),
                watched=self._key_tables.watched,
            ),
            EpochAttempt(
                self._base,
                self._next_turn(),
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
        return self._key_tables.of(self.divider.division.channels, self._buckets)

    def _prepare(self, task: EpochTask) -> EpochTask:
        """Prepare the directories for an epoch's parts."""
        directory = self._committer.begin(task.attempt.stamp)
        return replace(task, attempt=replace(task.attempt, parts_directory=directory))

    def ask(self, mode: FinishOperators) -> list[Report]:
        """Ask operators for their last outputs; return the reports of their tasks."""
        units = [self.layout.unit_of[name] for name in mode.operators]
        levels = sorted({unit.level for unit in units})
        here = range(levels[0], levels[-1] + 1)

        def ask() -> list[Row]:
            self._flights.clear()
            task = self._make_task(mode)
            if units[0].in_driver:
                task = replace(task, stage=replace(task.stage, levels=here))
                return self._stages.run_here(task, {}, [])
            stages = [range(level, level + 1) for level in here]
            work = self.divider.row_work
            return self._stages.run_there(stages, task, {}, work)

        reports = self._stages.load_reports(self._stages.retry(ask))
        self._refuse_refuted(reports)
        return reports

    def inject(
        self,
        mode: InjectOutputs,
        shares: Shares,
        asked: Sequence[Report],
        after: str,
    ) -> None:
        """Run the last outputs of an operator through the rest, and commit them.

        `asked` are the reports that have brought them, and `after` is the operator that
        has finished with them.
        """
        given = self._stages.retry(lambda: self._try(mode, shares))
        self._commit(given, raise_first(self._receive(given)), asked, after)

    def _run_rows(self, shares: Shares, rows: range, flight: Flight | None) -> None:
        """Run an epoch through all levels; one in flight is awaited, unless it fails."""

        def go(until: tuple[int, ...] | None = None) -> list[Row]:
            cuts = self.divider.find_cuts()
            return self._try(ProcessRows(rows, self.begun, cuts, until), shares)

        given = None if flight is None else self._await(flight)
        if given is None:
            given = self._stages.retry(go)
        told = self._receive(given)
        try:
            reports = raise_first(told)
        except AnabranchError as error:
            found = self._find_first(error, go)
            raise found from found.__cause__
        self._commit(given, reports)

    def _try(self, mode: Mode, shares: Shares) -> list[Row]:
        """Run a try of the next epoch; return the rows for the driver."""
        self._flights.clear()  # they follow another try
        self._tried = task = self._prepare(self._make_task(mode))
        stages, work = self.divider.division.stages, self.divider.row_work
        return self._stages.run_all(stages, task, shares, work)

    def _await(self, flight: Flight) -> list[Row] | None:
        """Return the rows of a running epoch; None if it has to run again."""
        self.cluster.note(flight.division.stages, flight.task.attempt)
        try:
            rows = self.cluster.collect(flight.run)
        except LostError:
            if self.cluster.cancelled:
                raise
            return None
        if any(report.error is not None for report in self._stages.load_reports(rows)):
            return None
        self._tried = flight.task
        return rows

    def _receive(self, given: list[Row]) -> list[Report]:
        """Return the reports of an epoch that has run, unless it is to be refused."""
        self.cluster.refuse_if_abandoned()
        self.result_bytes = sum(len(payload) for *_, payload in given)
        reports = self._stages.load_reports(given)
        self._refuse_refuted(reports)
        return reports

    def _commit(
        self,
        given: list[Row],
        ran: list[Report],
        asked: Sequence[Report] = (),
        after: str | None = None,
    ) -> None:
        """Commit an epoch; `after` is the operator whose last outputs it has."""
        task = self._tried
        assert task is not None  # noqa: S101 - it has run
        self._stages.refuse_missing(self.divider.division, ran, task.cuts)
        self.reports = [*asked, *ran]
        units = self.layout.units
        began = having(ran, "begun")
        self.begun = {units[r.unit].name: r.begun for r in began if r.begun}
        self.profiled = task.profiling
        self._base = Stamp(self._base.epoch + 1, task.attempt.turn)
        with pause_collection():
            self._versions = self._with_new_versions(ran)
        self._shared = find_latest(self._shared, ran)
        dumps, finishing = self.runner.pickler.dumps_state, self.ending.finishing
        done = FinishedEpoch(
            self._base,
            self.reports,
            self._stages.collect_sinks(given),
            after if finishing is None else None,
            self.ending.ended,
            self.begun,
            self._buckets,
            {name: dumps(shared) for name, shared in self._shared.items()},
            finishing if after is not None else None,
        )
        began_s = time.monotonic()
        self._snapshots = self._committer.commit(done)
        self.commit_s = time.monotonic() - began_s

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
        """Return the operators that can reach the changed object."""
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
            rows = self._stages.retry(lambda: go(until))  # noqa: B023 - called at once
            try:
                reports = raise_first(self._stages.load_reports(rows))
            except AnabranchError as earlier:
                if earlier.place is None or earlier.place >= until:
                    return earlier
                error = earlier
                continue
            stamp = Stamp(self._base.epoch + 1, self._turn)
            sunk = self._stages.collect_sinks(rows)
            failed = error.operator
            self._committer.deliver_before_failure(stamp, reports, sunk, failed)
            break
        return error

    def _with_new_versions(self, reports: Sequence[Report]) -> VersionsOf:
        """Return the versions of buckets, updated from the reports."""
        made: dict[int, list[tuple[Ranges, Stamp]]] = {}
        for report in having(reports, "changed"):
            made.setdefault(report.unit, []).append((report.changed, report.stamp))
        versions = dict(self._versions)
        for number, some in made.items():
            unit = self.layout.units[number]
            before = versions.get(unit.name)
            if before is None:
                before = Versions.none(self._buckets if unit.key else 1)
            versions[unit.name] = before.with_new(some)
        return versions


def open_epochs(
    backend: Backend,
    spec: Spec,
    degree: int,
    committer: Committer,
    *,
    buckets: int = BUCKETS,
    in_round: bool = False,
) -> Epochs:
    """Return the epochs of a job, or those `in_round` of an `iterate` within it."""
    shipped, names = pack(spec)
    cluster = backend.open_cluster(spec, shipped, in_round=in_round)
    return Epochs(cluster, spec, names, degree, committer, buckets=buckets)


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
