"""What a committed epoch leaves behind: one small record that says all there is to say.

A record names everything that the state after its epoch is made of, so the last one is
enough to go on from, and every file that it does not name can go.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.state.store import EMPTY, Stamp
from anabranch.errors import CheckpointError

FORMAT = 5  # of the directory
# 2: logs do not name their attempts. 2, 3: pickles name our modules (`stable_names`).
# 2, 3, 4: nothing has a digest.
_READABLE = (2, 3, 4, FORMAT)


@dataclass(frozen=True)
class Log:
    """A file of changes: by which epoch, and how many bytes in each bucket.

    `turn` and `attempt` tell which of the tasks that ran for the epoch has written it.
    """

    unit: str
    file: str
    epoch: int
    sizes: Mapping[int, int]
    turn: int = 0
    attempt: int = 0
    digest: str | None = None

    @property
    def stamp(self) -> Stamp:
        """The version that its buckets have with these changes."""
        return Stamp(self.epoch, self.turn, self.attempt)


@dataclass(frozen=True)
class Snapshot:
    """A file of all states of a bucket as they were after an epoch.

    Their `version` may be of an earlier epoch, if the bucket has not changed since.
    """

    unit: str
    file: str
    epoch: int
    bucket: int
    keys: int
    size: int
    version: Stamp = EMPTY
    digest: str | None = None


class PartSum(NamedTuple):
    """A part of an output as it was written: its sink, name, bytes and digest."""

    sink: str
    part: str
    size: int
    digest: str


class PartList(NamedTuple):
    """A file of the checkpoint that lists parts, and its digest."""

    file: str
    digest: str


@dataclass(frozen=True)
class Begun:
    """A group of a unit with blocks that an epoch has left incomplete.

    So many of its items have entered; `states` is what waits before each block, pickled.
    """

    entered: int
    states: bytes


@dataclass(frozen=True)
class Record:
    """The job after an epoch.

    `finished` are the operators that have finished, and `ended` numbers what they gave.
    `parts` are the files, as their tasks named them, that this epoch adds to each sink;
    `part_counts` is how many there are with them.
    `sums` are the parts that were published last, and `listed` names the file that
    lists those before them. `delivery` is the digest of what waits for sinks outside.
    `begun` are the groups of items, by unit, that have not come to their end.
    When `complete` there is nothing left to do but to round the outputs off.
    """

    epoch: int = 0
    turn: int = 0
    positions: Mapping[str, Any] = field(default_factory=dict)
    ended: int | None = None
    finished: tuple[str, ...] = ()
    complete: bool = False
    read: Mapping[str, int] = field(default_factory=dict)
    delivered: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    part_counts: Mapping[str, int] = field(default_factory=dict)
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    begun: Mapping[str, Begun] = field(default_factory=dict)
    sums: tuple[PartSum, ...] = ()
    listed: PartList | None = None
    delivery: str | None = None

    @property
    def stamp(self) -> Stamp:
        """The epoch, and the try of it that was committed."""
        return Stamp(self.epoch, self.turn)

    @property
    def files(self) -> frozenset[tuple[str, str]]:
        """The files of state that are needed, each with its unit."""
        return frozenset((one.unit, one.file) for one in self.held)

    @property
    def held(self) -> tuple[Log | Snapshot, ...]:
        """All logs and snapshots."""
        return *self.logs, *self.snapshots

    def files_of_bucket(self, unit: str, bucket: int) -> list[Log | Snapshot]:
        """Return the files that a bucket is made of: its snapshot, and the logs since."""
        snapshot = self.snapshot_of(unit, bucket)
        if snapshot is None:
            return [*self.logs_of(unit, bucket, 0)]
        return [snapshot, *self.logs_of(unit, bucket, snapshot.epoch)]

    def snapshot_of(self, unit: str, bucket: int) -> Snapshot | None:
        """Return the snapshot of a bucket, if there is one."""
        for one in self.snapshots:
            if (one.unit, one.bucket) == (unit, bucket):
                return one
        return None

    def logs_of(self, unit: str, bucket: int, after: int) -> list[Log]:
        """Return the logs of a bucket after an epoch, oldest first."""
        return [
            log
            for log in self.logs
            if log.unit == unit and bucket in log.sizes and log.epoch > after
        ]

    def version_of(self, unit: str, bucket: int) -> Stamp:
        """Return the version of a bucket: that of its last change."""
        return self.versions.get(unit, {}).get(bucket, EMPTY)

    @cached_property
    def versions(self) -> Mapping[str, Mapping[int, Stamp]]:
        """The version of each bucket that has ever changed, by unit."""
        found: dict[str, dict[int, Stamp]] = {}
        for one in self.snapshots:
            found.setdefault(one.unit, {})[one.bucket] = one.version
        for log in self.logs:  # oldest first
            buckets = found.setdefault(log.unit, {})
            for bucket in log.sizes:
                buckets[bucket] = max(log.stamp, buckets.get(bucket, EMPTY))
        return found

    def leads_from(self, unit: str, bucket: int, version: Stamp) -> bool:
        """Tell whether the logs, put over `version` of a bucket, give that of today."""
        snapshot = self.snapshot_of(unit, bucket)
        if version == (EMPTY if snapshot is None else snapshot.version):
            return True
        oldest = 0 if snapshot is None else snapshot.epoch
        logs = self.logs_of(unit, bucket, oldest)
        return any(log.stamp == version for log in logs)


def to_json(record: Record) -> bytes:
    """Return a record as JSON."""
    data = {
        "format": FORMAT,
        **{one.name: getattr(record, one.name) for one in fields(record)},
        "logs": [vars(log) for log in record.logs],
        "snapshots": [vars(snapshot) for snapshot in record.snapshots],
        "begun": {
            unit: {"entered": one.entered, "states": b64encode(one.states).decode()}
            for unit, one in record.begun.items()
        },
    }
    return json.dumps(data, separators=(",", ":")).encode()


def from_json(data: bytes) -> Record:
    """Return the record that `to_json` made.

    >>> logs = (Log("u0", "f", 3, {1: 10}),)
    >>> record = Record(3, 7, logs=logs, begun={"u1": Begun(2, b"...")})
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
    found["parts"] = {sink: tuple(parts) for sink, parts in found["parts"].items()}
    logs = []
    for log in found["logs"]:
        sizes = {int(bucket): size for bucket, size in log["sizes"].items()}
        logs.append(Log(**{**log, "sizes": sizes}))
    found["logs"] = tuple(logs)
    found["begun"] = {
        unit: Begun(one["entered"], b64decode(one["states"]))
        for unit, one in found.get("begun", {}).items()
    }
    found["snapshots"] = tuple(
        Snapshot(**{**one, "version": Stamp(*one.get("version", (one["epoch"], 0)))})
        for one in found["snapshots"]
    )
    return Record(**found)


def record_path(directory: Path, epoch: int) -> Path:
    """Return where the record of an epoch is."""
    return directory / "commits" / f"{epoch:09}.json"


def read_record(directory: Path, epoch: int, seal: Seal) -> Record:
    """Return the record of an epoch."""
    path = record_path(directory, epoch)
    try:
        data, has_digest = seal.detach(path, path.read_bytes())
        if not has_digest and "format" in json.loads(data):
            raise describe_damage(path, "its digest is missing")
        record = from_json(data)
        if record.epoch != epoch:
            raise describe_damage(path, f"it is the record of epoch {record.epoch}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise describe_damage(path, error) from error
    return record


def find_epochs(directory: Path) -> list[int]:
    """Return the epochs that have a record, the last one first."""
    paths = (directory / "commits").glob("[0-9]*.json")
    names = (path.stem for path in paths)
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def read_program(directory: Path, seal: Seal) -> dict[str, Any]:
    """Return what a checkpoint says about its program."""
    path = directory / "program.json"
    try:
        written = path.read_bytes()
        kind = json.loads(written).get("format")
    except (OSError, ValueError, AttributeError) as error:
        msg = (
            f"a checkpoint has a program.json; {path} cannot be read: {error}; name the "
            f"directory of a checkpoint, or start anew with an empty one"
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
        kind == FORMAT and not has_digest
    ):
        msg = (
            f"a checkpoint must be whole; {path} does not say of which program it is, or "
            f"has no digest; start anew with an empty directory, or put the file back"
        )
        raise CheckpointError(msg)
    return found
