"""What workers know of a job, and what the tasks of an epoch are told and exchange."""

from __future__ import annotations

import contextlib
import gc
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from anabranch.epochs.checkpoint.record import (
    FEWEST_BUCKETS,
    Begun,
    Log,
    PartSum,
    Snapshot,
)
from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from anabranch.epochs.intake.intake import Piece, Reached
from anabranch.epochs.layout import SparkLayout, Unit
from anabranch.epochs.pickle import Pickler
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.state.store import EMPTY, Stamp
from anabranch.metrics.load import ThreadSamples
from anabranch.operators.clock import IdlePorts
from anabranch.runtime.ambient import AmbientSettings
from anabranch.runtime.births import Births
from anabranch.runtime.failures import Failure
from anabranch.runtime.verify.rehearsal import Rehearse, Sample
from anabranch.runtime.verify.verifier import Refutation, Verdicts, Verify


@dataclass(frozen=True)
class Spec:
    """What stays the same for a whole job: the layout and the directories."""

    job: str
    layout: SparkLayout
    resilient: bool
    state_directory: str  # of this host, without a checkpoint
    outputs: dict[str, str]  # file sink -> directory of its parts
    settings: AmbientSettings  # of the thread that started the program
    checkpoint: str | None = None
    identity: str = ""  # of the checkpoint
    scratch: str = ""  # where the driver and workers of its host meet
    verify: Verify = "off"
    verdicts: Verdicts = field(default_factory=dict)
    seal: Seal = NO_KEY
    item_timeout_s: float | None = None

    @property
    def states(self) -> Path:
        """Where this host has the states; after a restart, where it had them."""
        if self.checkpoint is None:
            return Path(self.state_directory)
        return local_directory(self.identity)


@dataclass(frozen=True)
class WorkerJob:
    """A job in a process: what was shipped, and what follows from it."""

    spec: Spec
    pickler: Pickler
    marked: frozenset[str]  # operators whose outputs may carry punctuations
    rehearse: Rehearse | None = None  # computes some items of a batch again


ROW_ARROW = pa.schema(
    [
        ("dest", pa.int32()),
        ("unit", pa.int32()),
        ("channel", pa.int32()),
        ("entry", pa.int32()),
        ("payload", pa.binary()),
    ]
)


Place: TypeAlias = tuple[Unit, int]  # a unit and one of its replicas

_MOST_KEY_COUNTS = 1 << 13  # of all replicas of a unit that send, together
REPORT = -1  # instead of a unit: what a task has to say to the driver
ALONG = -3  # instead of a unit: items on their way to the next part of a unit
ALONG_CHUNK = -5  # the same: there is nothing more of this chunk on any stream
ALONG_FILLER = -6  # the same: pushes what came before out of a buffer
ALONG_END = -4  # the same, and the last: what the parts so far have changed and report
TO_DRIVER = -2  # instead of a unit: items of a sink that the driver serves


@dataclass(frozen=True)
class Share:
    """What one replica of a unit takes in beside the rows from other tasks.

    `pieces` of sources; `blobs` that the driver passes on, by entry; `injected` items
    that go in after an operator that has finished.
    """

    pieces: tuple[Piece, ...] = ()
    blobs: tuple[tuple[int, bytes], ...] = ()
    injected: bytes | None = None


def deal_evenly(buckets: int, replicas: int) -> tuple[int, ...]:
    """Return which replica owns each bucket where all have the same share.

    >>> deal_evenly(8, 3)
    (0, 0, 0, 1, 1, 1, 2, 2)
    """
    return tuple(bucket * replicas // buckets for bucket in range(buckets))


@dataclass(frozen=True)
class KeyCounts:
    """The items that a task has sent to a unit: of each bucket, and of frequent keys."""

    buckets: Mapping[int, int]
    keys: Mapping[Any, int] = field(default_factory=dict)  # where they are watched


@dataclass(frozen=True)
class TaskStage:
    """A stage of an epoch: which levels its tasks run, and which the next stage runs.

    `channels` is the number of replicas of each unit; it is one where the stage has
    several levels. `part` is the number of a worker of the task, where units are cut.
    The states of a unit with a key have so many `buckets`; `tables` say which replica
    owns which of them, where they are not dealt out evenly. Keys that go to a unit in
    `watched` are counted.
    """

    levels: range
    channels: tuple[int, ...]
    then: range = range(0)
    part: int = 0
    buckets: int = FEWEST_BUCKETS
    tables: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    watched: frozenset[int] = frozenset()

    def table_of(self, unit: int) -> tuple[int, ...]:
        """Return which replica of a unit owns each bucket of keys."""
        if unit in self.tables:
            return self.tables[unit]
        return deal_evenly(self.buckets, self.channels[unit])

    def count_buckets(self, unit: Unit) -> int:
        """Return how many buckets the states of a unit have."""
        return self.buckets if unit.key else 1

    def buckets_of(self, unit: Unit, channel: int) -> list[int]:
        """Return the buckets that a replica owns.

        >>> unit = Unit("u0", 0, 0, (), (), key=("symbol",))
        >>> stage = TaskStage(range(1), (2,), buckets=4, tables={0: (1, 1, 0, 1)})
        >>> [stage.buckets_of(unit, n) for n in range(2)]
        [[2], [0, 1, 3]]
        """
        if not unit.key:
            return [0]
        table = self.table_of(unit.number)
        return [bucket for bucket, owner in enumerate(table) if owner == channel]

    def reports_keys(self, sender: Unit, channel: int) -> bool:
        """Tell whether a replica tells the driver to which buckets it has sent items.

        Each has something to say about every bucket. So where there are many of both,
        a few replicas speak for all.

        >>> unit = Unit("u0", 0, 0, (), ())
        >>> few, many = TaskStage(range(1), (8,)), TaskStage(range(1), (64,), buckets=4096)
        >>> [sum(one.reports_keys(unit, n) for n in range(64)) for one in (few, many)]
        [64, 2]
        """
        counts = self.channels[sender.number] * self.buckets
        return channel % max(1, counts // _MOST_KEY_COUNTS) == 0

    def places(self, layout: SparkLayout, levels: range) -> list[tuple[Place, ...]]:
        """Return the places that each partition of a stage runs, in order."""
        return [
            tuple((unit, channel) for unit in units)
            for units in layout.together(levels)
            for channel in range(self.channels[units[0].number])
        ]


@dataclass(frozen=True)
class EpochAttempt:
    """An attempt of a task of an epoch: the states it begins with, and its names.

    The epoch follows the commit `base`, in try number `turn`; `spark_id` is Spark's id
    of the attempt, and what it writes carries it in its name. `versions`, by unit, are
    those of the buckets that have ever changed. Buckets in `snapshots`, by unit, are
    also written whole. Parts of files go to `parts_directory` below that of their sink.
    Between the commit and this epoch are those whose tries, by turn, are `pending`: they
    still run, and this task begins with what they make.
    """

    base: Stamp = EMPTY
    turn: int = 0
    pending: tuple[int, ...] = ()
    spark_id: int = 0
    versions: Mapping[str, Mapping[int, Stamp]] = field(default_factory=dict)
    snapshots: frozenset[tuple[str, int]] = frozenset()
    parts_directory: str = ""

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return self.base.epoch + len(self.pending) + 1

    @property
    def pending_stamps(self) -> tuple[Stamp, ...]:
        """The versions that this process makes in the epochs that still run.

        >>> EpochAttempt(Stamp(3, 7), turn=10, pending=(8, 9), spark_id=42).pending_stamps
        (Stamp(epoch=4, turn=8, attempt=42), Stamp(epoch=5, turn=9, attempt=42))
        """
        return tuple(
            Stamp(epoch, turn, self.spark_id)
            for epoch, turn in enumerate(self.pending, self.base.epoch + 1)
        )

    @property
    def stamp(self) -> Stamp:
        """The version of the states that this attempt makes."""
        return Stamp(self.epoch, self.turn, self.spark_id)

    def version_of(self, unit: Unit, bucket: int) -> Stamp:
        """Return the version of a bucket as of the last commit."""
        return self.versions.get(unit.name, {}).get(bucket, EMPTY)

    def __getstate__(self) -> dict[str, Any]:
        """Return plain data: there may be thousands of versions."""
        versions = {unit: _group(some) for unit, some in self.versions.items()}
        return {**vars(self), "versions": versions}

    def __setstate__(self, state: dict[str, Any]) -> None:
        versions = {unit: _ungroup(some) for unit, some in state["versions"].items()}
        vars(self).update({**state, "versions": versions})


# The buckets of each version, as plain data.
_Grouped: TypeAlias = list[tuple[tuple[int, ...], list[int]]]


def _group(versions: Mapping[int, Stamp]) -> _Grouped:
    found: dict[Stamp, list[int]] = {}
    for bucket, version in versions.items():
        found.setdefault(version, []).append(bucket)
    return [(tuple(version), buckets) for version, buckets in found.items()]


def _ungroup(grouped: _Grouped) -> dict[int, Stamp]:
    return {
        bucket: version
        for found, buckets in grouped
        for version in [Stamp(*found)]
        for bucket in buckets
    }


@dataclass(frozen=True)
class WarmUp:
    """The units get ready and do nothing."""


@dataclass(frozen=True)
class ProcessRows:
    """The rows of an epoch go through the program.

    `begun` are the groups, by unit, that the epoch before has left incomplete. Units in
    `cuts` are run by several workers of a task, one more than there are operators that
    they are cut before; all other units run in the first. Rows from the place `until`
    on are left out: there, a try before has failed.
    """

    rows: range
    begun: Mapping[str, Begun] = field(default_factory=dict)
    cuts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    until: tuple[int, ...] | None = None

    def end_of(self, source: int) -> float:
        """Return the number from which on the rows of a source are left out."""
        if self.until is None:
            return math.inf
        number, *which = self.until
        return number + (bool(which) and source < which[0])


@dataclass(frozen=True)
class FinishOperators:
    """Operators give their last outputs, at the end of the stream; nobody takes them.

    Those in `held` give what they hold instead: the driver has their rounds run.
    """

    operators: tuple[str, ...]
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class InjectOutputs:
    """The last outputs of an operator go through the rest of the program."""

    operator: str
    rows: range
    begun: Mapping[str, Begun] = field(default_factory=dict)


Mode: TypeAlias = WarmUp | ProcessRows | FinishOperators | InjectOutputs


@dataclass(frozen=True)
class EpochTask:
    """The same for all tasks of one stage of an epoch.

    When `profiling`, the workers watch themselves and report what they have seen.
    `shared` is what all replicas of an operator see alike, as of the epoch before. Inputs
    in `idle` do not hold clocks back in this epoch.
    """

    stage: TaskStage
    attempt: EpochAttempt
    mode: Mode
    shares: Mapping[tuple[int, int], Share] = field(default_factory=dict)
    profiling: bool = False
    shared: Mapping[str, Any] = field(default_factory=dict)  # by operator
    idle: IdlePorts = field(default_factory=dict)

    @property
    def rows(self) -> range:
        """The numbers of the rows of the epoch."""
        match self.mode:
            case ProcessRows(rows=rows) | InjectOutputs(rows=rows):
                return rows
        return range(0)

    @property
    def begun(self) -> Mapping[str, Begun]:
        """The groups, by unit, that the epoch before has left incomplete."""
        match self.mode:
            case ProcessRows(begun=begun) | InjectOutputs(begun=begun):
                return begun
        return {}

    @property
    def cuts(self) -> Mapping[int, tuple[str, ...]]:
        """The units that several workers run, with the operators they are cut before."""
        return self.mode.cuts if isinstance(self.mode, ProcessRows) else {}

    def end_of(self, source: int) -> float:
        """Return the number from which on the rows of a source are left out."""
        if isinstance(self.mode, ProcessRows):
            return self.mode.end_of(source)
        return math.inf


@dataclass(frozen=True)
class Report:
    """What a task tells the driver when it is done.

    Of several attempts of a task the report of one arrives. What it names counts: the
    `versions` of buckets that it has made, `parts`, `logs` and `snapshots`.
    """

    unit: int
    channel: int
    read: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    finished: Mapping[str, Sequence[tuple[bytes, list[Any]]]] = field(
        default_factory=dict
    )  # operator -> what it gives at the end, each with what tells its order
    error: BaseException | None = None
    cause: BaseException | None = None  # of `error`: it does not travel by itself
    refuted: tuple[Refutation, ...] = ()
    rehearsed: tuple[Sample, ...] = ()  # for the driver to compute again
    seconds: float = 0.0
    parts: Mapping[str, str] = field(default_factory=dict)  # sink -> file
    sums: tuple[PartSum, ...] = ()  # of these, with a checkpoint
    versions: Mapping[int, Stamp] = field(default_factory=dict)  # bucket -> new one
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    opened: int = 0  # buckets of states
    restored: int = 0  # of these, since their host had not what the epoch begins with
    samples: tuple[ThreadSamples, ...] = ()
    begun: Begun | None = None
    # by operator, items in columns, and in Python where they may be in columns
    ran: dict[str, tuple[int, int]] = field(default_factory=dict)
    reached: Mapping[str, Sequence[tuple[str, Reached]]] = field(
        default_factory=dict
    )  # source -> how far its partitions were read
    births: Mapping[str, Births] = field(default_factory=dict)  # since 1970, by source
    sent: Mapping[int, KeyCounts] = field(default_factory=dict)  # to units with a key
    shared: Mapping[str, Any] = field(default_factory=dict)  # by operator

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is as it mostly is: the driver gets thousands of these."""
        return {n: one for n, one in vars(self).items() if one != _USUAL.get(n, ...)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**_USUAL, **state})


_USUAL = {
    n: one for n, one in vars(Report(0, 0)).items() if n not in ("unit", "channel")
}


def _load_snapshot(values: Sequence[Any]) -> Snapshot:
    made = Snapshot(*values)
    return replace(made, version=Stamp(*made.version))


_PLAIN_HEAD = b"\0"  # no pickle begins with it
_TO_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "versions": _group,
    "logs": lambda logs: [tuple(vars(one).values()) for one in logs],
    "snapshots": lambda some: [
        tuple(tuple(v) if isinstance(v, Stamp) else v for v in vars(one).values())
        for one in some
    ],
    "sums": lambda sums: [tuple(one) for one in sums],
    "sent": lambda sent: {unit: dict(one.buckets) for unit, one in sent.items()},
}
_FROM_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "versions": _ungroup,
    "logs": lambda logs: tuple(Log(*one) for one in logs),
    "snapshots": lambda some: tuple(map(_load_snapshot, some)),
    "sums": lambda sums: tuple(PartSum(*one) for one in sums),
    "sent": lambda sent: {unit: KeyCounts(one) for unit, one in sent.items()},
}
_NO_OBJECTS = frozenset(
    ("unit", "channel", "read", "written", "seconds", "parts", "opened", "restored")
) | frozenset(_TO_PLAIN)


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Have nobody look for garbage in the block, which makes many objects and none.

    With the files of thousands of replicas in memory, to look takes longer than all else
    that the driver does. No code of the user's may run in the block.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def dump_report(report: Report, pickler: Pickler) -> bytes:
    """Return a report as bytes.

    Most hold nothing but numbers and names. These are plain data, which takes the driver
    a fraction of the time to read; it gets thousands of them.
    """
    state = report.__getstate__()
    if not _NO_OBJECTS.issuperset(state) or any(
        one.keys for one in report.sent.values()
    ):
        return pickler.dumps(report)
    for name in _TO_PLAIN.keys() & state.keys():
        state[name] = _TO_PLAIN[name](state[name])
    return _PLAIN_HEAD + pickle.dumps(state, pickle.HIGHEST_PROTOCOL)


def load_report(data: bytes | memoryview, pickler: Pickler) -> Report:
    """Return the report of `dump_report`.

    >>> report = Report(1, 2, read={"in": 3}, versions={7: Stamp(3, 1, 9)})
    >>> load_report(dump_report(report, pickler=None), pickler=None) == report
    True
    """
    if data[:1] != _PLAIN_HEAD:
        found: Report = pickler.loads(data)
        return found
    state = pickle.loads(data[1:])
    for name in _FROM_PLAIN.keys() & state.keys():
        state[name] = _FROM_PLAIN[name](state[name])
    report = object.__new__(Report)
    report.__setstate__(state)
    return report
