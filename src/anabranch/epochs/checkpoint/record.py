"""The commit record of an epoch: one small file that describes the whole job.

A record names everything that makes up the state after its epoch, so the last one is
enough to resume from, and every file it does not name can be removed. If there are many
state files, most of them are listed in *manifests*, which the record names, and only
those of the last epochs in the record itself.

The number of buckets is a power of two, and may double from one epoch to the next: then
bucket b of n becomes the buckets b and b + n of 2n. A file has the number of buckets
when it was written. So it holds today's bucket b if b, modulo that number, is one of
its own.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from anabranch.connectors.storage import Location
from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.state.store import EMPTY, Stamp
from anabranch.errors import CheckpointError

FORMAT = 6  # of the directory
# 2: logs do not name their attempts. 2, 3: pickles name our modules (`stable_names`).
# 2, 3, 4: no digests. 2 to 5: 16 buckets, and no manifests.
_SEALED = (5, FORMAT)  # with digests
_READABLE = (2, 3, 4, *_SEALED)

FEWEST_BUCKETS = 16  # as many as formats up to 5 always had


@dataclass(frozen=True)
class Log:
    """A file of changes: its epoch, and the bytes of each bucket.

    `turn` and `attempt` identify the task that wrote it. `buckets` is the number of
    buckets at the time.
    """

    unit: str
    file: str
    epoch: int
    sizes: Mapping[int, int]
    turn: int = 0
    attempt: int = 0
    digest: str | None = None
    buckets: int = FEWEST_BUCKETS

    @property
    def stamp(self) -> Stamp:
        """The version of its buckets with these changes."""
        return Stamp(self.epoch, self.turn, self.attempt)

    def covers(self, bucket: int) -> bool:
        """Tell whether it holds changes of a bucket, or of the one it was split from.

        >>> log = Log("u0", "f", 1, {3: 10}, buckets=16)
        >>> log.covers(3), log.covers(19), log.covers(20)
        (True, True, False)
        """
        return bucket % self.buckets in self.sizes


@dataclass(frozen=True)
class Snapshot:
    """A file with all states of a bucket after an epoch.

    Their `version` may be of an earlier epoch, if the bucket has not changed since.
    `buckets` is the number of buckets at the time.
    """

    unit: str
    file: str
    epoch: int
    bucket: int
    keys: int
    size: int
    version: Stamp = EMPTY
    digest: str | None = None
    buckets: int = FEWEST_BUCKETS

    def covers(self, bucket: int) -> bool:
        """Tell whether it holds a bucket, or the one it was split from."""
        return bucket % self.buckets == self.bucket


class PartSum(NamedTuple):
    """A written part of an output: its sink, name, bytes and digest."""

    sink: str
    part: str
    size: int
    digest: str


class PartList(NamedTuple):
    """A file of the checkpoint that lists parts, and its digest."""

    file: str
    digest: str


@dataclass(frozen=True)
class IncompleteGroup:
    """A group of a unit with blocks that an epoch has left incomplete.

    `entered` counts its items so far; `states` has what waits before each block,
    pickled.
    """

    entered: int
    states: bytes


_LOG_FIELDS = len(fields(Log))
_File = TypeVar("_File", Log, Snapshot)


@dataclass(frozen=True)
class Record:
    """The job after an epoch.

    `finished` are the operators that have finished, and `ended` numbers their last
    outputs. `finishing` is one that has finished for some of its keys: up to a rank, in
    hex. `parts` are the files, as their tasks named them, that this epoch adds to each
    sink; `part_counts` is the total with them. `sums` are the parts published last, and
    `listed` names the file that lists those before them. `delivery` is the
    digest of the items waiting for external sinks. `begun` are the incomplete groups of
    items, by unit. `shared` is what all replicas of an operator see alike, such as a
    clock, pickled. `buckets` is the number of buckets. `manifests` list state files
    beside `logs` and `snapshots`, while it is on disk. When `complete`, only the
    outputs remain to be finalized.
    """

    epoch: int = 0
    turn: int = 0
    positions: Mapping[str, Any] = field(default_factory=dict)
    ended: int | None = None
    finished: tuple[str, ...] = ()
    finishing: tuple[str, str] | None = None
    complete: bool = False
    read: Mapping[str, int] = field(default_factory=dict)
    delivered: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    part_counts: Mapping[str, int] = field(default_factory=dict)
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    begun: Mapping[str, IncompleteGroup] = field(default_factory=dict)
    sums: tuple[PartSum, ...] = ()
    listed: PartList | None = None
    delivery: str | None = None
    buckets: int = FEWEST_BUCKETS
    manifests: tuple[PartList, ...] = ()
    shared: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def stamp(self) -> Stamp:
        """The epoch, and the try that was committed."""
        return Stamp(self.epoch, self.turn)

    @property
    def files(self) -> frozenset[tuple[str, str]]:
        """The state files needed, each with its unit."""
        return frozenset((one.unit, one.file) for one in self.held)

    @property
    def held(self) -> tuple[Log | Snapshot, ...]:
        """All logs and snapshots."""
        return *self.logs, *self.snapshots

    def find_added(self, before: Record) -> tuple[Log | Snapshot, ...] | None:
        """Return the state files added since the record before.

        None if it lacks some of these.
        """
        logs, snapshots = len(before.logs), len(before.snapshots)
        if self.logs[:logs] != before.logs or self.snapshots[:snapshots] != (
            before.snapshots
        ):
            return None
        return *self.logs[logs:], *self.snapshots[snapshots:]

    def files_of_bucket(self, unit: str, bucket: int) -> list[Log | Snapshot]:
        """Return the files that make up a bucket: its snapshot, and the logs since."""
        snapshot = self.snapshot_of(unit, bucket)
        if snapshot is None:
            return [*self.logs_of(unit, bucket, 0)]
        return [snapshot, *self.logs_of(unit, bucket, snapshot.epoch)]

    def snapshot_of(self, unit: str, bucket: int) -> Snapshot | None:
        """Return the last snapshot of a bucket, if there is one."""
        found = [
            one for one in self.snapshots if one.unit == unit and one.covers(bucket)
        ]
        return max(found, key=attrgetter("epoch"), default=None)

    def logs_of(self, unit: str, bucket: int, after: int) -> list[Log]:
        """Return the logs of a bucket after an epoch, oldest first."""
        return [
            log
            for log in self.logs
            if log.unit == unit and log.epoch > after and log.covers(bucket)
        ]

    def version_of(self, unit: str, bucket: int) -> Stamp:
        """Return the version of a bucket: that of its last change."""
        return self.versions.get(unit, {}).get(bucket % self.buckets, EMPTY)

    @cached_property
    def versions(self) -> Mapping[str, Mapping[int, Stamp]]:
        """The version of each bucket that has ever changed, by unit."""
        found: dict[str, dict[int, Stamp]] = {}
        for held in self.held:
            buckets = found.setdefault(held.unit, {})
            version = held.version if isinstance(held, Snapshot) else held.stamp
            for bucket in find_buckets(held, self.buckets):
                buckets[bucket] = max(version, buckets.get(bucket, EMPTY))
        return found

    def leads_from(self, unit: str, bucket: int, version: Stamp) -> bool:
        """Tell whether the logs, applied to `version` of a bucket, give the current
        one.
        """
        snapshot = self.snapshot_of(unit, bucket)
        if version == (EMPTY if snapshot is None else snapshot.version):
            return True
        oldest = 0 if snapshot is None else snapshot.epoch
        logs = self.logs_of(unit, bucket, oldest)
        return any(log.stamp == version for log in logs)


def find_buckets(held: Log | Snapshot, buckets: int) -> Collection[int]:
    """Return the buckets in a file, by their numbers for the current bucket count.

    >>> list(find_buckets(Log("u0", "f", 1, {3: 10}, buckets=16), 64))
    [3, 19, 35, 51]
    """
    numbers = held.sizes if isinstance(held, Log) else (held.bucket,)
    if held.buckets in (1, buckets):  # one: an unkeyed state is never divided
        return numbers
    return [part for number in numbers for part in range(number, buckets, held.buckets)]


def tidy(record: Record, snapshots: Iterable[Snapshot] = ()) -> Record:
    """Return a record with new snapshots and without the files they supersede.

    >>> logs = (Log("u0", "a", 1, {0: 5}), Log("u0", "b", 2, {0: 5}))
    >>> record = Record(2, logs=logs)
    >>> [log.file for log in tidy(record, [Snapshot("u0", "s", 1, 0, 1, 5)]).logs]
    ['b']
    """
    last: dict[str, dict[int, Snapshot]] = {}
    for one in (*record.snapshots, *snapshots):
        buckets = last.setdefault(one.unit, {})
        for bucket in find_buckets(one, record.buckets):
            before = buckets.get(bucket)
            if before is None or one.epoch >= before.epoch:
                buckets[bucket] = one
    epochs = {
        unit: {bucket: one.epoch for bucket, one in buckets.items()}
        for unit, buckets in last.items()
    }
    logs = tuple(
        log for log in record.logs if _is_needed(log, epochs.get(log.unit, {}), record)
    )
    kept = {
        (one.unit, one.file): one for some in last.values() for one in some.values()
    }
    return replace(record, snapshots=tuple(kept.values()), logs=logs)


def _is_needed(log: Log, epochs: Mapping[int, int], record: Record) -> bool:
    """Tell whether a bucket of a log has no later snapshot, given their `epochs`."""
    for bucket in find_buckets(log, record.buckets):
        if log.epoch > epochs.get(bucket, 0):
            return True
    return False


def count_as_one(record: Record, units: Collection[str]) -> Record:
    """Return a record in which unkeyed states of these units have one bucket.

    Formats up to 5 did not distinguish them.
    """

    def as_one(held: _File) -> _File:
        return replace(held, buckets=1) if held.unit in units else held

    logs, snapshots = map(as_one, record.logs), map(as_one, record.snapshots)
    return replace(record, logs=tuple(logs), snapshots=tuple(snapshots))


def to_json(record: Record) -> bytes:
    """Return a record as JSON."""
    data = {
        "format": FORMAT,
        **{one.name: getattr(record, one.name) for one in fields(record)},
        **files_to_data(record.held),
        "begun": {
            unit: {"entered": one.entered, "states": b64encode(one.states).decode()}
            for unit, one in record.begun.items()
        },
        "shared": {
            name: b64encode(one).decode() for name, one in record.shared.items()
        },
    }
    if record.finishing is None:  # a release that does not know it can read the rest
        del data["finishing"]
    return json.dumps(data, separators=(",", ":")).encode()


def from_json(data: bytes) -> Record:
    """Return the record that `to_json` made.

    >>> logs = (Log("u0", "f", 3, {1: 10}),)
    >>> record = Record(3, 7, logs=logs, begun={"u1": IncompleteGroup(2, b"...")})
    >>> from_json(to_json(record)) == record
    True
    """
    found = json.loads(data)
    found.pop("turns", None)  # of format 2
    found.pop("format", None)
    found["sums"] = tuple(PartSum(*one) for one in found.get("sums", ()))
    if found.get("listed") is not None:
        found["listed"] = PartList(*found["listed"])
    found["finished"] = tuple(found["finished"])
    if found.get("finishing") is not None:
        found["finishing"] = tuple(found["finishing"])
    found["parts"] = {sink: tuple(parts) for sink, parts in found["parts"].items()}
    found["manifests"] = tuple(PartList(*one) for one in found.get("manifests", ()))
    found["logs"], found["snapshots"] = files_from_data(found)
    found["begun"] = {
        unit: IncompleteGroup(one["entered"], b64decode(one["states"]))
        for unit, one in found.get("begun", {}).items()
    }
    shared = found.get("shared", {})
    found["shared"] = {name: b64decode(one) for name, one in shared.items()}
    return Record(**found)


def files_to_data(held: Iterable[Log | Snapshot]) -> dict[str, list[Any]]:
    """Return state files as plain data: a list for each, without field names.

    The bytes of a log are those of its buckets from the first to the last, usually
    without a gap.
    """
    logs, snapshots = [], []
    for one in held:
        if isinstance(one, Snapshot):
            snapshots.append([*vars(one).values()])
        else:
            first, last = min(one.sizes, default=0), max(one.sizes, default=-1)
            sizes = [one.sizes.get(bucket, -1) for bucket in range(first, last + 1)]
            logs.append([*(vars(one) | {"sizes": {}}).values(), first, *sizes])
    return {"logs": logs, "snapshots": snapshots}


def files_from_data(
    data: Mapping[str, Any],
) -> tuple[tuple[Log, ...], tuple[Snapshot, ...]]:
    """Return the state files that `files_to_data` was given.

    In formats up to 5 each was an object with its fields.
    """
    logs, snapshots = [], []
    for one in data["logs"]:
        if isinstance(one, dict):
            sizes = {int(bucket): size for bucket, size in one["sizes"].items()}
            logs.append(Log(**{**one, "sizes": sizes}))
        else:
            values, (first, *bytes_) = one[:_LOG_FIELDS], one[_LOG_FIELDS:]
            sizes = {n: size for n, size in enumerate(bytes_, first) if size >= 0}
            logs.append(replace(Log(*values), sizes=sizes))
    for one in data["snapshots"]:
        if isinstance(one, dict):
            version = Stamp(*one.get("version", (one["epoch"], 0)))
            snapshots.append(Snapshot(**{**one, "version": version}))
        else:
            made = Snapshot(*one)
            snapshots.append(replace(made, version=Stamp(*made.version)))
    return tuple(logs), tuple(snapshots)


def manifest_to_json(held: Iterable[Log | Snapshot]) -> bytes:
    """Return the content of a manifest."""
    return json.dumps(files_to_data(held), separators=(",", ":")).encode()


def add_manifests(record: Record, directory: Location, seal: Seal) -> Record:
    """Return a record with the files of state that its manifests list."""
    if not record.manifests:
        return record
    logs: list[Log] = []
    snapshots: list[Snapshot] = []
    for manifest in record.manifests:  # oldest first
        path = directory / "manifests" / manifest.file
        try:
            data = path.read_bytes()
            seal.check(path, data, manifest.digest)
            some, whole = files_from_data(json.loads(data))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise describe_damage(path, error) from error
        logs += some
        snapshots += whole
    logs += record.logs
    snapshots += record.snapshots
    return tidy(replace(record, logs=tuple(logs), snapshots=tuple(snapshots)))


def record_path(directory: Location, epoch: int) -> Location:
    """Return the path of an epoch's record."""
    return directory / "commits" / f"{epoch:09}.json"


def read_record(directory: Location, epoch: int, seal: Seal) -> Record:
    """Return the record of an epoch."""
    path = record_path(directory, epoch)
    try:
        data, has_digest = seal.detach(path, path.read_bytes())
        if not has_digest and "format" in json.loads(data):
            raise describe_damage(path, "its digest is missing")
        record = add_manifests(from_json(data), directory, seal)
        if record.epoch != epoch:
            raise describe_damage(path, f"it is the record of epoch {record.epoch}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise describe_damage(path, error) from error
    return record


def find_epochs(directory: Location) -> list[int]:
    """Return the epochs that have a record, the last one first."""
    paths: Iterable[Location] = (directory / "commits").glob("[0-9]*.json")
    names = (path.stem for path in paths)
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def read_program(directory: Location, seal: Seal) -> dict[str, Any]:
    """Read a checkpoint's description of its program."""
    path = directory / "program.json"
    try:
        written = path.read_bytes()
        kind = json.loads(written).get("format")
    except (OSError, ValueError, AttributeError) as error:
        msg = (
            f"a checkpoint has a program.json; {path} cannot be read: {error}; name the "
            f"directory of a checkpoint, or start again with an empty one"
        )
        raise CheckpointError(msg) from error
    if kind not in _READABLE:
        msg = (
            f"a checkpoint must be of format {FORMAT}; {path} is of format {kind}; use "
            f"the version of Anabranch that made it"
        )
        raise CheckpointError(msg)
    data, has_digest = seal.detach(path, written)
    found: dict[str, Any] = json.loads(data)
    if not {"identity", "program"} <= found.keys() or (
        kind in _SEALED and not has_digest
    ):
        msg = (
            f"a checkpoint must be whole; {path} does not name its program, or has no "
            "digest; start again with an empty directory, or put the file back"
        )
        raise CheckpointError(msg)
    return found
