"""The books of a job: what each epoch has done, entered in an order that survives kills.

An epoch that has run is committed (one record, then it has happened), its parts are
published, and then the sinks in the driver get their items. A run that finds the books
of a killed one first does what was left to do of the last epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.engines.spark.checkpoint import Checkpoint
from anabranch.engines.spark.checkpoint_record import Begun, Record
from anabranch.engines.spark.checkpoint_upkeep import Place, Upkeep, tidied
from anabranch.engines.spark.faults import reach
from anabranch.engines.spark.file_outputs import stage_of
from anabranch.engines.spark.outputs import Outputs
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.store import Stamp
from anabranch.engines.spark.task import Report
from anabranch.graph.graph import Graph
from anabranch.runtime.failures import Failure, OnError, stop


@dataclass(frozen=True)
class Done:
    """An epoch that has run: what its tasks report, and items for sinks in the driver.

    `finished` is the operator whose last words it carried, if any, and `ended` the
    number that the next such words begin with. `begun` are the groups, by unit, that
    it leaves incomplete.
    """

    stamp: Stamp
    reports: list[Report]
    sunk: dict[str, list[Any]]
    finished: str | None
    ended: int
    begun: Mapping[str, Begun] = field(default_factory=dict)


class Books:
    """Commits, publishes and delivers; without a checkpoint there is less to do.

    `positions` tells where each source stands behind the epoch that runs.
    """

    def __init__(
        self,
        graph: Graph,
        on_error: OnError,
        outputs: Outputs,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._on_error = on_error
        self._outputs = outputs
        self._checkpoint = checkpoint
        self._upkeep = Upkeep()
        self._pickler = Pickler(graph)
        self.read = {op.name: 0 for op in graph.sources}
        self.positions: dict[str, Any] = {}
        self.not_read: list[Failure] = []  # by sources, in the epoch that runs

    def could_not_read(self, failure: Failure) -> None:
        """Take note of a row that the driver could not read."""
        if self._on_error is stop:
            stop(failure)
        self.not_read.append(failure)

    def begin(self, stamp: Stamp) -> str:
        """Get ready for a try of an epoch; return the stage where its parts go."""
        if self._checkpoint is None:
            return ""
        stage = stage_of(stamp)
        self._outputs.begin(stage)
        return stage

    def took(self, done: Done) -> frozenset[Place]:
        """Take over an epoch that has run; return the buckets to write whole next."""
        for report in done.reports:
            for source, count in report.read.items():
                self.read[source] += count
        self._outputs.count(done.reports)
        failed = [failure for report in done.reports for failure in report.failures]
        failures, self.not_read = [*self.not_read, *failed], []
        due: frozenset[Place] = frozenset()
        if self._checkpoint is not None:
            reach("ran", done.stamp.epoch)
            record = self._record(done)
            waiting = bool(failures) or any(done.sunk.values())
            delivery = self._pickler.dumps((failures, done.sunk)) if waiting else None
            self._checkpoint.commit(record, delivery)
            reach("committed", record.epoch)
            self._outputs.publish(stage_of(done.stamp), record.parts)
            reach("published", record.epoch)
            new = (log for report in done.reports for log in report.logs)
            due = self._upkeep.due(record, new)
        self._deliver(done.stamp.epoch, failures, done.sunk)
        return due

    def _deliver(
        self, epoch: int, failures: Iterable[Failure], sunk: dict[str, list[Any]]
    ) -> None:
        for failure in failures:
            self._on_error(failure)
        self._outputs.deliver(epoch, sunk)
        reach("delivered", epoch)
        if self._checkpoint is not None:
            self._checkpoint.delivery(epoch).unlink(missing_ok=True)

    def _record(self, done: Done) -> Record:
        """Return the record of an epoch: that of the one before, and what is new."""
        assert self._checkpoint is not None  # noqa: S101
        last = self._checkpoint.last or Record()
        parts: dict[str, tuple[str, ...]] = {}
        for report in done.reports:
            for sink, part in report.parts.items():
                parts[sink] = (*parts.get(sink, ()), part)
        counts = dict(last.part_counts)
        for sink, names in parts.items():
            counts[sink] = counts.get(sink, 0) + len(names)
        delivered = dict(self._outputs.delivered)
        for sink, items in done.sunk.items():
            delivered[sink] += len(items)
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
            turns={**last.turns, done.stamp.epoch: done.stamp.turn},
            positions=dict(self.positions),
            ended=done.ended,
            finished=finished,
            read=dict(self.read),
            delivered=delivered,
            parts=parts,
            part_counts=counts,
            logs=last.logs
            + tuple(log for report in done.reports for log in report.logs),
            snapshots=last.snapshots,
            begun=done.begun,
        )
        return tidied(record, (s for report in done.reports for s in report.snapshots))

    def resume(self) -> Record | None:
        """Do what was left to do of the last epoch, and return its record."""
        if self._checkpoint is None:
            return None
        record = self._checkpoint.last
        if record is None:
            self._outputs.check({})
            return None
        self.read.update(record.read)
        self.positions = dict(record.positions)
        self._outputs.delivered.update(record.delivered)
        if any(record.parts.values()):
            self._outputs.publish(stage_of(record.stamp), record.parts)
        self._outputs.check(record.part_counts)
        waiting = self._checkpoint.delivery(record.epoch)
        if waiting.exists():
            failures, sunk = self._pickler.loads(waiting.read_bytes())
            for sink, items in sunk.items():
                self._outputs.delivered[sink] -= len(items)
            self._deliver(record.epoch, failures, sunk)
        return record

    def finish(self, stamp: Stamp) -> None:
        """Enter the end of the job."""
        if self._checkpoint is None:
            return
        last = self._checkpoint.last or Record()
        epoch = stamp.epoch + 1
        reach("finished", epoch)
        end = replace(last, epoch=epoch, turn=stamp.turn, complete=True, parts={})
        self._checkpoint.commit(end, None)
        reach("completed", epoch)
