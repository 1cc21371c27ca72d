"""The states of a unit in a task: opened for an epoch, and saved at its end.

Saving makes the next version of the changed buckets, on this host and, with a
checkpoint, its durable copy: the changes of the epoch, and the snapshots that are due.
All of it carries the attempt in its name, and none of it counts before the driver has
committed the epoch with the report of this attempt.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from anabranch.connectors.storage import Location, locate
from anabranch.epochs.checkpoint.files import state_file, write_log, write_states
from anabranch.epochs.checkpoint.record import Log, Snapshot
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.faults import reach
from anabranch.epochs.layout import EpochLayout, Unit
from anabranch.epochs.state.buckets import (
    EMPTY,
    PREFIX_BYTES,
    Ranges,
    Stamp,
    bucket_of_entry,
    by_store,
    count_in_store,
    to_ranges,
)
from anabranch.epochs.state.restore import (
    Copy,
    DurableCopy,
    HostCopy,
    begin_at,
    store_path,
    write_from,
)
from anabranch.epochs.state.states import StoredStates, prefix_of
from anabranch.epochs.state.store import NOTHING, BucketStore, Entry, OpenStates
from anabranch.epochs.task import EpochTask
from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import EngineError
from anabranch.graph.graph import Op
from anabranch.runtime.interpreter import kernel_of

Changes: TypeAlias = dict[bytes, bytes]  # key, with its bucket -> state


@dataclass(frozen=True)
class Saved:
    """What a task has saved: a version of buckets, and files of the checkpoint.

    `opened` counts its buckets, `restored` those that were not on this host.
    """

    changed: Ranges = ()  # buckets that have the version
    stamp: Stamp = EMPTY
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    opened: int = 0
    restored: int = 0


@dataclass
class _Part:
    """A store with the buckets of a replica that it has, and their versions."""

    store: BucketStore
    versions: Mapping[int, Stamp]


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
        self._parts: dict[int, _Part] = {}  # by the numbers of stores
        self._count = 0  # buckets of the unit
        self._by_prefix = {
            prefix: states for states in stored.values() for prefix in states.prefixes
        }
        self._pickler: Pickler | None = None
        self._restored = 0  # buckets, for the epoch that runs
        # The versions of the states in memory, once saved, and the count of buckets.
        self._left: tuple[int, Mapping[int, Stamp]] | None = None
        self._ahead: dict[int, Changes] = {}  # by turn: of parts that another one saves

    def open(self, task: EpochTask, channel: int, pickler: Pickler) -> None:
        """Open the versions that the epoch starts from."""
        self.close()
        if not self._stored:
            return
        self._pickler = pickler
        self._restored = 0
        self._count = task.stage.count_buckets(self._unit)
        turn, ahead = task.attempt.turn, self._find_ahead(task)
        copy = self._copy(task)
        owned = task.stage.buckets_of(self._unit, channel)
        for number, buckets in by_store(owned, self._count).items():
            store = BucketStore(store_path(self._directory, buckets[0], self._count))
            versions = self._find_versions(task, store, buckets)
            self._parts[number] = _Part(store, versions)
            own = ahead.get(number, NOTHING)
            self._restored += begin_at(store, versions, turn, copy, own)
        left = self._count, self._list_versions()
        same = self._left == left
        self._left = None  # until they are saved
        stores = {number: part.store for number, part in self._parts.items()}
        opened = OpenStates(stores, owned, self._count)
        for states in self._stored.values():
            states.attach(opened, pickler, same=same)
        reach("opened", task.attempt.epoch)

    def _find_ahead(self, task: EpochTask) -> dict[int, Changes]:
        """Return the changes since the last commit of a part before a cut, by store.

        The last part saves the states of all. Until then they are known here.
        """
        pending = task.attempt.pending
        self._ahead = {
            turn: one for turn, one in self._ahead.items() if turn in pending
        }
        ahead: dict[int, Changes] = {}
        if task.stage.part == len(task.cuts.get(self._unit.number, ())):
            return ahead
        each = count_in_store(self._count)
        for turn in pending:
            if turn not in self._ahead:
                msg = (
                    f"epoch {task.attempt.epoch} follows turn {turn}, whose part "
                    f"{task.stage.part} of unit {self._unit.name} did not run here"
                )
                raise EngineError(msg)
            for key, state in self._ahead[turn].items():
                store = bucket_of_entry(key) // each
                ahead.setdefault(store, {})[key] = state
        return ahead

    def _find_versions(
        self, task: EpochTask, store: BucketStore, buckets: list[int]
    ) -> dict[int, Stamp]:
        """Return the versions of buckets that the epoch begins with.

        They are the last ones that this process has made in a running epoch, if any.
        """
        versions = task.attempt.versions_of(self._unit, buckets)
        if pending := task.attempt.pending_stamps:
            here = store.find_versions(buckets)
            for version in pending:  # the oldest first
                versions |= {n: version for n in buckets if version in here[n]}
        return versions

    def _list_versions(self) -> dict[int, Stamp]:
        """Return the versions of all buckets that the epoch begins with."""
        return {n: v for part in self._parts.values() for n, v in part.versions.items()}

    def _copy(self, task: EpochTask) -> Copy:
        if self._checkpoint is None:
            return HostCopy(self._directory, self._count, self._find_bucket)
        return DurableCopy(
            locate(self._checkpoint),
            self._unit.name,
            task.attempt.base,
            self._seal,
            self._count,
            self._find_bucket,
        )

    def _find_bucket(self, entry: Entry) -> int:
        """Return the bucket of a state that was stored when there were fewer."""
        assert self._pickler is not None  # noqa: S101 - since `open`
        raw, stored = entry
        key, _ = self._pickler.loads(stored)
        prefix = raw[PREFIX_BYTES : PREFIX_BYTES + len(prefix_of(0))]
        return self._by_prefix[prefix].find_bucket(key, self._count)

    def close(self) -> None:
        """Release the stores; nothing is saved."""
        for part in self._parts.values():
            part.store.end()
        self._parts = {}

    def changes(self, operators: Container[str]) -> Changes:
        """Return the epoch's changes in the states of some operators."""
        changes: Changes = {}
        for name, states in self._stored.items():
            if name in operators:
                changes |= states.changes()
        return changes

    def hand_on(self, task: EpochTask, operators: Container[str]) -> Changes:
        """Return the changes of a part before a cut, for the last part to save."""
        changes = self._ahead[task.attempt.turn] = self.changes(operators)
        return changes

    def save(
        self, task: EpochTask, channel: int, changes: Changes, *, whole: bool = True
    ) -> Saved:
        """Make the next version of the buckets in changed stores.

        If the changes are `whole`, without those of other processes, the states here
        are those of the new version.
        """
        entries = sorted(changes.items())
        each = count_in_store(self._count)
        by_number = groupby(entries, lambda entry: bucket_of_entry(entry[0]) // each)
        of_store = {number: list(some) for number, some in by_number}
        changed = to_ranges(n for one in of_store for n in self._parts[one].versions)
        logs = self._log(task, channel, entries, changed)
        reach("logged", task.attempt.epoch)
        stamp, pending = task.attempt.stamp, task.attempt.pending_stamps
        for number, part in self._parts.items():
            part.store.end()
            if number in of_store:
                write_from(
                    part.store,
                    part.versions,
                    stamp,
                    of_store[number],
                    self._copy(task),
                    pending=pending,
                )
                part.versions = dict.fromkeys(part.versions, stamp)
            reach("half-stored", task.attempt.epoch)
        reach("stored", task.attempt.epoch)
        if whole:
            self._left = self._count, self._list_versions()
        snapshots = self._snapshots(task, channel)
        opened = sum(len(part.versions) for part in self._parts.values())
        self.close()
        stamp = stamp if changed else EMPTY
        return Saved(changed, stamp, logs, snapshots, opened, self._restored)

    def _log(
        self, task: EpochTask, channel: int, entries: list[Entry], changed: Ranges
    ) -> tuple[Log, ...]:
        if self._checkpoint is None or not entries:
            return ()
        path = self._file(task, "log", channel)
        digest = write_log(path, entries, self._seal)
        return (
            Log(
                self._unit.name,
                path.name,
                task.attempt.epoch,
                changed,
                sum(len(key) + len(state) for key, state in entries),
                turn=task.attempt.turn,
                attempt=task.attempt.attempt_id,
                digest=digest,
                buckets=self._count,
            ),
        )

    def _snapshots(self, task: EpochTask, channel: int) -> tuple[Snapshot, ...]:
        made: list[Snapshot] = []
        for number, part in self._parts.items():
            if (self._unit.name, number) not in task.attempt.snapshots:
                continue
            if part.store.begin(part.versions, task.attempt.turn):
                msg = (
                    f"epoch {task.attempt.epoch} is over; {part.store.path} has no "
                    f"{part.versions}"
                )
                raise EngineError(msg)
            stores = max(1, self._count // count_in_store(self._count))
            path = self._file(task, "snapshot", channel * stores + number)
            keys, size, digest = write_states(path, part.store.states, self._seal)
            part.store.end()
            by_version: dict[Stamp, list[int]] = {}
            for bucket, version in part.versions.items():
                by_version.setdefault(version, []).append(bucket)
            for version, buckets in by_version.items():
                share = len(buckets) / len(part.versions)
                made.append(
                    Snapshot(
                        self._unit.name,
                        path.name,
                        task.attempt.epoch,
                        to_ranges(buckets),
                        round(keys * share),
                        round(size * share),
                        version,
                        digest,
                        self._count,
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


def remembers_nothing(layout: EpochLayout, unit: Unit, op: Op) -> bool:
    """Tell whether the plan treats an operator with a kernel's state as stateless.

    That state makes no difference: a block of one item, an `Operator` that keeps
    nothing, or is declared to. It has no bucket, even if the region has its key: an
    operator between may have changed these attributes.
    """
    if not unit.replicated:
        return False
    of_region = unit.key and set(unit.key) <= set(op.keyed_by)
    return op.name in layout.stateless or not of_region


def refuse_states_on_several_hosts(layout: EpochLayout, several: str | None) -> None:
    """Refuse a stateful program without a checkpoint on several hosts.

    `several` is what says that there are several, or None.
    """
    stateful = find_stored(layout)
    if several is None or not stateful:
        return
    op = layout.graph[stateful[0]]
    msg = (
        f"the state of {op.name} ({op.site}) must be where its tasks run; {several}, "
        f"and without a checkpoint states cannot move; run it with checkpoint=DIR, a "
        f"directory that all hosts reach"
    )
    raise EngineError(msg)


def find_stored(layout: EpochLayout) -> list[str]:
    """Return the operators whose states are files on the hosts."""
    return [
        name
        for unit in layout.units
        if not unit.in_driver and unit.period == 1
        for name in unit.operators
        if (op := layout.graph[name]).inputs
        and kernel_of(op).stateful
        and not remembers_nothing(layout, unit, op)
    ]
