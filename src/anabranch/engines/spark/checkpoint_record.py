"""What a committed epoch leaves behind: one small record that says all there is to say.

A record names everything that the state after its epoch is made of, so the last one is
enough to go on from, and every file that it does not name can go.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.engines.spark.store import Stamp
from anabranch.errors import CheckpointError

FORMAT = 2  # of the directory


@dataclass(frozen=True)
class Log:
    """A file of changes: by which epoch, and how many bytes in each bucket."""

    unit: str
    file: str
    epoch: int
    sizes: Mapping[int, int]


@dataclass(frozen=True)
class Snapshot:
    """A file of all states of a bucket as they were after an epoch."""

    unit: str
    file: str
    epoch: int
    bucket: int
    keys: int
    size: int


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

    `turns` are the turns that made the epochs since the oldest log. `finished` are the
    operators that have finished, and `ended` numbers what they gave. `parts` are the
    files that this epoch adds to each sink, `part_counts` how many there are with them.
    `begun` are the groups of items, by unit, that have not come to their end.
    When `complete` there is nothing left to do but to round the outputs off.
    """

    epoch: int = 0
    turn: int = 0
    turns: Mapping[int, int] = field(default_factory=dict)
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

    @property
    def stamp(self) -> Stamp:
        """The version of the states."""
        return Stamp(self.epoch, self.turn)

    @property
    def files(self) -> frozenset[tuple[str, str]]:
        """The files of state that are needed, each with its unit."""
        held: tuple[Log | Snapshot, ...] = (*self.logs, *self.snapshots)
        return frozenset((one.unit, one.file) for one in held)

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

    def has_been(self, stamp: Stamp) -> bool:
        """Tell whether states of this version are on the way to this record."""
        return self.turns.get(stamp.epoch) == stamp.turn


def to_json(record: Record) -> bytes:
    """Return a record as JSON."""
    data = {
        **vars(record),
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
    >>> record = Record(3, 7, turns={3: 7}, logs=logs, begun={"u1": Begun(2, b"...")})
    >>> from_json(to_json(record)) == record
    True
    """
    found = json.loads(data)
    found["turns"] = {int(epoch): turn for epoch, turn in found["turns"].items()}
    found["finished"] = tuple(found["finished"])
    found["parts"] = {sink: tuple(parts) for sink, parts in found["parts"].items()}
    logs = []
    for log in found["logs"]:
        sizes = {int(bucket): size for bucket, size in log["sizes"].items()}
        logs.append(Log(log["unit"], log["file"], log["epoch"], sizes))
    found["logs"] = tuple(logs)
    found["begun"] = {
        unit: Begun(one["entered"], b64decode(one["states"]))
        for unit, one in found.get("begun", {}).items()
    }
    found["snapshots"] = tuple(Snapshot(**one) for one in found["snapshots"])
    return Record(**found)


def record_path(directory: Path, epoch: int) -> Path:
    """Return where the record of an epoch is."""
    return directory / "commits" / f"{epoch:09}.json"


def read_record(directory: Path, epoch: int) -> Record:
    """Return the record of an epoch."""
    path = record_path(directory, epoch)
    try:
        return from_json(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = (
            f"a checkpoint must be whole; {path} cannot be read: {error}; "
            f"start anew with an empty directory, or put the file back"
        )
        raise CheckpointError(msg) from error


def last_epoch(directory: Path) -> int | None:
    """Return the last epoch that was committed, if any."""
    names = (directory / "commits").glob("[0-9]*.json")
    return max((int(path.stem) for path in names), default=None)


def read_program(directory: Path) -> dict[str, Any]:
    """Return what a checkpoint says about its program."""
    path = directory / "program.json"
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        msg = f"a checkpoint has a program.json; {path} cannot be read: {error}"
        raise CheckpointError(msg) from error
    if found.get("format") != FORMAT:
        msg = (
            f"a checkpoint must be of format {FORMAT}; {directory} is of format "
            f"{found.get('format')}; use the version of Anabranch that made it"
        )
        raise CheckpointError(msg)
    return found
