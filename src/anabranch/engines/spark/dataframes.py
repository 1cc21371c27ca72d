"""A user's DataFrames as sources.

Each micro-batch of a streaming DataFrame is an epoch: Spark's thread passes the batch
in `foreachBatch` and waits until the epoch has been committed. The tasks of the batch
write their partitions as Arrow files; from then on the rows are read like those of any
file, by number, partition by partition.
"""

from __future__ import annotations

import itertools
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from anabranch.connectors.files.parquet import check_schema
from anabranch.connectors.files.values import attributes_of
from anabranch.connectors.storage import Location, StorePath, locate
from anabranch.engines.spark.access import access_of
from anabranch.engines.spark.connect import is_connect
from anabranch.epochs.intake.intake import Intake, Piece
from anabranch.epochs.unit.inputs import SpooledPiece
from anabranch.errors import EngineError, InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import (
    FromSpark,
)

_SPOOLED = "partition int, path string, rows long"
_SPOOLED_ARROW = pa.schema(
    [("partition", pa.int32()), ("path", pa.string()), ("rows", pa.int64())]
)


@dataclass(frozen=True)
class _Spooled:
    """The rows of one partition, as an Arrow file."""

    path: str
    rows: int


class _HandedOver:
    """A micro-batch that Spark's thread waits for."""

    def __init__(self, frame: DataFrame, number: int) -> None:
        self.frame = frame
        self.number = number
        self.given_up = False
        self._over = threading.Event()

    def wait(self) -> None:
        self._over.wait()
        if self.given_up:
            msg = "the job ended before this micro-batch was finished"
            raise EngineError(msg)

    def release(self) -> None:
        self._over.set()

    def give_up(self) -> None:
        self.given_up = True
        self._over.set()


class StreamingIntake(Intake):
    """The micro-batches of a streaming DataFrame, one per epoch."""

    def __init__(
        self, op: Op, directory: Location, checkpoint: Location | None
    ) -> None:
        assert isinstance(op.kind, FromSpark)  # noqa: S101
        _refuse_schema(op, op.kind)
        self._op = op
        self._kind = op.kind
        self._directory = directory
        self._checkpoint = checkpoint
        self._query: Any = None
        self._batches: queue.SimpleQueue[_HandedOver] = queue.SimpleQueue()
        self._running: _HandedOver | None = None
        self._files: list[_Spooled] = []
        self._batch = -1  # the last batch taken
        self._number = 1

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        self._finish_batch()
        if self._query is None:
            self._query = self._start_query()
        # Checked before the queue: an ended query adds nothing to it.
        active = self._query.isActive
        try:
            batch = self._running = self._batches.get_nowait()
        except queue.Empty:
            if not active:
                self._refuse_failure()
                self.ended = True
            return []
        self._batch = batch.number
        self._files = spool(batch.frame, self._directory, f"batch-{batch.number}")
        pieces = _pieces(self._op.name, self._number, self._files, parts)
        self._number += sum(piece.rows for piece in pieces)
        return pieces

    def position(self) -> Any:
        return {"batch": self._batch, "number": self._number}

    def seek(self, position: Any) -> None:
        self._batch, self._number = position["batch"], position["number"]

    def close(self) -> None:
        if self._running is not None:
            self._running.give_up()
        self._running = None
        if self._query is not None:
            self._query.stop()

    def _start_query(self) -> Any:
        writer = self._kind.frame.writeStream.foreachBatch(self._hand_over)
        if self._kind.trigger:
            writer = writer.trigger(**dict(self._kind.trigger))
        if self._checkpoint is not None:
            place = self._checkpoint
            # URL schemes of Hadoop's file systems, by which Spark reaches stores.
            path = str(place) if isinstance(place, Path) else _to_hadoop(place)
            writer = writer.option("checkpointLocation", path)
        return writer.start()

    def _hand_over(self, frame: DataFrame, number: int) -> None:
        """Take a micro-batch, in a thread of Spark's, and wait for its epoch."""
        if number <= self._batch:
            return  # committed before; Spark had no time to record it
        batch = _HandedOver(frame, number)
        self._batches.put(batch)
        batch.wait()

    def _finish_batch(self) -> None:
        """Let Spark continue: the last batch has been committed."""
        if self._running is not None:
            self._running.release()
            self._running = None
        for file in self._files:
            locate(file.path).unlink(missing_ok=True)
        self._files = []

    def _refuse_failure(self) -> None:
        error = self._query.exception()
        if error is not None:
            msg = (
                f"the streaming query of {self._op.name!r} ({self._op.site}) must run "
                f"to its end; it failed: {error}"
            )
            raise InputError(msg)


class FrameIntake(Intake):
    """The rows of a bounded DataFrame."""

    def __init__(self, op: Op, directory: Location) -> None:
        assert isinstance(op.kind, FromSpark)  # noqa: S101
        _refuse_schema(op, op.kind)
        self._op = op
        self._frame = op.kind.frame
        self._directory = directory
        self._files: list[_Spooled] | None = None
        self._at = 0

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        if self._files is None:
            self._files = spool(self._frame, self._directory, self._op.name)
        files = list(_cut(self._files, self._at, self._at + rows))
        first = self._at + 1
        self._at += sum(file.rows for _, file in files)
        self.ended = self._at >= sum(file.rows for file in self._files)
        pieces: list[Piece] = []
        size = max(1, -(-(self._at - first + 1) // parts))
        for start, file in files:
            pieces += _pieces_of(self._op.name, first, file, start, size)
            first += file.rows
        return pieces

    def position(self) -> Any:
        return {"at": self._at}

    def seek(self, position: Any) -> None:
        self._at = position["at"]


def _refuse_schema(op: Op, kind: FromSpark) -> None:
    """Refuse a DataFrame whose columns do not fit the attributes of the type."""
    if op.type is not None:
        schema = to_arrow_schema(kind.frame.schema, timezone="UTC")
        check_schema(schema, attributes_of(op.type), f"{op.name} ({op.site})")


def _to_hadoop(place: StorePath) -> str:
    """Return Hadoop's name of a location in a store.

    >>> _to_hadoop(StorePath("s3://jobs/vwap"))
    's3a://jobs/vwap'
    """
    scheme, rest = place.url.split("://", 1)
    return f"{_HADOOP.get(scheme, scheme)}://{rest}"


_HADOOP = {"s3": "s3a", "local": "file"}


def spool(frame: DataFrame, directory: Location, name: str) -> list[_Spooled]:
    """Have the tasks of a DataFrame write their rows; return the files in order.

    Other files in the directory are removed: they belong to lost attempts, or to
    earlier batches and runs.
    """
    directory.mkdir(parents=True, exist_ok=True)
    once = f"{name}-{uuid.uuid4().hex[:8]}"  # tasks of a killed driver may still write
    with access_of(frame.sparkSession).own_python():
        spooled = frame.mapInArrow(_spooler(str(directory), once), _SPOOLED)
    rows = spooled.toArrow()
    found = sorted(rows.to_pylist(), key=lambda row: int(row["partition"]))
    named = {row["path"] for row in found}
    left: Iterable[Location] = directory.glob("*.arrow")
    for path in left:
        if str(path) not in named:
            path.unlink(missing_ok=True)
    return [_Spooled(row["path"], row["rows"]) for row in found]


def _spooler(directory: str, name: str) -> Callable[..., Any]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls us
        task = f"{context.partitionId():05}-{context.taskAttemptId()}"
        path = locate(directory) / f"{name}-{task}.arrow"
        rows, first = 0, next(iter(batches := iter(batches)), None)
        if first is not None:
            with path.open("wb") as file, pa.ipc.new_file(file, first.schema) as writer:
                for batch in itertools.chain([first], batches):
                    writer.write_batch(batch)
                    rows += batch.num_rows
            yield pa.RecordBatch.from_pylist(
                [{"partition": context.partitionId(), "path": str(path), "rows": rows}],
                schema=_SPOOLED_ARROW,
            )

    return run


def _pieces(source: str, first: int, files: list[_Spooled], parts: int) -> list[Piece]:
    size = max(1, -(-sum(file.rows for file in files) // parts))
    pieces: list[Piece] = []
    for file in files:
        pieces += _pieces_of(source, first, file, 0, size)
        first += file.rows
    return pieces


def _pieces_of(
    source: str, first: int, file: _Spooled, start: int, size: int
) -> Iterator[Piece]:
    """Cut `file.rows` rows of a file, starting at `start`, into pieces."""
    for at in range(0, file.rows, size):
        count = min(size, file.rows - at)
        yield SpooledPiece(source, first + at, count, file.path, start + at)


def _cut(
    files: Iterable[_Spooled], start: int, end: int
) -> Iterator[tuple[int, _Spooled]]:
    """Yield the rows `start` to `end` of files: the offset and the rows of each.

    >>> list(_cut([_Spooled("a", 5), _Spooled("b", 5)], 3, 7))
    [(3, _Spooled(path='a', rows=2)), (0, _Spooled(path='b', rows=2))]
    """
    before = 0
    for file in files:
        first, last = max(start - before, 0), min(end - before, file.rows)
        if last > first:
            yield first, _Spooled(file.path, last - first)
        before += file.rows


def open_frame(op: Op, scratch: Path, checkpoint: Location | None) -> Intake:
    """Return the intake of a DataFrame.

    Spooled rows go to `scratch` or, if the job has a `checkpoint`, to that.
    """
    kind = op.kind
    assert isinstance(kind, FromSpark)  # noqa: S101 - its caller has looked
    spooled = (checkpoint or scratch) / "spooled" / op.name
    if not kind.frame.isStreaming:
        return FrameIntake(op, spooled)
    if is_connect(kind.frame.sparkSession):
        msg = (
            f"a streaming DataFrame must come from a session in its cluster's driver; "
            f"that of {op.name!r} ({op.site}) is of Spark Connect, which runs "
            f"foreachBatch on its server; read the source with Anabranch, or use "
            f"spark-submit"
        )
        raise EngineError(msg)
    query = None if checkpoint is None else checkpoint / "queries" / op.name
    return StreamingIntake(op, spooled, query)
