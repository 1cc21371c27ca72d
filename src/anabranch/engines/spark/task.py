"""What the tasks of an epoch are told, and the rows that they exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.engines.spark.checkpoint_record import Begun, Log, Snapshot
from anabranch.engines.spark.intake import Piece
from anabranch.engines.spark.layout import Layout, Unit
from anabranch.engines.spark.states import BUCKETS
from anabranch.engines.spark.store import EMPTY, Stamp
from anabranch.metrics.samples import ThreadSamples
from anabranch.runtime.failures import Failure

ROW_ARROW = pa.schema(
    [
        ("dest", pa.int32()),
        ("unit", pa.int32()),
        ("channel", pa.int32()),
        ("entry", pa.int32()),
        ("payload", pa.binary()),
    ]
)
ROW_SCHEMA = from_arrow_schema(ROW_ARROW)  # text would be parsed for every stage
Half: TypeAlias = Literal["whole", "first", "second"]

Place: TypeAlias = tuple[Unit, int]  # a unit and one of its channels

REPORT = -1  # instead of a unit: what a task has to say to the driver
ALONG = -3  # instead of a unit: items on their way to the second half of a unit
ALONG_CHUNK = -5  # the same: there is nothing more of this chunk on any stream
ALONG_FILLER = -6  # the same: pushes what came before out of a buffer
ALONG_END = -4  # the same, and the last: what the first half has changed and reports
TO_DRIVER = -2  # instead of a unit: items of a sink that the driver serves


@dataclass(frozen=True)
class Share:
    """What one channel of a unit takes in beside the rows from other tasks.

    `pieces` of sources; `blobs` that the driver passes on, by entry; `injected` items
    that go in after an operator that has finished.
    """

    pieces: tuple[Piece, ...] = ()
    blobs: tuple[tuple[int, bytes], ...] = ()
    injected: bytes | None = None


@dataclass(frozen=True)
class EpochTask:
    """The same for all tasks of one stage of an epoch.

    `levels` are those of the stage, and `then` those of the next. `channels` is the
    number of channels of each unit; it is one where the stage has several levels.
    `first` and `end` are the row numbers of the epoch. `finishing` asks one operator for what it has to say at the
    end of the stream; `after` names the operator behind which items are injected.
    When `warming`, the units get ready and do nothing.

    The epoch is made from version `base` of the states, in try number `turn`; buckets
    in `snapshots`, by unit, are also written whole. Parts of files go to the
    directory `stage` below that of their sink.

    Units in `cuts` are run by two workers of a task: the first does what comes before
    the operator named, the second the rest, and all other units only in the first.
    `begun` are the groups, by unit, that the epoch before has left incomplete.
    When `profiling`, the workers watch themselves and report what they have seen.
    """

    epoch: int
    levels: range
    channels: tuple[int, ...]
    first: int
    end: int
    then: range = range(0)
    shares: Mapping[tuple[int, int], Share] = field(default_factory=dict)
    finishing: str | None = None
    after: str | None = None
    warming: bool = False
    base: Stamp = EMPTY
    turn: int = 0
    snapshots: frozenset[tuple[str, int]] = frozenset()
    stage: str = ""
    cuts: Mapping[int, str] = field(default_factory=dict)
    half: Half = "whole"
    begun: Mapping[str, Begun] = field(default_factory=dict)
    profiling: bool = False

    def channel_of_bucket(self, unit: int, bucket: int) -> int:
        """Return which channel owns a bucket of keys."""
        return bucket * self.channels[unit] // BUCKETS

    def buckets_of(self, unit: Unit, channel: int) -> tuple[int, ...]:
        """Return the buckets that a channel owns."""
        if not unit.key:
            return (0,)
        return tuple(
            bucket
            for bucket in range(BUCKETS)
            if self.channel_of_bucket(unit.number, bucket) == channel
        )

    def places(self, layout: Layout, levels: range) -> list[tuple[Place, ...]]:
        """Return what each partition of a stage runs, one after the other."""
        return [
            tuple((unit, channel) for unit in units)
            for units in layout.together(levels)
            for channel in range(self.channels[units[0].number])
        ]


@dataclass(frozen=True)
class Report:
    """What a task tells the driver when it is done."""

    unit: int
    channel: int
    read: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    finished: tuple[tuple[Any, list[Any]], ...] = ()
    error: BaseException | None = None
    seconds: float = 0.0
    parts: Mapping[str, str] = field(default_factory=dict)  # sink -> file
    logs: tuple[Log, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    samples: tuple[ThreadSamples, ...] = ()
    begun: Begun | None = None
