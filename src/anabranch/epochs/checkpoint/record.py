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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from anabranch.connectors.storage import Location
from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.state.buckets import (
    EMPTY,
    Ranges,
    Stamp,
    Versions,
    divide_ranges,
    is_within,
    to_ranges,
)
from anabranch.errors import CheckpointError

FORMAT = 7  # of the directory
# 2: logs do not name their attempts. 2, 3: pickles name our modules (`stable_names`).
# 2, 3, 4: no digests. 2 to 5: 16 buckets, and no manifests. 2 to 6: a snapshot is of one
# bucket, and a log lists the bytes of each.
_SEALED = (5, 6, FORMAT)  # with digests
_READABLE = (2, 3, 4, *_SEALED)

FEWEST_BUCKETS = 16  # as many as formats up to 5 always had


class Log(NamedTuple):
    """A file of changes: its epoch, the buckets with its version, and its bytes.

    Not all of these buckets need have changes. `turn` and `attempt` identify the task
    that wrote it. `buckets` is the number of buckets at the time.
    """

    unit: str
    file: str
    epoch: int
    held: Ranges
    size: int
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

        >>> log = Log("u0", "f", 1, ((3, 4),), 10, buckets=16)
        >>> log.covers(3), log.covers(19), log.covers(20)
        (True, True, False)
        """
        return is_within(bucket % self.buckets, self.held)


class Snapshot(NamedTuple):
    """A file with all states of some buckets after an epoch.

    Their `version` may be of an earlier epoch, if they have not changed since. `buckets`
    is the number of buckets at the time.
    """

    unit: str
    file: str
    epoch: int
    held: Ranges
    keys: int
    size: int
    version: Stamp = EMPTY
    digest: str | None = None
    buckets: int = FEWEST_BUCKETS

    def covers(self, bucket: int) -> bool:
        """Tell whether it holds a bucket, or the one it was split from."""
        return is_within(bucket % self.buckets, self.held)


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

    `entered` counts its items so far; `states` has the pickled items that wait before each
    block.
    """

    entered: int
    states: bytes


_OLD_LOG_FIELDS = 8  # of format 6, before the sizes
_File = TypeVar("_File", Log, Snapshot)


@dataclass(frozen=True)
class Record:
    """The job after an epoch.

    `finished` are the operators that have finished, and `ended` numbers their last
    outputs. `finishing` is one that has finished for some of its keys: up to a rank, in
    hex. `parts` are the files, as their tasks named them, that this epoch adds to each
    sink; `part_counts` is the total with them. `sums` are the parts published last, and
    `listed` names the file that lists those before them. `delivery_file` is the file
    with the items of this epoch for sinks, until it is marked as delivered, and
    `delivery` its digest. `sink_epochs` are, for each sink of `write`, the epochs that
    may be the last it has: before this delivery, and after it; `resilient` tells whether
    the job goes on after failures. `begun` are the incomplete groups of
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
    delivery_file: str | None = None
    buckets: int = FEWEST_BUCKETS
    manifests: tuple[PartList, ...] = ()
    shared: Mapping[str, bytes] = field(default_factory=dict)
    sink_epochs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    resilient: bool = False

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

    def compare(
        self, before: Record
    ) -> tuple[list[Log | Snapshot], frozenset[tuple[str, str]]]:
        """Return the state files added since the record before, and those it lost.

        The latter by their names. Files that both have are in the same order in both.

        >>> a, b, c = (Log("u0", name, 1, ((0, 1),), 5) for name in "abc")
        >>> added, lost = Record(2, logs=(b, c)).compare(Record(1, logs=(a, b)))
        >>> [one.file for one in added], set(lost)
        (['c'], {('u0', 'a')})
        """
        added: list[Log | Snapshot] = []
        lost: list[Log | Snapshot] = []
        pairs: Sequence[tuple[Sequence[Log | Snapshot], Sequence[Log | Snapshot]]] = (
            (self.logs, before.logs),
            (self.snapshots, before.snapshots),
        )
        for now, then in pairs:
            if now[: len(then)] == then:
                added += now[len(then) :]
                continue
            rest = iter(now)
            next_one = next(rest, None)
            for one in then:
                if one == next_one:
                    next_one = next(rest, None)
                else:
                    lost.append(one)
            if next_one is not None:
                added += [next_one, *rest]
        return added, frozenset((one.unit, one.file) for one in lost)

    def files_of(
        self, unit: str, buckets: Iterable[int]
    ) -> dict[int, list[Log | Snapshot]]:
        """Return the files that make up buckets: a snapshot, and the logs since."""
        wanted = list(buckets)
        own = [one for one in self.held if one.unit == unit]
        snapshots = [one for one in own if isinstance(one, Snapshot)]
        logs = [one for one in own if isinstance(one, Log)]
        found: dict[int, list[Log | Snapshot]] = {}
        for bucket in wanted:
            whole = [one for one in snapshots if one.covers(bucket)]
            last = max(whole, key=attrgetter("epoch"), default=None)
            after = 0 if last is None else last.epoch
            since = [one for one in logs if one.epoch > after and one.covers(bucket)]
            found[bucket] = [*since] if last is None else [last, *since]
        return found

    @cached_property
    def versions(self) -> Mapping[str, Versions]:
        """The versions of buckets, by unit."""
        found: dict[str, list[tuple[Ranges, Stamp]]] = {}
        counts: dict[str, int] = {}
        for one in self.held:
            version = one.version if isinstance(one, Snapshot) else one.stamp
            held = find_buckets(one, self.buckets)
            found.setdefault(one.unit, []).append((held, version))
            counts[one.unit] = 1 if one.buckets == 1 else self.buckets
        return {
            unit: Versions.none(counts[unit]).with_latest(some)
            for unit, some in found.items()
        }


def find_buckets(held: Log | Snapshot, buckets: int) -> Ranges:
    """Return the buckets in a file, by their numbers for the current bucket count.

    >>> find_buckets(Log("u0", "f", 1, ((3, 4),), 10, buckets=16), 64)
    ((3, 4), (19, 20), (35, 36), (51, 52))
    """
    return divide_ranges(held.held, held.buckets, buckets)


def tidy(record: Record, snapshots: Iterable[Snapshot] = ()) -> Record:
    """Return a record with new snapshots and without the files they supersede.

    >>> logs = Log("u0", "a", 1, ((0, 1),), 5), Log("u0", "b", 2, ((0, 1),), 5)
    >>> record = Record(2, logs=logs)
    >>> new = Snapshot("u0", "s", 1, ((0, 1),), 1, 5)
    >>> [log.file for log in tidy(record, [new]).logs]
    ['b']
    """
    whole = (*record.snapshots, *snapshots)
    last: dict[str, list[int]] = {}  # unit -> bucket -> the last snapshot's place
    for place, one in enumerate(whole):
        places = last.setdefault(one.unit, [-1] * record.buckets)
        for first, end in find_buckets(one, record.buckets):
            places[first:end] = [
                place if before < 0 or one.epoch >= whole[before].epoch else before
                for before in places[first:end]
            ]
    epochs = {
        unit: [0 if place < 0 else whole[place].epoch for place in places]
        for unit, places in last.items()
    }
    newest = {unit: max(some) for unit, some in epochs.items()}
    oldest: dict[tuple[str, Ranges, int], int] = {}  # most logs of a replica are alike

    def is_needed(log: Log) -> bool:
        if log.epoch > newest.get(log.unit, -1):
            return True
        place = log.unit, log.held, log.buckets
        if place not in oldest:
            oldest[place] = find_oldest(log, epochs[log.unit])
        return log.epoch > oldest[place]

    logs = tuple(filter(is_needed, record.logs))
    kept = sorted({place for places in last.values() for place in places} - {-1})
    return replace(record, snapshots=tuple(whole[place] for place in kept), logs=logs)


def find_oldest(log: Log, epochs: Sequence[int]) -> int:
    """Return the epoch of the oldest last snapshot of a log's buckets."""
    held = log.held
    if log.buckets not in (1, len(epochs)):
        held = divide_ranges(held, log.buckets, len(epochs))
    if len(held) == 1:
        ((first, end),) = held
        return min(epochs[first:end])
    return min(min(epochs[first:end]) for first, end in held)


def count_as_one(record: Record, units: Collection[str]) -> Record:
    """Return a record in which unkeyed states of these units have one bucket.

    Formats up to 5 did not distinguish them.
    """

    def as_one(held: _File) -> _File:
        return held._replace(buckets=1) if held.unit in units else held

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
    if not record.sink_epochs:
        del data["resilient"]
    for name in ("finishing", "sink_epochs"):
        if not data[name]:  # a release that does not know it can read the rest
            del data[name]
    return json.dumps(data, separators=(",", ":")).encode()


def from_json(data: bytes) -> Record:
    """Return the record that `to_json` made.

    >>> logs = (Log("u0", "f", 3, ((1, 2),), 10),)
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
    epochs = found.get("sink_epochs", {})
    found["sink_epochs"] = {sink: tuple(some) for sink, some in epochs.items()}
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
    """Return state files as plain data: a list for each, without field names."""
    logs: list[Any] = []
    snapshots: list[Any] = []
    for one in held:
        (logs if isinstance(one, Log) else snapshots).append(one)
    return {"logs": logs, "snapshots": snapshots}


def files_from_data(
    data: Mapping[str, Any],
) -> tuple[tuple[Log, ...], tuple[Snapshot, ...]]:
    """Return the state files that `files_to_data` was given, or an earlier release."""
    logs = tuple(map(_load_log, data["logs"]))
    return logs, tuple(map(load_snapshot, data["snapshots"]))


def _load_log(data: Any) -> Log:
    """Return a log; formats up to 6 had the bytes of each bucket.

    In formats up to 5 it was an object with its fields.
    """
    if isinstance(data, dict):
        sizes = {int(bucket): size for bucket, size in data["sizes"].items()}
        rest = {name: one for name, one in data.items() if name != "sizes"}
        return Log(**rest, held=to_ranges(sizes), size=sum(sizes.values()))
    if not isinstance(data[3], dict):
        unit, file, epoch, held, *others = data
        return Log(unit, file, epoch, _as_ranges(held), *others)
    values, (first, *bytes_) = data[:_OLD_LOG_FIELDS], data[_OLD_LOG_FIELDS:]
    sizes = {n: size for n, size in enumerate(bytes_, first) if size >= 0}
    unit, file, epoch, _, *others = values
    return Log(unit, file, epoch, to_ranges(sizes), sum(sizes.values()), *others)


def load_snapshot(data: Any) -> Snapshot:
    """Return a snapshot; in formats up to 6 it was of one bucket."""
    if isinstance(data, dict):
        version = Stamp(*data.get("version", (data["epoch"], 0)))
        rest = {name: one for name, one in data.items() if name != "bucket"}
        held = ((data["bucket"], data["bucket"] + 1),)
        return Snapshot(**{**rest, "held": held, "version": version})
    unit, file, epoch, held, keys, size, version, *others = data
    ranges = ((held, held + 1),) if isinstance(held, int) else _as_ranges(held)
    return Snapshot(unit, file, epoch, ranges, keys, size, Stamp(*version), *others)


def _as_ranges(data: Iterable[Sequence[int]]) -> Ranges:
    return tuple((first, end) for first, end in data)


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
