"""Commits epochs: what each has done, recorded in an order that survives kills.

A finished epoch is committed (one record, and it has happened), its parts are
published, and then sinks get their items: those in the driver from it, external ones
from tasks that read the files of other tasks. A run that finds the records of a killed
one first completes its last epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

from anabranch.connectors.external import NONE_YET
from anabranch.connectors.storage import Location
from anabranch.epochs.checkpoint.directory import Checkpoint, Place, Upkeep
from anabranch.epochs.checkpoint.record import (
    FEWEST_BUCKETS,
    IncompleteGroup,
    Log,
    PartSum,
    Record,
    Snapshot,
    tidy,
)
from anabranch.epochs.checkpoint.seal import describe_damage
from anabranch.epochs.faults import reach
from anabranch.epochs.intake.connectors import latest
from anabranch.epochs.intake.intake import Reached
from anabranch.epochs.item_files import (
    Delivered,
    locate_refused,
    read_items,
    read_refused,
    write_refused,
)
from anabranch.epochs.outputs import EpochOutputs, stage_of
from anabranch.epochs.state.buckets import Stamp
from anabranch.epochs.task import Report, WrittenPart, having, pause_collection
from anabranch.epochs.transport.pickle import PickledNames, Pickler
from anabranch.epochs.transport.program_modules import find_used
from anabranch.epochs.unit.egress import name_published_part
from anabranch.errors import CheckpointError
from anabranch.graph.graph import Graph
from anabranch.operators.sinks import WriteSink
from anabranch.runtime.failures import Failure, OnError, stop

_MANY = 1024  # files of state in a record


@dataclass(frozen=True)
class FinishedEpoch:
    """A finished epoch: its tasks' reports, and items for driver sinks.

    `finished` is the operator whose last outputs it carried, if any (`finishing`, if it
    carried some of them), and `ended` the number for the next such outputs. `begun` are
    the incomplete groups, by unit, and `buckets` the number of buckets. `shared` is what all replicas of an operator see
    alike, pickled.
    """

    stamp: Stamp
    reports: list[Report]
    sunk: dict[str, list[Any]]
    finished: str | None
    ended: int
    begun: Mapping[str, IncompleteGroup] = field(default_factory=dict)
    buckets: int = FEWEST_BUCKETS
    shared: Mapping[str, bytes] = field(default_factory=dict)
    finishing: tuple[str, str] | None = None


FilesOfSinks: TypeAlias = Mapping[str, tuple[WrittenPart, ...]]
Carry: TypeAlias = Callable[[Stamp, FilesOfSinks], Mapping[str, Delivered]]


@dataclass(frozen=True)
class WaitingItems:
    """What a killed run's last epoch has for sinks: failures, items, files of items.

    If `noted`, a file says for each external sink what it has refused.
    """

    failures: list[Failure]
    sunk: dict[str, list[Any]]
    files: FilesOfSinks
    noted: bool


class Committer:
    """Commits, publishes and delivers epochs; without a checkpoint there is less to do.

    `positions` has each source's position behind the current epoch. `carry` has tasks
    deliver the items of an epoch that are in files.
    """

    def __init__(
        self,
        graph: Graph,
        on_error: OnError,
        outputs: EpochOutputs,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._on_error = on_error
        self._outputs = outputs
        self._checkpoint = checkpoint
        self._upkeep = Upkeep()
        self._untidy = 0  # logs since the record was last tidied
        numbers = None if checkpoint is None else checkpoint.type_numbers
        names = PickledNames(own=True, reads=find_used(graph))
        self._pickler = Pickler(graph, names, lasting=True, numbers=numbers)
        self.read = {op.name: 0 for op in graph.sources}
        self.positions: dict[str, Any] = {}
        self.not_read: list[Failure] = []  # unreadable rows in the current epoch
        self.carry: Carry | None = None
        self._graph = graph
        # The epochs that may be the last of each sink of `write`:
        self._sink_epochs: dict[str, tuple[int, ...]] = dict.fromkeys(
            find_numbered(graph), NONE_YET
        )

    def note_unreadable(self, failure: Failure) -> None:
        """Record a row that the driver could not read."""
        if self._on_error is stop:
            stop(failure)
        self.not_read.append(failure)

    def report_unreadable(self) -> None:
        """Report the unreadable rows behind the last epoch."""
        failures, self.not_read = self.not_read, []
        for failure in failures:
            self._on_error(failure)

    def begin(self, stamp: Stamp) -> str:
        """Prepare a try of an epoch; return the stage where its parts go."""
        stage = stage_of(stamp)
        self._outputs.begin(stage)
        return stage

    def commit(self, done: FinishedEpoch) -> frozenset[Place]:
        """Commit a finished epoch; return the buckets to snapshot next."""
        for report in having(done.reports, "read"):
            for source, count in report.read.items():
                self.read[source] += count
        for source, reached in find_reached(done.reports).items():
            position = self.positions[source]
            partitions = {name: vars(one) for name, one in reached.items()}
            merged = {**position["partitions"], **partitions}
            self.positions[source] = {**position, "partitions": merged}
        files = files_of(done.reports)
        in_files = [
            part for sink in self._outputs.directories for part in files.pop(sink, ())
        ]
        parts = parts_of(in_files)
        self._outputs.compare(stage_of(done.stamp), parts)
        self._outputs.count(in_files)
        failing = having(done.reports, "failures")
        failed = [failure for report in failing for failure in report.failures]
        failures, self.not_read = [*self.not_read, *failed], []
        due: frozenset[Place] = frozenset()
        if self._checkpoint is None:
            self._outputs.publish(stage_of(done.stamp), parts)
        else:
            reach("ran", done.stamp.epoch)
            logs, snapshots = logs_of(done.reports), snapshots_of(done.reports)
            with pause_collection():
                made = self._record(done, in_files, files, logs, snapshots)
                record = self._checkpoint.list_parts(made)
            delivery = None
            if failures or any(done.sunk.values()) or files:
                plain = {s: [tuple(f) for f in some] for s, some in files.items()}
                noted = self._on_error is not stop  # failures of sinks are in files
                waiting = failures, done.sunk, plain, noted
                delivery = self._pickler.dumps_state(waiting)
            with pause_collection():
                self._checkpoint.commit(record, delivery)
            reach("committed", record.epoch)
            self._outputs.note(sums_of(in_files))
            self._outputs.publish(stage_of(done.stamp), record.parts)
            reach("published", record.epoch)
            with pause_collection():
                due = self._upkeep.due(record, logs, snapshots)
        self._deliver(done.stamp, failures, done.sunk, files)
        return due

    def deliver_before_failure(
        self,
        stamp: Stamp,
        reports: Iterable[Report],
        sunk: dict[str, list[Any]],
        failed: str | None,
    ) -> None:
        """Deliver a failed epoch's items to sinks, up to its failure.

        Not to a sink that has `failed`, which gets whole epochs; and not with a
        checkpoint: the next run repeats the whole epoch.
        """
        if self._checkpoint is None:
            self._outputs.deliver(stamp.epoch, sunk)
            gone = {*self._outputs.directories, failed}
            found = files_of(reports).items()
            files = {sink: some for sink, some in found if sink not in gone}
            self._deliver_files(stamp, files)

    def _deliver(
        self,
        stamp: Stamp,
        failures: Iterable[Failure],
        sunk: dict[str, list[Any]],
        files: FilesOfSinks,
    ) -> None:
        for failure in failures:
            self._on_error(failure)
        before = dict(self._outputs.delivered)
        self._outputs.deliver(stamp.epoch, sunk)
        self._deliver_files(stamp, files)
        self._note_epoch(stamp.epoch, {**sunk, **files}, before)
        reach("delivered", stamp.epoch)
        if self._checkpoint is not None:
            self._checkpoint.mark_delivered()

    def _add_epoch(
        self, epoch: int, given: Mapping[str, Sequence[Any]]
    ) -> dict[str, tuple[int, ...]]:
        """Return the epochs that may be the last of each sink, once some are given one."""
        added = {
            sink: tuple(sorted({known[0], known[-1], epoch}))
            for sink, known in self._sink_epochs.items()
            if given.get(sink)
        }
        return {**self._sink_epochs, **added}

    def _note_epoch(
        self, epoch: int, given: Mapping[str, Sequence[Any]], before: Mapping[str, int]
    ) -> None:
        """Note which sinks have an epoch; one that took no item need not know it."""
        after = self._outputs.delivered
        taken = [
            sink
            for sink in find_numbered(self._graph)
            if given.get(sink) and after[sink] > before[sink]
        ]
        self._sink_epochs = {
            **self._add_epoch(epoch, given),
            **dict.fromkeys(taken, (epoch,)),
        }

    def _deliver_files(self, stamp: Stamp, files: FilesOfSinks) -> None:
        """Have tasks deliver the items of an epoch to external sinks."""
        waiting = {
            sink: some
            for sink, some in files.items()
            if not self._outputs.commit_parts(stamp.epoch, sink, some)
        }
        if not waiting:
            return
        assert self.carry is not None  # noqa: S101 - else there are no files
        for sink, done in self.carry(stamp, waiting).items():
            self._outputs.note_delivery(sink, done.accepted, done.failures)

    def _deliver_again(self, stamp: Stamp, waiting: WaitingItems) -> None:
        """Deliver the items of a killed run's last epoch to external sinks, from here.

        There are no tasks yet. The run may have delivered some of it. Failures that
        are met here are reported before the sink commits, so none wait in a file.
        """
        assert self._checkpoint is not None  # noqa: S101 - where they were found
        directory, seal = self._checkpoint.deliveries, self._checkpoint.seal
        pickler = self._pickler
        for sink, some in waiting.files.items():
            if self._outputs.commit_parts(stamp.epoch, sink, some):
                continue
            items = read_items(directory, some, self._graph, pickler, seal)
            refused = locate_refused(directory, stamp, self._graph, sink)
            reach("delivering", stamp.epoch)
            if self._outputs.has(stamp.epoch, sink):
                told = read_refused(refused, pickler, seal, noted=waiting.noted)
                self._outputs.note_delivery(sink, len(items) - len(told), told)
            else:
                if waiting.noted:
                    write_refused(refused, (), pickler, seal)
                self._outputs.deliver_again(stamp.epoch, sink, items)
            reach("sent", stamp.epoch)

    def refuse_other_run(self) -> None:
        """End this run if a later one has taken over its checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.refuse_other_run()

    def _record(
        self,
        done: FinishedEpoch,
        in_files: Sequence[WrittenPart],
        files: FilesOfSinks,
        logs: tuple[Log, ...],
        snapshots: tuple[Snapshot, ...],
    ) -> Record:
        """Return the record of an epoch: the previous one, updated."""
        assert self._checkpoint is not None  # noqa: S101
        last = self._checkpoint.last or Record()
        parts, counts = parts_of(in_files), dict(last.part_counts)
        for sink, names in parts.items():
            counts[sink] = counts.get(sink, 0) + len(names)
        delivered = dict(self._outputs.delivered)
        for sink, items in done.sunk.items():
            delivered[sink] += len(items)
        for sink, some in files.items():
            delivered[sink] += sum(one.items for one in some)
        finished = (
            last.finished
            if done.finished is None
            else (
                *last.finished,
                done.finished,
            )
        )
        record = Record(
            epoch=done.stamp.epoch,
            turn=done.stamp.turn,
            positions=dict(self.positions),
            ended=done.ended,
            finished=finished,
            finishing=done.finishing,
            read=dict(self.read),
            delivered=delivered,
            parts=parts,
            part_counts=counts,
            logs=last.logs + logs,
            snapshots=(*last.snapshots, *snapshots),
            begun=done.begun,
            sums=(*last.sums, *sums_of(in_files)),
            listed=last.listed,
            buckets=done.buckets,
            shared=done.shared,
            sink_epochs=self._add_epoch(done.stamp.epoch, {**done.sunk, **files}),
            resilient=self._on_error is not stop,
        )
        if record.snapshots == last.snapshots:
            return record
        self._untidy += len(logs)
        # Scanning all logs is expensive; if there are many, tidying may wait.
        if max(len(record.logs), len(record.snapshots)) > max(_MANY, 2 * self._untidy):
            return record
        self._untidy = 0
        return tidy(record)

    def resume(self) -> Record | None:
        """Complete the last epoch of an earlier run, and return its record."""
        if self._checkpoint is None:
            return None
        record, seal = self._checkpoint.last, self._checkpoint.seal
        first = Stamp(1, self._checkpoint.first_turn)
        if record is None:
            self._outputs.check({}, seal, first)
            return None
        self.read.update(record.read)
        self.positions = dict(record.positions)
        self._outputs.delivered.update(record.delivered)
        self._sink_epochs = {**record.sink_epochs, **self._outputs.last_epochs}
        if self._checkpoint.damage:
            self._outputs.take_back(record.epoch)
            self._checkpoint.set_damage_aside()
        self._outputs.note(self._checkpoint.list_published(record))
        if any(record.parts.values()):
            self._outputs.publish(stage_of(record.stamp), record.parts)
        first = first._replace(epoch=record.epoch + 1)
        self._outputs.check(record.part_counts, seal, first)
        waiting = self._checkpoint.waiting
        if waiting is not None:
            found = self._load_delivery(waiting, record.delivery)
            for sink, items in found.sunk.items():
                self._outputs.delivered[sink] -= len(items)
            for sink, some in found.files.items():
                self._outputs.delivered[sink] -= sum(one.items for one in some)
            before = dict(self._outputs.delivered)
            self._deliver_again(record.stamp, found)
            self._note_epoch(record.epoch, found.files, before)
            self._deliver(record.stamp, found.failures, found.sunk, {})
        return record

    def _load_delivery(self, path: Location, digest: str | None) -> WaitingItems:
        """Load the last epoch's items for sinks, and the names of files with more."""
        assert self._checkpoint is not None  # noqa: S101 - where it was found
        try:
            data = path.read_bytes()
        except OSError as error:
            raise describe_damage(path, error) from error
        self._checkpoint.seal.check(path, data, digest)
        try:
            failures, sunk, *more = self._pickler.loads(data)
            named = more[0] if more else {}  # releases before had less
            noted = len(more) > 1 and bool(more[1])
            files = {
                sink: tuple(WrittenPart(*one) for one in some)
                for sink, some in named.items()
            }
        except Exception as error:
            msg = (
                f"a checkpoint must be whole; {path} cannot be read: {error!r}; start "
                "again with an empty directory, or put the file back"
            )
            raise CheckpointError(msg) from error
        return WaitingItems(failures, sunk, files, noted)

    def finish(self, stamp: Stamp) -> None:
        """Record the end of the job."""
        if self._checkpoint is None:
            return
        last = self._checkpoint.last or Record()
        epoch = stamp.epoch + 1
        reach("finished", epoch)
        end = replace(
            last,
            epoch=epoch,
            turn=stamp.turn,
            complete=True,
            parts={},
            delivery=None,
            delivery_file=None,
            sink_epochs=self._sink_epochs,
        )
        self._checkpoint.commit(end, None)
        reach("completed", epoch)


def find_numbered(graph: Graph) -> list[str]:
    """Return the sinks that may store the number of their last epoch."""
    return [op.name for op in graph.sinks if isinstance(op.kind, WriteSink)]


def find_last_epochs(graph: Graph, checkpoint: Checkpoint) -> dict[str, Sequence[int]]:
    """Return the epochs that may be the last of each sink that stores numbers.

    That is the last one it was given, or the one before, if the delivery still waits.
    In a job that goes on after failures, it may also have refused every item of the last
    one, and not know it. Records of earlier releases have no such numbers.
    """
    record = checkpoint.last
    if record is None:
        return {}
    exact = checkpoint.waiting is None and not record.resilient
    found: dict[str, Sequence[int]] = {}
    for sink in find_numbered(graph):
        epochs = record.sink_epochs.get(sink)
        if epochs is None:
            found[sink] = range(record.epoch + 1)
        else:
            found[sink] = epochs[-1:] if exact else epochs
    return found


def find_reached(reports: Iterable[Report]) -> dict[str, dict[str, Reached]]:
    """Return the progress of workers in the partitions of each source."""
    found: dict[str, list[tuple[str, Reached]]] = {}
    for report in having(reports, "reached"):
        for source, reached in report.reached.items():
            found.setdefault(source, []).extend(reached)
    return {source: latest(reached) for source, reached in found.items()}


def files_of(reports: Iterable[Report]) -> dict[str, tuple[WrittenPart, ...]]:
    """Return what tasks have written, by sink.

    >>> written = [WrittenPart("out", f"{n}.items", 5) for n in range(2)]
    >>> reports = [Report(0, n, written=(one,)) for n, one in enumerate(written)]
    >>> [one.file for one in files_of(reports)["out"]]
    ['0.items', '1.items']
    """
    files: dict[str, list[WrittenPart]] = {}
    for report in having(reports, "written"):
        for one in report.written:
            files.setdefault(one.sink, []).append(one)
    return {sink: tuple(some) for sink, some in files.items()}


def logs_of(reports: Iterable[Report]) -> tuple[Log, ...]:
    """Return the logs that reports name."""
    return tuple(chain.from_iterable(map(attrgetter("logs"), reports)))


def snapshots_of(reports: Iterable[Report]) -> tuple[Snapshot, ...]:
    """Return the snapshots that reports name."""
    return tuple(chain.from_iterable(map(attrgetter("snapshots"), reports)))


def sums_of(parts: Iterable[WrittenPart]) -> tuple[PartSum, ...]:
    """Return the sizes and digests of parts of files, under their published names."""
    return tuple(
        PartSum(one.sink, name_published_part(one.file), one.size, one.digest)
        for one in parts
    )


def parts_of(written: Iterable[WrittenPart]) -> dict[str, tuple[str, ...]]:
    """Return the names of parts of files, by sink.

    >>> parts_of([WrittenPart("out", f"7.part-{n}.csv", 5) for n in range(2)])
    {'out': ('7.part-0.csv', '7.part-1.csv')}
    """
    parts: dict[str, list[str]] = {}
    for one in written:
        parts.setdefault(one.sink, []).append(one.file)
    return {sink: tuple(some) for sink, some in parts.items()}
