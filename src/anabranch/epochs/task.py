"""The specification of a job for workers, and the messages of an epoch's tasks."""

from __future__ import annotations

import contextlib
import gc
import itertools
import marshal
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.epochs.checkpoint.record import (
    FEWEST_BUCKETS,
    IncompleteGroup,
    Log,
    Snapshot,
    load_snapshot,
)
from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from anabranch.epochs.intake.intake import Piece, Reached, Surveyed
from anabranch.epochs.layout import EpochLayout, Unit
from anabranch.epochs.state.buckets import EMPTY, Ranges, Stamp, VersionsOf
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.transport.module_contents import ModuleContents, Variable
from anabranch.epochs.transport.pickle import Pickler
from anabranch.graph.graph import Edge
from anabranch.metrics.load import ThreadSamples
from anabranch.operators.clock import IdlePorts
from anabranch.operators.sinks import Committing
from anabranch.runtime.ambient import AmbientSettings
from anabranch.runtime.births import Births
from anabranch.runtime.failures import Failure
from anabranch.runtime.keys import rank_bytes
from anabranch.runtime.verify.rehearsal import Rehearse, Sample
from anabranch.runtime.verify.verifier import Refutation, Verdicts, Verify


@dataclass(frozen=True)
class ExternalSinks:
    """The external sinks that workers write, and where their items wait for it.

    `job` identifies all runs of the job. Those `in_parts` are written by all tasks.
    """

    job: str
    directory: str
    sinks: Mapping[str, Committing]
    in_parts: Mapping[str, Committing]


@dataclass(frozen=True)
class Spec:
    """What is constant for a whole job: the layout and the directories."""

    job: str
    layout: EpochLayout
    resilient: bool
    state_directory: str  # of this host, without a checkpoint
    outputs: dict[str, str]  # file sink -> directory of its parts
    settings: AmbientSettings  # of the thread that started the program
    checkpoint: str | None = None
    identity: str = ""  # of the checkpoint
    scratch: str = ""  # where the driver and its host's workers meet
    verify: Verify = "off"
    verdicts: Verdicts = field(default_factory=dict)
    seal: Seal = NO_KEY
    item_timeout_s: float | None = None
    external: ExternalSinks | None = None
    type_numbers: tuple[int, ...] | None = None  # that the checkpoint has given
    contents: ModuleContents = field(default_factory=ModuleContents)
    wanted: tuple[Variable, ...] = ()  # whose values workers do not have

    @property
    def states(self) -> Path:
        """Where this host has the states; after a restart, where it had them."""
        if self.checkpoint is None:
            return Path(self.state_directory)
        return local_directory(self.identity)


@dataclass(frozen=True)
class WorkerJob:
    """A job in a process: what was shipped, and what is derived from it."""

    spec: Spec
    pickler: Pickler
    marked: frozenset[str]  # operators whose outputs may carry punctuations
    rehearse: Rehearse | None = None  # repeats some items of a batch

    @cached_property
    def differing(self) -> tuple[Variable, ...]:
        """The variables of the user's modules that are not as in the driver."""
        return self.spec.contents.find_differences()


ROW_ARROW = pa.schema(
    [
        ("dest", pa.int32()),
        ("unit", pa.int32()),
        ("channel", pa.int32()),
        ("entry", pa.int32()),
        ("payload", pa.binary()),
    ]
)


Numbers: TypeAlias = npt.NDArray[np.int64]
Place: TypeAlias = tuple[Unit, int]  # a unit and one of its replicas

_MOST_KEY_COUNTS = 1 << 13  # of all sending replicas of a unit, together
REPORT = -1  # instead of a unit: a message from a task to the driver
ALONG = -3  # instead of a unit: items for the next part of a unit
ALONG_CHUNK = -5  # the same: the end of this chunk on all streams
ALONG_FILLER = -6  # the same: flushes a buffer
ALONG_END = -4  # the same, and the last: the changes and reports of the parts so far
TO_DRIVER = -2  # instead of a unit: items of a driver sink


@dataclass(frozen=True)
class Share:
    """The input of one replica of a unit, besides the rows from other tasks.

    `pieces` of sources; `blobs` that the driver passes on, by entry; `injected` items
    that enter after a finished operator.
    """

    pieces: tuple[Piece, ...] = ()
    blobs: tuple[tuple[int, bytes], ...] = ()
    injected: bytes | None = None


Shares: TypeAlias = Mapping[tuple[int, int], Share]  # by unit and replica


@lru_cache(maxsize=256)
def deal_evenly(buckets: int, replicas: int) -> tuple[int, ...]:
    """Return the replica of each bucket when all have equal shares.

    >>> deal_evenly(8, 3)
    (0, 0, 0, 1, 1, 1, 2, 2)
    """
    return tuple(bucket * replicas // buckets for bucket in range(buckets))


@lru_cache(maxsize=256)
def replica_of(table: tuple[int, ...]) -> Numbers:
    """Return a table of replicas as an array; one more, the last, is the first replica.

    That is the one for items without a bucket, -1.
    """
    return np.array([*table, 0], np.int64)


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """The items that a task has sent to a unit: per bucket, and of frequent keys."""

    counts: Numbers
    keys: Mapping[Any, int] = field(default_factory=dict)  # where they are watched


@dataclass(frozen=True)
class TaskStage:
    """A stage of an epoch: the levels its tasks run, and those of the next stage.

    `channels` is the number of replicas of each unit; it is one if the stage has
    several levels. `part` is the number of a worker of the task, where units are cut.
    The states of a keyed unit have `buckets` buckets; `tables` assign them to replicas,
    unless they are distributed evenly. Keys sent to a unit in `watched` are counted.
    """

    levels: range
    channels: tuple[int, ...]
    then: range = range(0)
    part: int = 0
    buckets: int = FEWEST_BUCKETS
    tables: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    watched: frozenset[int] = frozenset()

    def table_of(self, unit: int) -> tuple[int, ...]:
        """Return the replica of each bucket of a unit."""
        if unit in self.tables:
            return self.tables[unit]
        return deal_evenly(self.buckets, self.channels[unit])

    def count_buckets(self, unit: Unit) -> int:
        """Return the number of buckets of a unit's states."""
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
        table = replica_of(self.table_of(unit.number))
        owned: list[int] = np.flatnonzero(table[:-1] == channel).tolist()
        return owned

    def reports_keys(self, sender: Unit, channel: int) -> bool:
        """Tell whether a replica reports the buckets to which it has sent items.

        Each report covers every bucket. So with many of both, a few replicas report for
        all.

        >>> unit = Unit("u0", 0, 0, (), ())
        >>> few, many = TaskStage(range(1), (8,)), TaskStage(range(1), (64,), buckets=4096)
        >>> [sum(one.reports_keys(unit, n) for n in range(64)) for one in (few, many)]
        [64, 2]
        """
        counts = self.channels[sender.number] * self.buckets
        return channel % max(1, counts // _MOST_KEY_COUNTS) == 0

    def places(self, layout: EpochLayout, levels: range) -> list[tuple[Place, ...]]:
        """Return the places that each partition of a stage runs, in order."""
        return [
            tuple((unit, channel) for unit in units)
            for units in layout.together(levels)
            for channel in range(self.channels[units[0].number])
        ]


@dataclass(frozen=True)
class EpochAttempt:
    """An attempt of a task of an epoch: its initial states, and its names.

    The epoch follows the commit `base`, in try number `turn`. The engine numbers the
    attempts; the names of files contain `attempt_id`. `versions`, by unit, are those of
    buckets. Those in the stores in `snapshots`, by unit, are also written as snapshots.
    Parts of files go to `parts_directory` below that of their sink. Between the commit
    and this epoch are the tries, by turn, that are `pending`: they still run, and this
    task starts from their states.
    """

    base: Stamp = EMPTY
    turn: int = 0
    pending: tuple[int, ...] = ()
    attempt_id: int = 0
    versions: VersionsOf = field(default_factory=dict)
    snapshots: frozenset[tuple[str, int]] = frozenset()
    parts_directory: str = ""

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return self.base.epoch + len(self.pending) + 1

    @property
    def pending_stamps(self) -> tuple[Stamp, ...]:
        """The versions that this process makes in the epochs still running.

        >>> EpochAttempt(Stamp(3, 7), turn=10, pending=(8, 9), attempt_id=42).pending_stamps
        (Stamp(epoch=4, turn=8, attempt=42), Stamp(epoch=5, turn=9, attempt=42))
        """
        return tuple(
            Stamp(epoch, turn, self.attempt_id)
            for epoch, turn in enumerate(self.pending, self.base.epoch + 1)
        )

    @property
    def stamp(self) -> Stamp:
        """The version of the states that this attempt makes."""
        return Stamp(self.epoch, self.turn, self.attempt_id)

    def versions_of(self, unit: Unit, buckets: Sequence[int]) -> dict[int, Stamp]:
        """Return the versions of buckets as of the last commit."""
        versions = self.versions.get(unit.name)
        return (
            dict.fromkeys(buckets, EMPTY) if versions is None else versions.of(buckets)
        )


@dataclass(frozen=True)
class WarmUp:
    """Prepares the units without running anything."""


@dataclass(frozen=True)
class ProcessRows:
    """Runs the rows of an epoch through the program.

    `begun` are the groups, by unit, that the epoch before has left incomplete. Units in
    `cuts` are run by several workers of a task, one more than there are cut operators;
    all other units run in the first. Rows from the place `until` on are left out: an
    earlier try failed there.
    """

    rows: range
    begun: Mapping[str, IncompleteGroup] = field(default_factory=dict)
    cuts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    until: tuple[int, ...] | None = None

    def end_of(self, source: int) -> float:
        """Return the number from which the rows of a source are left out."""
        if self.until is None:
            return math.inf
        number, *which = self.until
        return number + (bool(which) and source < which[0])


@dataclass(frozen=True)
class KeySpan:
    """Keys that give their last outputs: by rank, behind `after` and up to `until`.

    Of the keys behind these, a replica tells the rank of the one that completes the next
    `most`, if it has more than that. Without `until`, such a replica gives nothing yet.
    """

    most: int
    after: bytes = b""
    until: bytes | None = None

    def choose(self, keys: Sequence[Any]) -> tuple[Sequence[Any], bytes | None]:
        """Return the keys of a replica that are in the span, and that rank.

        >>> span = KeySpan(2, until=rank_bytes((1,)))
        >>> span.choose([3, 0, 4, 1, 2]) == ([0, 1], rank_bytes((3,)))
        True
        >>> KeySpan(2).choose([3, 0, 4]) == ([], rank_bytes((3,)))
        True
        """
        if not self.after and self.until is None and len(keys) <= self.most:
            return keys, None
        ranks = sorted(((rank_bytes((k,)), k) for k in keys), key=itemgetter(0))
        begin = bisect_right(ranks, self.after, key=itemgetter(0))
        if self.until is None:
            if len(ranks) - begin > self.most:
                return [], ranks[begin + self.most - 1][0]
            return [key for _, key in ranks[begin:]], None
        end = bisect_right(ranks, self.until, key=itemgetter(0))
        chosen = [key for _, key in ranks[begin:end]]
        more = len(ranks) - end > self.most
        return chosen, ranks[end + self.most - 1][0] if more else None


@dataclass(frozen=True)
class FinishOperators:
    """Collects the last outputs of operators at the end of the stream; nothing consumes
    them.

    Those in `held` return their contents instead: the driver runs their rounds. Where
    there may be many keys, `spans` say which of them give theirs.
    """

    operators: tuple[str, ...]
    held: frozenset[str] = frozenset()
    spans: Mapping[str, KeySpan] = field(default_factory=dict)  # by operator


@dataclass(frozen=True)
class InjectOutputs:
    """Sends the last outputs of an operator through the rest of the program."""

    operator: str
    rows: range
    begun: Mapping[str, IncompleteGroup] = field(default_factory=dict)


class WrittenPart(NamedTuple):
    """What a task has written for a sink: the number of items, and where they are.

    Items for an external sink are in a file until they are delivered. A part of a file
    sink is one of its files. Other parts are in the sink itself, which `described` them
    in JSON.
    """

    sink: str
    file: str
    items: int
    digest: str = ""
    described: str | None = None
    size: int = 0  # of a part of a file sink, in bytes


@dataclass(frozen=True)
class DeliverItems:
    """Delivers the items of a committed epoch to external sinks.

    The replicas of `unit` do it, one for each sink. `before` are the epochs that this
    run has delivered last, by sink; files that are `done` are no longer needed. An
    earlier try may have delivered some of it if it is tried `again`.
    """

    stamp: Stamp
    unit: int
    files: Mapping[str, tuple[WrittenPart, ...]]  # by sink
    before: Mapping[str, int] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    again: bool = False


Mode: TypeAlias = WarmUp | ProcessRows | FinishOperators | InjectOutputs | DeliverItems


@dataclass(frozen=True)
class EpochTask:
    """The common part of all tasks of one stage of an epoch.

    When `profiling`, the workers sample themselves and report the samples. `shared` is
    what all replicas of an operator see alike, as of the epoch before. Inputs in `idle`
    do not hold clocks back in this epoch.
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
        """The row numbers of the epoch."""
        match self.mode:
            case ProcessRows(rows=rows) | InjectOutputs(rows=rows):
                return rows
        return range(0)

    @property
    def begun(self) -> Mapping[str, IncompleteGroup]:
        """The groups, by unit, that the epoch before has left incomplete."""
        match self.mode:
            case ProcessRows(begun=begun) | InjectOutputs(begun=begun):
                return begun
        return {}

    @property
    def cuts(self) -> Mapping[int, tuple[str, ...]]:
        """The units that several workers run, with the operators they are cut
        before.
        """
        return self.mode.cuts if isinstance(self.mode, ProcessRows) else {}

    def end_of(self, source: int) -> float:
        """Return the number from which the rows of a source are left out."""
        if isinstance(self.mode, ProcessRows):
            return self.mode.end_of(source)
        return math.inf


@dataclass(frozen=True)
class Report:
    """A task's report to the driver when it is done.

    Of several attempts of a task the report of one arrives. What it names counts: the
    version `stamp` of the buckets that have `changed`, `written`, `logs` and `snapshots`.
    """

    unit: int
    channel: int
    read: Mapping[str, int] = field(default_factory=dict)
    written: tuple[WrittenPart, ...] = ()
    failures: tuple[Failure, ...] = ()
    finished: Mapping[str, Sequence[tuple[bytes, list[Any]]]] = field(
        default_factory=dict
    )  # operator -> its last outputs, with sort keys
    bounds: Mapping[str, bytes] = field(default_factory=dict)  # see `KeySpan`
    error: BaseException | None = None
    cause: BaseException | None = None  # of `error`: it is not pickled with it
    refuted: tuple[Refutation, ...] = ()
    rehearsed: tuple[Sample, ...] = ()  # for the driver to repeat
    differing: tuple[Variable, ...] = ()  # variables of modules, not as in the driver
    seconds: float = 0.0
    changed: Ranges = ()
    stamp: Stamp = EMPTY
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    opened: int = 0  # buckets of states
    restored: int = 0  # of these, restored because their host did not have the version
    samples: tuple[ThreadSamples, ...] = ()
    taken: tuple[int, ...] = ()  # items of each entry of the unit
    passed: Mapping[Edge, int] = field(default_factory=dict)  # if profiled, in Python
    begun: IncompleteGroup | None = None
    # by operator, items in columns, and in Python although columns were possible
    ran: dict[str, tuple[int, int]] = field(default_factory=dict)
    reached: Mapping[str, Sequence[tuple[str, Reached]]] = field(
        default_factory=dict
    )  # source -> progress in its partitions
    births: Mapping[str, Births] = field(default_factory=dict)  # since 1970, by source
    surveyed: Mapping[str, Sequence[Surveyed]] = field(default_factory=dict)
    sent: Mapping[int, KeyCounts] = field(default_factory=dict)  # to keyed units
    shared: Mapping[str, Any] = field(default_factory=dict)  # by operator

    def __getstate__(self) -> dict[str, Any]:
        """Leave out default values: the driver gets thousands of these."""
        return {n: one for n, one in vars(self).items() if one != _USUAL.get(n, ...)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


_USUAL = {
    n: one for n, one in vars(Report(0, 0)).items() if n not in ("unit", "channel")
}
for _name, _value in _USUAL.items():  # for reports that leave them out
    setattr(Report, _name, _value)


def having(reports: Iterable[Report], name: str) -> Iterator[Report]:
    """Yield the reports that say something about a field; most leave most of them out.

    >>> [report.channel for report in having([Report(0, 0), Report(0, 1, opened=3)], "opened")]
    [1]
    """
    return filter(attrgetter(name), reports)


_PICKLE_HEAD = 0x80  # `pickle.PROTO`; no plain data begin with it
_PLAIN = (  # those made of numbers and names
    *("unit", "channel", "seconds", "changed", "stamp", "logs", "opened", "restored"),
    *("read", "written", "snapshots", "sent", "taken"),
)
_TO_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "read": dict,
    "written": lambda parts: [tuple(one) for one in parts],
    "stamp": tuple,
    "logs": lambda logs: [tuple(one) for one in logs],
    "snapshots": lambda some: [(*one[:6], tuple(one[6]), *one[7:]) for one in some],
    "sent": lambda sent: {unit: one.counts.tobytes() for unit, one in sent.items()},
}
_FROM_PLAIN: Sequence[tuple[str, Callable[[Any], Any]]] = (
    ("stamp", partial(tuple.__new__, Stamp)),  # faster than `_make`
    ("logs", lambda logs: tuple([_as_log(one) for one in logs])),
    ("snapshots", lambda some: tuple(map(load_snapshot, some))),
    ("written", lambda parts: tuple(map(WrittenPart._make, parts))),
    ("sent", lambda sent: {unit: _load_counts(one) for unit, one in sent.items()}),
)


@lru_cache(maxsize=256)
def _find_fields(
    named: int,
) -> tuple[Sequence[str], Sequence[tuple[str, Callable[[Any], Any]]]]:
    """Return the fields of a report by a bit for each, and those to convert."""
    names = [name for number, name in enumerate(_PLAIN) if named >> number & 1]
    return names, [(name, load) for name, load in _FROM_PLAIN if name in names]


_as_log: Callable[[Any], Log] = partial(tuple.__new__, Log)


def _as_is(value: Any) -> Any:
    return value


def _load_counts(counts: bytes) -> KeyCounts:
    return KeyCounts(np.frombuffer(counts, np.int64))


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Disable garbage collection in the block, which makes many objects and no garbage.

    With the files of thousands of replicas in memory, a collection takes longer than
    everything else the driver does. No user code may run in the block.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY_OBJECTS:
            _pass_over_young()
        gc.enable()


_MANY_OBJECTS = 10_000  # made by a block; with fewer a collection costs next to nothing
_WHOLE_EVERY = 64  # times that young objects were passed over
_passes = itertools.count(1)


def _pass_over_young() -> None:
    """Make all objects old without visiting them; from time to time collect them all.

    Otherwise the end of the pause would begin a collection of everything that the block
    has made. Objects that the user has frozen stay so.
    """
    if gc.get_freeze_count():
        return
    if next(_passes) % _WHOLE_EVERY == 0:
        gc.collect()
        return
    gc.freeze()
    gc.unfreeze()


def dump_report(report: Report, pickler: Pickler) -> bytes:
    """Return a report as bytes.

    Most contain only numbers and names. These are plain data, which the driver reads in
    a fraction of the time; it gets thousands of them.
    """
    state = report.__getstate__()
    named = [number for number, name in enumerate(_PLAIN) if name in state]
    if len(named) < len(state) or any(one.keys for one in report.sent.values()):
        return pickler.dumps(report)
    values = [_TO_PLAIN.get(_PLAIN[n], _as_is)(state[_PLAIN[n]]) for n in named]
    try:
        return marshal.dumps((*values, sum(1 << n for n in named)))
    except ValueError:  # a number of NumPy, for example
        return pickler.dumps(report)


def load_report(data: bytes | memoryview, pickler: Pickler) -> Report:
    """Return the report of `dump_report`.

    >>> report = Report(1, 2, changed=((7, 8),), stamp=Stamp(3, 1, 9))
    >>> load_report(dump_report(report, pickler=None), pickler=None) == report
    True
    """
    if data[0] == _PICKLE_HEAD:
        found: Report = pickler.loads(data)
        return found
    # From our own task, which runs the same Python, as the engine demands.
    values = marshal.loads(data)  # noqa: S302
    names, loads = _find_fields(values[-1])
    state = dict(zip(names, values, strict=False))
    for name, load in loads:
        state[name] = load(state[name])
    report = object.__new__(Report)
    object.__setattr__(report, "__dict__", state)
    return report
