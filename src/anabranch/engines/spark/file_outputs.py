"""How the parts of a file sink become visible: all at the end, or epoch by epoch.

Tasks write parts; the driver moves them. Without a checkpoint the output appears whole
when the job has ended well. With one, the parts of an epoch are written to a *stage*, a
hidden directory, and move to their place when the epoch has been committed; whoever is
killed on the way, the next run finishes the move.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from anabranch.engines.spark.faults import reach
from anabranch.engines.spark.parts import write_part
from anabranch.engines.spark.store import Stamp
from anabranch.engines.spark.wire import Batch
from anabranch.errors import CheckpointError, OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import WriteFiles
from anabranch.runtime.failures import OnError
from anabranch.runtime.writing.output import SUCCESS, Output, why_occupied


class FileOutput(ABC):
    """The output of one file sink; tasks write to `directory` and the stage in it."""

    directory: Path

    def __init__(self, op: Op, item_type: Any, on_error: OnError) -> None:
        assert isinstance(op.kind, WriteFiles)  # noqa: S101
        self.op = op
        self.kind = op.kind
        self._item_type = item_type
        self._on_error = on_error

    @abstractmethod
    def begin(self, stage: str) -> None:
        """Get ready for the parts of a try of an epoch."""

    @abstractmethod
    def publish(self, stage: str, parts: Sequence[str]) -> None:
        """Show the parts of an epoch that has been committed; may be repeated."""

    @abstractmethod
    def complete(self) -> None:
        """Round the output off at the end of the job; may be repeated."""

    @abstractmethod
    def abort(self) -> None:
        """Leave nothing behind that the next run would stumble over."""

    def parts_in(self, directory: Path) -> list[Path]:
        """Return the parts in a directory, in order; one without items if none is."""
        parts = sorted(directory.glob(f"part-*.{self.kind.format}"))
        if not parts:  # an empty output has its columns, if they are known
            parts = [directory / f"part-000000-0000.{self.kind.format}"]
            empty = Batch([], None, None, [])
            write_part(self.op, self._item_type, empty, parts[0], self._on_error)
        return parts


class WholeOutput(FileOutput):
    """An output that appears at the end of the job."""

    def __init__(self, op: Op, item_type: Any, on_error: OnError) -> None:
        super().__init__(op, item_type, on_error)
        self._output = Output(self.kind)
        self.directory = self._output.hidden
        if self.kind.single:
            self.directory = self._output.hidden.with_suffix(".parts")
            self.directory.mkdir()

    def begin(self, stage: str) -> None:
        pass

    def publish(self, stage: str, parts: Sequence[str]) -> None:
        pass

    def complete(self) -> None:
        parts = self.parts_in(self.directory)
        if self.kind.single:
            put_together(self.kind, parts, self._output.hidden)
            shutil.rmtree(self.directory)
        self._output.commit()

    def abort(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self._output.abort()


class StagedOutput(FileOutput):
    """An output that grows with every epoch that is committed.

    `identity` is that of the checkpoint. A new job refuses a place that is taken; one
    that goes on finds the `count` parts that it has left there.
    """

    def __init__(
        self, op: Op, item_type: Any, on_error: OnError, identity: str, *, new: bool
    ) -> None:
        super().__init__(op, item_type, on_error)
        self.path = Path(self.kind.path)
        self.directory = self.path.with_name(f".{self.path.name}.{identity}.stages")
        self._parts = self.directory / "parts" if self.kind.single else self.path
        occupied = why_occupied(self.path) if new else None
        if occupied is not None:
            msg = (
                f"an output must not exist yet when a checkpoint is new; {self.path} "
                f"is {occupied}; remove it, or write to another path"
            )
            raise OutputError(msg)

    def _open(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._parts.mkdir(exist_ok=True)
        except OSError as error:
            msg = (
                f"{self.path} must be writable; {error.strerror or error}; "
                f"check the path, its permissions and the space on the disk"
            )
            raise OutputError(msg) from error

    def begin(self, stage: str) -> None:
        if not self._parts.is_dir() or not self.directory.is_dir():
            self._open()
        (self.directory / stage).mkdir(exist_ok=True)

    def publish(self, stage: str, parts: Sequence[str]) -> None:
        staged = self.directory / stage
        for part in parts:
            try:
                (staged / part).replace(self._parts / part)
            except FileNotFoundError as error:
                if not (self._parts / part).exists():
                    raise self._incomplete() from error
            reach("half-published", int(stage.partition("-")[0]))
        shutil.rmtree(staged, ignore_errors=True)

    def check(self, count: int) -> None:
        """Refuse to go on with an output that is not as it was left."""
        for path in self.directory.glob("[0-9]*"):  # of tries that nobody waits for
            shutil.rmtree(path, ignore_errors=True)
        found = len(list(self._parts.glob(f"part-*.{self.kind.format}")))
        if found != count and not self._completed():
            raise self._incomplete()

    def _completed(self) -> bool:
        if self.kind.single:
            return self.path.exists() and not self.directory.exists()
        return (self.path / SUCCESS).exists()

    def _incomplete(self) -> CheckpointError:
        return CheckpointError(
            f"an output must stay as it is while its job can go on; parts of "
            f"{self.path} are missing; put them back, or start anew with an empty "
            f"checkpoint and another output"
        )

    def complete(self) -> None:
        if not self._completed():
            self._open()
            parts = self.parts_in(self._parts)
            if self.kind.single:
                whole = self.directory / "whole"
                put_together(self.kind, parts, whole)
                whole.replace(self.path)
                reach("half-completed", 0)
            else:
                (self.path / SUCCESS).touch()
        if self.directory.exists():  # at once: half of the parts must not be found
            done = self.directory.with_suffix(".done")
            self.directory.replace(done)
        shutil.rmtree(self.directory.with_suffix(".done"), ignore_errors=True)

    def abort(self) -> None:
        pass  # what was committed stays; the next run goes on from it


def stage_of(stamp: Stamp) -> str:
    """Return the name of the stage of a try of an epoch.

    >>> stage_of(Stamp(3, 7))
    '3-7'
    """
    return f"{stamp.epoch}-{stamp.turn}"


def put_together(kind: WriteFiles, parts: Sequence[Path], whole: Path) -> None:
    """Make one file of parts; only the first one's header stays."""
    if kind.format == "parquet":
        with pq.ParquetWriter(whole, pq.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part).cast(writer.schema))
        return
    with whole.open("wb") as file:
        for number, part in enumerate(parts):
            with part.open("rb") as source:
                if number and kind.format == "csv":
                    source.readline()
                shutil.copyfileobj(source, file, 1 << 20)
