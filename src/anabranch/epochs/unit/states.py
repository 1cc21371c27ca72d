"""The states of a unit in a task: opened for an epoch, and saved at its end.

Saving makes the next version of the changed buckets, on this host and, with a
checkpoint, its durable copy: the changes of the epoch, and the snapshots that are due.
All of it carries the attempt in its name, and none of it counts before the driver has
committed the epoch with the report of this attempt.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from anabranch.connectors.storage import Location, locate
from anabranch.epochs.checkpoint.files import (
    Entry,
    size_of,
    state_file,
    write_log,
    write_snapshot,
)
from anabranch.epochs.checkpoint.record import Log, Snapshot
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.faults import reach
from anabranch.epochs.layout import Unit
from anabranch.epochs.pickle import Pickler
from anabranch.epochs.state.restore import (
    Copy,
    DurableCopy,
    HostCopy,
    begin_at,
    bucket_path,
    write_from,
)
from anabranch.epochs.state.states import StoredStates, prefix_of
from anabranch.epochs.state.store import GONE, NOTHING, Bucket, Stamp
from anabranch.epochs.task import EpochTask
from anabranch.errors import EngineError

Versions: TypeAlias = dict[tuple[int, int], Stamp]  # bucket, of so many -> version
Changes: TypeAlias = dict[int, dict[bytes, bytes]]  # bucket -> key -> state


@dataclass(frozen=True)
class Saved:
    """What a task has saved: versions of buckets, and files of the checkpoint.

    `opened` counts its buckets, `restored` those that were not on this host.
    """

    versions: Mapping[int, Stamp] = field(default_factory=dict)  # of changed buckets
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    opened: int = 0
    restored: int = 0


class UnitStates:
    """The states of a unit's operators; `directory` is this host's copy."""

    def __init__(
        self,
        unit: Unit,
        stored: Mapping[str, StoredStates],
        directory: Path,
        checkpoint: str | None,
        seal: Seal,
    ) -> None:
        self._unit = unit
        self._stored = stored
        self._directory = directory / unit.name
        self._checkpoint = checkpoint
        self._seal = seal
        self._buckets: dict[int, Bucket] = {}
        self._versions: dict[int, Stamp] = {}  # that the epoch begins with
        self._by_prefix = {
            prefix: states for states in stored.values() for prefix in states.prefixes
        }
        self._pickler: Pickler | None = None
        self._restored = 0  # buckets, for the epoch that runs
        self._left: Versions | None = None  # those of the states here, once saved
        self._ahead: dict[int, Changes] = {}  # by turn: of parts that another one saves

    def open(self, task: EpochTask, channel: int, pickler: Pickler) -> None:
        """Open the version that the epoch starts from."""
        self.close()
        if not self._stored:
            return
        self._pickler = pickler
        self._restored = 0
        count = task.stage.count_buckets(self._unit)
        turn, ahead = task.attempt.turn, self._find_ahead(task)
        for number in task.stage.buckets_of(self._unit, channel):
            path = bucket_path(self._directory, number, count)
            bucket = self._buckets[number] = Bucket(path)
            version = self._versions[number] = self._find_version(task, number)
            copy = self._copy(task, number)
            changes = ahead.get(number, NOTHING)
            self._restored += begin_at(bucket, version, turn, copy, changes)
        versions = self._versions_of(task)
        same = self._left == versions
        self._left = None  # until they are saved
        for states in self._stored.values():
            states.attach(self._buckets, count, pickler, same=same)
        reach("opened", task.attempt.epoch)

    def _find_ahead(self, task: EpochTask) -> Changes:
        """Return the changes since the last commit of a part before a cut.

        The last part saves the states of all. Until then they are known here.
        """
        pending = task.attempt.pending
        self._ahead = {
            turn: one for turn, one in self._ahead.items() if turn in pending
        }
        ahead: Changes = {}
        if task.stage.part == len(task.cuts.get(self._unit.number, ())):
            return ahead
        for turn in pending:
            if turn not in self._ahead:
                msg = (
                    f"epoch {task.attempt.epoch} follows turn {turn}, whose part "
                    f"{task.stage.part} of unit {self._unit.name} did not run here"
                )
                raise EngineError(msg)
            for number, changed in self._ahead[turn].items():
                ahead.setdefault(number, {}).update(changed)
        return ahead

    def _find_version(self, task: EpochTask, number: int) -> Stamp:
        """Return the version of a bucket that the epoch begins with.

        It is the last one that this process has made in a running epoch, if any.
        """
        if pending := task.attempt.pending_stamps:
            made = self._buckets[number].versions
            for version in reversed(pending):
                if version in made:
                    return version
        return task.attempt.version_of(self._unit, number)

    def _versions_of(self, task: EpochTask) -> Versions:
        """Return the versions of all buckets that an epoch begins with."""
        count = task.stage.count_buckets(self._unit)
        return {(number, count): self._versions[number] for number in self._buckets}

    def _copy(self, task: EpochTask, bucket: int) -> Copy:
        count = task.stage.count_buckets(self._unit)

        def owns(entry: Entry) -> bool:
            return entry[1] == GONE or self._find_bucket(entry, count) == bucket

        if self._checkpoint is None:
            return HostCopy(self._directory, bucket, count, owns)
        directory, base = locate(self._checkpoint), task.attempt.base
        return DurableCopy(
            directory, self._unit.name, bucket, base, self._seal, count, owns
        )

    def _find_bucket(self, entry: Entry, count: int) -> int:
        """Return the bucket, out of `count`, of a stored state."""
        assert self._pickler is not None  # noqa: S101 - since `open`
        raw, stored = entry
        key, _ = self._pickler.loads(stored)
        return self._by_prefix[raw[: len(prefix_of(0))]].find_bucket(key, count)

    def close(self) -> None:
        """Release the databases; nothing is saved."""
        for bucket in self._buckets.values():
            bucket.end()
        self._buckets = {}

    def changes(self, operators: Container[str]) -> Changes:
        """Return the epoch's changes in the states of some operators."""
        changes: Changes = {number: {} for number in self._buckets}
        for name, states in self._stored.items():
            if name in operators:
                for number, changed in states.changes().items():
                    changes[number].update(changed)
        return changes

    def hand_on(self, task: EpochTask, operators: Container[str]) -> Changes:
        """Return the changes of a part before a cut, for the last part to save."""
        changes = self._ahead[task.attempt.turn] = self.changes(operators)
        return changes

    def save(
        self, task: EpochTask, channel: int, changes: Changes, *, whole: bool = True
    ) -> Saved:
        """Make the next version of the changed buckets.

        If the changes are `whole`, without those of other processes, the states here
        are those of the new version.
        """
        logs = self._log(task, channel, changes)
        reach("logged", task.attempt.epoch)
        stamp = task.attempt.stamp
        for number, bucket in self._buckets.items():
            bucket.end()
            if changes[number]:
                pending = task.attempt.pending_stamps
                base, copy = self._versions[number], self._copy(task, number)
                write_from(bucket, base, stamp, changes[number], copy, pending=pending)
            reach("half-stored", task.attempt.epoch)
        reach("stored", task.attempt.epoch)
        versions = {number: stamp for number in self._buckets if changes[number]}
        if whole:
            self._left = {
                (number, count): versions.get(number, version)
                for (number, count), version in self._versions_of(task).items()
            }
        snapshots = self._snapshots(task, versions)
        opened = len(self._buckets)
        self.close()
        return Saved(versions, logs, snapshots, opened, self._restored)

    def _log(self, task: EpochTask, channel: int, changes: Changes) -> tuple[Log, ...]:
        changes = {number: changed for number, changed in changes.items() if changed}
        if self._checkpoint is None or not changes:
            return ()
        path = self._file(task, "log", channel)
        digest = write_log(path, changes, self._seal)
        sizes = {number: size_of(changes[number].items()) for number in changes}
        return (
            Log(
                self._unit.name,
                path.name,
                task.attempt.epoch,
                sizes,
                turn=task.attempt.turn,
                attempt=task.attempt.spark_id,
                digest=digest,
                buckets=task.stage.count_buckets(self._unit),
            ),
        )

    def _snapshots(
        self, task: EpochTask, versions: Mapping[int, Stamp]
    ) -> tuple[Snapshot, ...]:
        made = []
        for number, bucket in self._buckets.items():
            if (self._unit.name, number) not in task.attempt.snapshots:
                continue
            version = versions.get(number, self._versions[number])
            if not bucket.begin(version, task.attempt.turn):
                msg = f"epoch {task.attempt.epoch} is over; {bucket.path} has no {version}"
                raise EngineError(msg)
            path = self._file(task, "snapshot", number)
            keys, size, digest = write_snapshot(path, number, bucket.states, self._seal)
            bucket.end()
            made.append(
                Snapshot(
                    self._unit.name,
                    path.name,
                    task.attempt.epoch,
                    number,
                    keys,
                    size,
                    version,
                    digest,
                    task.stage.count_buckets(self._unit),
                )
            )
            reach("snapshot", task.attempt.epoch)
        return tuple(made)

    def _file(self, task: EpochTask, kind: str, number: int) -> Location:
        """Return a new checkpoint file, unique to this attempt of the task."""
        assert self._checkpoint is not None  # noqa: S101
        directory = locate(self._checkpoint) / "state" / self._unit.name
        directory.mkdir(parents=True, exist_ok=True)
        return directory / state_file(kind, task.attempt.stamp, number)
