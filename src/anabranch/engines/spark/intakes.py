"""Which source is taken in how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anabranch.engines.spark.dataframes import FrameIntake, StreamingIntake
from anabranch.engines.spark.file_intake import FileIntake, ParquetIntake
from anabranch.engines.spark.generated import GeneratedIntake
from anabranch.engines.spark.intake import Intake, ItemIntake
from anabranch.engines.spark.listed import ListedIntake, Share
from anabranch.engines.spark.live import FollowIntake, KafkaIntake, SocketIntake
from anabranch.engines.spark.offered import OfferedIntake
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.ship import travels
from anabranch.graph.graph import Op
from anabranch.graph.sources import (
    FromIterable,
    FromSpark,
    Generate,
    Kafka,
    Offered,
    ReadFiles,
    Socket,
)
from anabranch.runtime.failures import OnError
from anabranch.runtime.reading.files import input_files
from anabranch.runtime.reading.open import open_reader


def intake_of(  # noqa: PLR0911 - one return for each kind of source
    op: Op,
    pickler: Pickler,
    on_error: OnError,
    share: Share,
    *,
    scratch: Path,
    checkpoint: Path | None = None,
) -> Intake:
    """Return the intake of a source; `share` brings items to all hosts.

    Rows that have to be put down somewhere go to `scratch`, or, where the job has a
    `checkpoint`, to that.
    """
    match op.kind:
        case FromIterable(items=Sequence() as items):
            return ListedIntake(op.name, items, pickler, share)
        case Generate() if travels(op.kind.factory):
            return GeneratedIntake(op.name)
        case FromIterable() | Generate():
            return ListedIntake(
                op.name, iter(open_reader(op, on_error)), pickler, share
            )
        case ReadFiles():
            return _of_files(op, op.kind, on_error)
        case Socket():
            return SocketIntake(op, on_error)
        case Kafka():
            return KafkaIntake(op)
        case Offered():
            return OfferedIntake(op.name, op.kind, pickler)
        case FromSpark():
            return _of_frame(op, op.kind, scratch, checkpoint)
    return ItemIntake(op.name, open_reader(op, on_error).numbered(), pickler)


def _of_files(op: Op, kind: ReadFiles, on_error: OnError) -> Intake:
    if kind.follow:
        return FollowIntake(op, on_error)
    files = input_files(kind.path)
    if kind.format == "parquet":
        return ParquetIntake(op.name, files)
    return FileIntake(op.name, kind, files)


def _of_frame(
    op: Op, kind: FromSpark, scratch: Path, checkpoint: Path | None
) -> Intake:
    spooled = (checkpoint or scratch) / "spooled" / op.name
    if not kind.frame.isStreaming:
        return FrameIntake(op, spooled)
    query = None if checkpoint is None else checkpoint / "queries" / op.name
    return StreamingIntake(op, spooled, query)
