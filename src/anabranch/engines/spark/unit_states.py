"""The states of a unit in a task: opened for an epoch, and saved at its end.

Saving makes the next version on this host and, with a checkpoint, its durable copy:
the changes of the epoch, and whole buckets that are due. None of it counts before the
driver has committed the epoch.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from anabranch.engines.spark.checkpoint_files import (
    size_of,
    write_log,
    write_snapshot,
)
from anabranch.engines.spark.checkpoint_record import Log, Snapshot
from anabranch.engines.spark.faults import reach
from anabranch.engines.spark.layout import Unit
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.restoring import DurableCopy, begin_at
from anabranch.engines.spark.states import StoredStates
from anabranch.engines.spark.store import Bucket, Stamp
from anabranch.engines.spark.task import EpochTask
from anabranch.errors import EngineError

Changes: TypeAlias = dict[int, dict[bytes, bytes]]  # bucket -> key -> state


@dataclass(frozen=True)
class Saved:
    """The files of the checkpoint that a task has written."""

    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()


class UnitStates:
    """The states of the operators of a unit; `directory` is this host's copy."""

    def __init__(
        self,
        unit: Unit,
        stored: Mapping[str, StoredStates],
        directory: Path,
        checkpoint: str | None,
    ) -> None:
        self._unit = unit
        self._stored = stored
        self._directory = directory / unit.name
        self._checkpoint = checkpoint
        self._buckets: dict[int, Bucket] = {}

    def open(self, task: EpochTask, channel: int, pickler: Pickler) -> None:
        """Begin with the version that the epoch is made from."""
        self.close()
        if not self._stored:
            return
        for number in task.buckets_of(self._unit, channel):
            bucket = self._buckets[number] = Bucket(self._directory / f"{number:02}")
            begin_at(bucket, task.base, task.turn, self._copy(number))
        for states in self._stored.values():
            states.attach(self._buckets, pickler)
        reach("opened", task.epoch)

    def _copy(self, bucket: int) -> DurableCopy | None:
        if self._checkpoint is None:
            return None
        return DurableCopy(Path(self._checkpoint), self._unit.name, bucket)

    def close(self) -> None:
        """Let go of the databases; nothing is saved."""
        for bucket in self._buckets.values():
            bucket.end()
        self._buckets = {}

    def changes(self, operators: Container[str]) -> Changes:
        """Return what the epoch has changed in the states of some operators."""
        changes: Changes = {number: {} for number in self._buckets}
        for name, states in self._stored.items():
            if name in operators:
                for number, changed in states.changes().items():
                    changes[number].update(changed)
        return changes

    def save(self, task: EpochTask, channel: int, changes: Changes) -> Saved:
        """Make the next version, and return what was written to the checkpoint."""
        logs = self._log(task, channel, changes)
        reach("logged", task.epoch)
        stamp = Stamp(task.epoch, task.turn)
        for number, bucket in self._buckets.items():
            bucket.end()
            bucket.write(task.base, stamp, changes[number])
            reach("half-stored", task.epoch)
        reach("stored", task.epoch)
        snapshots = self._snapshots(task, stamp)
        self.close()
        return Saved(logs, snapshots)

    def _log(self, task: EpochTask, channel: int, changes: Changes) -> tuple[Log, ...]:
        changes = {number: changed for number, changed in changes.items() if changed}
        if self._checkpoint is None or not changes:
            return ()
        path = self._file(f"log-{task.epoch:09}-{task.turn}-{channel:04}")
        write_log(path, changes)
        sizes = {number: size_of(changes[number].items()) for number in changes}
        return (Log(self._unit.name, path.name, task.epoch, sizes),)

    def _snapshots(self, task: EpochTask, stamp: Stamp) -> tuple[Snapshot, ...]:
        made = []
        for number, bucket in self._buckets.items():
            if (self._unit.name, number) not in task.snapshots:
                continue
            if not bucket.begin(stamp, task.turn):
                msg = f"a later try of epoch {task.epoch} has taken over {bucket.path}"
                raise EngineError(msg)
            path = self._file(f"snapshot-{task.epoch:09}-{task.turn}-{number:02}")
            keys, size = write_snapshot(path, number, bucket.states())
            bucket.end()
            made.append(
                Snapshot(self._unit.name, path.name, task.epoch, number, keys, size)
            )
            reach("snapshot", task.epoch)
        return tuple(made)

    def _file(self, name: str) -> Path:
        """Return a new file of the checkpoint, of no other try of the task."""
        assert self._checkpoint is not None  # noqa: S101
        directory = Path(self._checkpoint) / "state" / self._unit.name
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{name}-{uuid.uuid4().hex[:8]}.arrow"
