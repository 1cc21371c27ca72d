"""The sinks of a program, as the driver sees them: files, functions, and external
systems.

Tasks write parts to a *stage*, a hidden directory per try of an epoch. When the epoch
is committed, the driver moves the parts named by reports to their place and removes the
stage with all others. Without a checkpoint that place is hidden too, and the output
appears when the job has succeeded. With one, the parts of an epoch become visible when
it has been committed; if a process is killed in between, the next run completes the
move.
"""

from __future__ import annotations

import contextlib
import copy
import shutil
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.connectors.external import (
    NONE_YET,
    ConnectorSink,
    External,
    Refuse,
    open_external,
)
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.connectors.files.columns import columns_of
from anabranch.connectors.files.csv import header_of
from anabranch.connectors.files.parquet import (
    arrow_types,
    fill_table,
    join_schemas,
    likely_types,
    plain_table,
    table_of,
    tells_columns,
)
from anabranch.connectors.files.rolling_output import (
    Pending,
    RollingDirectory,
    start_timer,
)
from anabranch.connectors.files.writer import (
    SUCCESS,
    OutputPlace,
    output_errors,
    refuse_foreign,
    remove,
    why_occupied,
)
from anabranch.connectors.storage import (
    Location,
    StorePath,
    copy_all,
    locate,
    remove_tree,
)
from anabranch.epochs.checkpoint.files import sync
from anabranch.epochs.checkpoint.record import PartSum
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.faults import reach
from anabranch.epochs.item_files import list_described, name_item
from anabranch.epochs.state.buckets import Stamp
from anabranch.epochs.task import ExternalSinks, WrittenPart
from anabranch.epochs.transport.ship import travels
from anabranch.epochs.unit.egress import name_published_part, write_part
from anabranch.epochs.wire import WireBatch
from anabranch.errors import AnabranchError, CheckpointError, EngineError, OutputError
from anabranch.graph.graph import Graph, Op
from anabranch.operators.sinks import (
    Committing,
    EpochSink,
    ForEach,
    ToList,
    ToSpark,
    WriteFiles,
    WriteSink,
    is_in_parts,
)
from anabranch.runtime.failures import Failure, OnError, failure_of, stop
from anabranch.runtime.ports import AbortedError


class FileOutput(ABC):
    """The output of one file sink; tasks write to the stages in `directory`."""

    directory: Location
    _parts: Location  # where the committed parts are

    def __init__(self, op: Op, item_type: Any, on_error: OnError) -> None:
        assert isinstance(op.kind, WriteFiles)  # noqa: S101
        self.op = op
        self.kind = op.kind
        self._item_type = item_type
        self._on_error = on_error
        self._begun: list[str] = []  # stages that still exist
        self._columns = PartColumns(self.kind, item_type)

    def begin(self, stage: str) -> None:
        """Prepare for the parts of a try of an epoch."""
        with output_errors(locate(self.kind.path)):
            (self.directory / stage).mkdir(exist_ok=True)
        self._begun.append(stage)

    def compare(self, stage: str, parts: Sequence[str]) -> None:
        """Refuse parts whose columns differ from those of earlier parts."""
        with output_errors(locate(self.kind.path)):
            for part in sorted(parts, key=name_published_part):
                self._columns.compare(self.directory / stage / part)

    def publish(self, stage: str, parts: Sequence[str]) -> None:
        """Move the parts named by reports to their place; idempotent.

        Stages are removed with the parts of lost attempts; an attempt that still runs
        can no longer write there.
        """
        with output_errors(locate(self.kind.path)):
            self._publish(stage, parts)

    def _publish(self, stage: str, parts: Sequence[str]) -> None:
        staged = self.directory / stage
        for part in parts:
            place = self._parts / name_published_part(part)
            try:
                _put(staged / part, place)
            except FileNotFoundError as error:
                if not place.exists():
                    raise self._missing(staged / part) from error
            reach("half-published", epoch_of(stage))
        for begun in {stage, *self._end_stages(stage)}:
            remove_tree(self.directory / begun)

    def _end_stages(self, stage: str) -> list[str]:
        """Return the stages up to that of a committed epoch; later ones stay."""
        begun, epoch = self._begun, epoch_of(stage)
        self._begun = [one for one in begun if epoch_of(one) > epoch]
        return [one for one in begun if epoch_of(one) <= epoch]

    @abstractmethod
    def _missing(self, part: Location) -> AnabranchError:
        """Return the error for a part that was written and is missing."""

    def _remove(self) -> None:
        """Remove the stages under another name: tasks may still write to this one."""
        if isinstance(self.directory, StorePath):
            remove_tree(self.directory)
            return
        done = self.directory.with_suffix(".done")
        if self.directory.exists():
            self.directory.replace(done)
        shutil.rmtree(done, ignore_errors=True)

    @abstractmethod
    def complete(self) -> None:
        """Finalize the output at the end of the job; idempotent."""

    @abstractmethod
    def abort(self) -> None:
        """Remove everything that would disturb the next run."""

    def parts_in(self, directory: Location) -> list[Location]:
        """Return the parts in a directory, in order; an empty one if there are none."""
        found: Iterable[Location] = directory.glob(f"part-*.{self.kind.format}")
        parts = sorted(found, key=lambda part: part.name)
        if not parts:  # an empty output has its columns, if known
            parts = [directory / f"part-000000-0000.{self.kind.format}"]
            empty = WireBatch([], None, None, [])
            write_part(self.op, self._item_type, empty, parts[0], self._on_error)
        return parts


def _put(part: Location, place: Location) -> None:
    """Move a part out of a stage, which is removed afterwards."""
    if isinstance(part, StorePath) and isinstance(place, StorePath):
        part.copy(place)
    else:
        part.replace(place)  # type: ignore[arg-type]


class WholeOutput(FileOutput):
    """An output that appears at the end of the job."""

    def __init__(self, op: Op, item_type: Any, on_error: OnError) -> None:
        super().__init__(op, item_type, on_error)
        self._output = OutputPlace(self.kind)
        hidden = self._output.hidden
        self.directory = hidden.with_suffix(".stages")
        self._parts = self.directory / "parts" if self.kind.single else hidden
        try:
            with output_errors(self._output.path):
                self.directory.mkdir()
                self._parts.mkdir(exist_ok=True)
        except OutputError:
            self.abort()
            raise

    def _missing(self, part: Location) -> AnabranchError:
        return OutputError(
            f"tasks and driver must see the same files; {part} was written by a task "
            f"and is not there; write to a directory that all hosts share"
        )

    def complete(self) -> None:
        with output_errors(self._output.path):
            parts = self.parts_in(self._parts)
            if self.kind.single:
                put_together(self.kind, parts, self._output.hidden)
        self._output.commit()
        self._remove()

    def abort(self) -> None:
        self._remove()
        self._output.abort()


class RolledOutput(FileOutput):
    """An output whose parts appear while the job runs, each made of whole epochs."""

    def __init__(self, op: Op, item_type: Any, on_error: OnError) -> None:
        super().__init__(op, item_type, on_error)
        self._place = RollingDirectory(self.kind)
        path = self._place.path
        name = f".{path.name}.{uuid.uuid4().hex[:8]}.stages"
        self.directory = path.with_name(name)
        self._whole = path.with_name(name) / "whole"  # the next part
        self._parts = self.directory / "parts"
        self.pending = Pending(self.kind)
        self._lock = threading.Lock()  # a timer rolls too
        self._timer: threading.Timer | None = None
        self._failed: BaseException | None = None
        self._rolled = False
        with output_errors(path):
            self.directory.mkdir()
            self._parts.mkdir()

    def _publish(self, stage: str, parts: Sequence[str]) -> None:
        super()._publish(stage, parts)
        with self._lock:
            if self._failed is not None:
                raise self._failed
            names = sorted(name_published_part(part) for part in parts)
            self.pending.add([self._parts / name for name in names])
            if self.pending.is_due:
                self._roll()
            elif self.pending.paths and self._timer is None and self.kind.roll_s:
                self._timer = start_timer(self.kind.roll_s, self._roll_when_old)

    def _roll_when_old(self) -> None:
        with self._lock:
            try:
                self._roll()
            except Exception as error:  # noqa: BLE001 - told with the next epoch
                self._failed = error

    def _roll(self) -> None:
        """Merge the pending parts into one, and publish it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.pending.paths:
            return
        put_together(self.kind, self.pending.paths, self._whole)
        self._whole.replace(self._place.next_part())
        self._rolled = True
        for path in self.pending.paths:
            path.unlink()
        self.pending.clear()

    def _missing(self, part: Location) -> AnabranchError:
        return OutputError(
            f"tasks and driver must see the same files; {part} was written by a task "
            f"and is not there; write to a directory that all hosts share"
        )

    def complete(self) -> None:
        with self._lock, output_errors(self._place.path):
            if not self._rolled:
                self.pending.paths = self.parts_in(self._parts)
            self._roll()
            self._place.complete()
        self._remove()

    def abort(self) -> None:
        """Drop the pending parts; published parts stay."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self.pending.clear()
        self._remove()


class StoredOutput(FileOutput):
    """An output in a store that appears at the end of the job.

    A store has no rename. So parts stay in their stages until the job has succeeded;
    then they are copied to their place, within the store, and `_SUCCESS` comes last.
    """

    def __init__(self, op: Op, item_type: Any, on_error: OnError) -> None:
        super().__init__(op, item_type, on_error)
        place = OutputPlace(self.kind)  # which must not exist
        place.abort()
        assert isinstance(place.path, StorePath)  # noqa: S101 - see `make_file_output`
        self.path = place.path
        name = f".{self.path.name}.{uuid.uuid4().hex[:8]}.stages"
        self.directory = self._stages = self.path.with_name(name)
        self._counted: list[StorePath] = []  # parts named by reports

    def _publish(self, stage: str, parts: Sequence[str]) -> None:
        self._counted += [self._stages / stage / part for part in parts]
        for begun in self._end_stages(stage):
            if begun != stage:
                remove_tree(self.directory / begun)

    def _missing(self, part: Location) -> AnabranchError:
        return OutputError(
            f"a store must keep what was written; {part} was written by a task and is "
            f"not there; run the job again"
        )

    def complete(self) -> None:
        with output_errors(self.path):
            parts: Sequence[Location] = self._counted
            if not parts:
                parts = self.parts_in(self.directory / "empty")
            parts = sorted(parts, key=lambda part: name_published_part(part.name))
            if self.kind.mode == "overwrite" and not self.kind.single:
                remove(self.path)
            if self.kind.single:
                put_together(self.kind, parts, self.path)
            else:
                self._copy(parts)
                (self.path / SUCCESS).touch()
        self._remove()

    def _copy(self, parts: Sequence[Location]) -> None:
        """Copy the parts to their place; the stages are removed afterwards, at once."""
        places = [self.path / name_published_part(part.name) for part in parts]
        staged = [part for part in parts if isinstance(part, StorePath)]
        try:
            copy_all(zip(staged, places, strict=True))
        except FileNotFoundError as error:
            raise self._missing(locate(error.filename)) from error

    def abort(self) -> None:
        self._remove()


class StagedOutput(FileOutput):
    """An output that grows with every committed epoch.

    `identity` is that of the checkpoint. A new job refuses a place that is taken; one
    that resumes expects the `count` parts it left there.
    """

    def __init__(
        self, op: Op, item_type: Any, on_error: OnError, identity: str, *, new: bool
    ) -> None:
        super().__init__(op, item_type, on_error)
        self.path = locate(self.kind.path)
        self.directory = self.path.with_name(f".{self.path.name}.{identity}.stages")
        self._parts = self.directory / "parts" if self.kind.single else self.path
        self._sums: dict[str, PartSum] = {}
        self._count = 0  # of parts, at the start of the run
        self._seal = Seal()
        if new and self.kind.mode == "overwrite":
            refuse_foreign(self.path)
            with output_errors(self.path):
                remove(self.path)
        occupied = why_occupied(self.path) if new else None
        if occupied is not None:
            msg = (
                f"an output must not exist yet when a checkpoint is new; {self.path} "
                f"is {occupied}; remove it, write to another path, or say "
                f"mode='overwrite'"
            )
            raise OutputError(msg)

    def _open(self) -> None:
        with output_errors(self.path):
            self.directory.mkdir(parents=True, exist_ok=True)
            self._parts.mkdir(exist_ok=True)

    def begin(self, stage: str) -> None:
        if not self._parts.is_dir() or not self.directory.is_dir():
            self._open()
        super().begin(stage)

    def _missing(self, part: Location) -> AnabranchError:
        return self._incomplete()

    def note(self, part: PartSum) -> None:
        """Record a part's size and digest for later checks."""
        self._sums[part.part] = part

    def take_back(self, epoch: int) -> None:
        """Remove the parts of later epochs, which run again."""
        for path in self._parts.glob(f"part-*.{self.kind.format}"):
            if int(path.name.split("-")[1]) > epoch:
                path.unlink()

    def check(self, count: int, seal: Seal, first: Stamp) -> None:
        """Refuse to resume with an output that has changed.

        This run begins with the epoch and the turn `first`. Earlier stages are obsolete
        and are removed. A stage of a later turn belongs to a run that has taken over,
        which this run has not noticed yet. A stage of a later epoch may belong to the
        run before, which has not noticed that this one takes over: if it still commits
        that epoch, its parts count.
        """
        self._seal, self._count = seal, count
        stages: Iterable[Location] = self.directory.glob("[0-9]*")
        for path in stages:
            turn = int(path.name.partition("-")[2] or 0)
            if turn < first.turn and epoch_of(path.name) < first.epoch:
                remove_tree(path)
        found = len(list(self._parts.glob(f"part-*.{self.kind.format}")))
        if found > count and not self._is_complete():
            raise self._describe_unknown_parts(found)
        if found != count and not self._is_complete():
            raise self._incomplete()
        if not (self.kind.single and self._is_complete()):
            self._check_parts()
        self._check_columns()

    def _check_columns(self) -> None:
        """Refuse to resume with columns that differ from those of existing parts."""
        parts: Iterable[Location] = self._parts.glob(f"part-*.{self.kind.format}")
        try:
            with output_errors(self.path):
                self._columns.resume(sorted(parts, key=lambda part: part.name))
        except OutputError as error:
            msg = (
                f"a job must continue with the columns of its output; sink "
                f"{self.op.name!r} ({self.op.site}): {error}, or start again with an "
                "empty "
                f"checkpoint and another output"
            )
            raise CheckpointError(msg) from None
        except (pa.ArrowException, ValueError) as error:
            raise self._describe_part(self._parts, str(error)) from error

    def _check_parts(self) -> None:
        """Refuse parts that are not what was written."""
        for one in self._sums.values():
            path = self._parts / one.part
            with output_errors(path):
                why: str | None = self._why_other_size(path, one)
                if why is None:
                    why = self._seal.why_not_digest(one.digest)
                if why is None:
                    found = self._seal.digest_file(path)
                    why = self._seal.why_other(one.digest, found)
            if why is not None:
                raise self._describe_part(path, why)

    def _why_other_size(self, path: Location, one: PartSum) -> str | None:
        size = path.stat().st_size
        if size == one.size:
            return None
        return f"it was written with {one.size} bytes and has {size}"

    def _describe_part(self, path: Location, why: str) -> CheckpointError:
        return CheckpointError(
            f"an output must stay as it was written; {path} of {self.op.name!r} "
            f"({self.op.site}) is damaged: {why}; put it back, or start again with an "
            f"empty checkpoint and another output"
        )

    def _is_complete(self) -> bool:
        if not self.kind.single:
            return (self.path / SUCCESS).exists()
        # Parts are removed at once. A driver that was taken over and does not know it
        # yet may have recreated their directory.
        gone = self._count > 0 and not any(self._parts.glob("part-*"))
        return self.path.exists() and (gone or not self.directory.exists())

    def _check_sizes(self) -> None:
        """Refuse to complete an output with a truncated or missing part."""
        for one in self._sums.values():
            path = self._parts / one.part
            if (why := self._why_other_size(path, one)) is not None:
                raise self._describe_part(path, why)

    def _describe_unknown_parts(self, found: int) -> CheckpointError:
        return CheckpointError(
            f"an output must have the parts that the checkpoint knows; {self.path} has "
            f"{found}, and the checkpoint knows {self._count}; put back what is missing "
            f"among its commits, or start again with an empty checkpoint and another "
            f"output"
        )

    def _incomplete(self) -> CheckpointError:
        return CheckpointError(
            f"an output must stay as it is while its job can continue; parts of "
            f"{self.path} are missing; put them back, or start again with an empty "
            f"checkpoint and another output"
        )

    def complete(self) -> None:
        with output_errors(self.path):
            self._complete()

    def _complete(self) -> None:
        if not self._is_complete():
            self._open()
            if self.kind.single:
                self._check_parts()
            else:
                self._check_sizes()
            parts = self.parts_in(self._parts)
            if self.kind.single and isinstance(self.path, StorePath):
                put_together(self.kind, parts, self.path)
            elif self.kind.single:
                whole = self.directory / "whole"
                put_together(self.kind, parts, whole)
                sync(whole)
                whole.replace(self.path)  # type: ignore[arg-type]
                reach("half-completed", 0)
            else:
                (self.path / SUCCESS).touch()
                sync(self.path)
            sync(self.path.parent)  # before the parts are removed
        self._remove()  # at once: half of the parts must not be found

    def abort(self) -> None:
        pass  # committed parts stay; the next run continues from them


def stage_of(stamp: Stamp) -> str:
    """Return the name of the stage of a try of an epoch.

    >>> stage_of(Stamp(3, 7))
    '3-7'
    """
    return f"{stamp.epoch}-{stamp.turn}"


def epoch_of(stage: str) -> int:
    """Return the epoch of a stage.

    >>> epoch_of("3-7")
    3
    """
    return int(stage.partition("-")[0])


def put_together(kind: WriteFiles, parts: Sequence[Location], whole: Location) -> None:
    """Assemble one file from parts, keeping only the first header."""
    if kind.format == "parquet":
        schema = reduce(join_schemas, map(_read_schema, parts), pa.schema([]))
        with whole.open("wb") as target, pq.ParquetWriter(target, schema) as writer:
            for part in parts:
                with part.open("rb") as source:
                    table = pq.read_table(source)
                if table.column_names:  # it has rows
                    writer.write_table(table.cast(schema))
        return
    with whole.open("wb") as file:
        headed = False  # a part without rows may be empty
        for part in parts:
            with part.open("rb") as source:
                if headed and kind.format == "csv":
                    _skip_line(source)
                headed = headed or part.stat().st_size > 0
                shutil.copyfileobj(source, file, 1 << 20)


def _read_schema(part: Location) -> pa.Schema:
    with part.open("rb") as file:
        return pq.read_schema(file)


class PartColumns:
    """The common columns of an output's parts, if the type does not define them.

    Each task infers those of its part. The driver refuses what a single writer would
    have refused, when it sees the parts, before they count.
    """

    def __init__(self, kind: WriteFiles, item_type: Any) -> None:
        self._kind = kind
        told = tells_columns if kind.format == "parquet" else columns_of
        self._told = kind.format == "jsonl" or bool(told(item_type))
        self._type = item_type
        self._schema = pa.schema([])

    def compare(self, part: Location) -> None:
        """Refuse a part with columns other than the earlier ones."""
        if not self._told:
            self._take(self._read(part))

    def resume(self, parts: Sequence[Location]) -> None:
        """Refuse parts of earlier runs whose columns differ from the new ones."""
        if self._kind.format == "jsonl":
            return
        for part in parts[:1] if self._told else parts:
            self._take(self._read(part))
        names = columns_of(self._type)
        if parts and names is not None:
            self._take(self._tell(names))

    def _tell(self, names: Sequence[str]) -> pa.Schema:
        """Return the columns by the type of the items; null if it is unknown."""
        if self._kind.format == "csv":
            return pa.schema([(name, pa.string()) for name in names])
        types = arrow_types(self._type)
        return pa.schema([(name, types.get(name, pa.null())) for name in names])

    def _take(self, found: pa.Schema) -> None:
        try:
            self._schema = join_schemas(self._schema, found)
        except OutputError as error:
            msg = f"{self._kind.path} could not be written: {error}"
            raise OutputError(msg) from None

    def _read(self, part: Location) -> pa.Schema:
        if self._kind.format == "parquet":
            return _read_schema(part)
        with part.open("rb") as file:
            end = _find_line_end(file)
            file.seek(0)
            header = header_of(file.read(end))
        names = () if header is None else header.columns
        return pa.schema([(name, pa.string()) for name in names])


def _skip_line(file: BinaryIO) -> None:
    """Move to the second line of a file."""
    file.seek(_find_line_end(file))


def _find_line_end(file: BinaryIO) -> int:
    """Return where the second line of a file begins; a store's file cannot read
    lines.
    """
    at = 0
    while block := file.read(_LINE_BYTES):
        end = block.find(b"\n")
        if end >= 0:
            return at + end + 1
        at += len(block)
    return at


_LINE_BYTES = 1 << 12
MakeFrame = Callable[[pa.Table], Any]  # a DataFrame of the engine


class Deliveries:
    """The external sinks; `job` identifies all runs of one job.

    `possible` are the epochs that may be the last of a sink, if it was given any. They are opened here, which finds faults early and fences off earlier runs. Workers
    may then take over those that can be sent to them.
    """

    def __init__(
        self,
        graph: Graph,
        on_error: OnError,
        job: str,
        make_frame: MakeFrame,
        possible: Mapping[str, Sequence[int]],
    ) -> None:
        self._on_error = on_error
        self._sinks: dict[str, External] = {}
        self._closed: dict[str, Committing] = {}  # copies that workers may open
        self.in_parts: dict[str, Committing] = {}  # copies that tasks write parts with
        try:
            for op in graph.sinks:
                kind = graph[op.inputs[0].operator].type
                if isinstance(op.kind, ToSpark):
                    self._sinks[op.name] = FrameSink(op, kind, make_frame)
                elif isinstance(op.kind, EpochSink):
                    if is_in_parts(op):
                        self.in_parts[op.name] = copy_for_tasks(op)
                    if (sink := find_sink_of_workers(op)) is not None:
                        self._closed[op.name] = copy.copy(sink)
                    known = possible.get(op.name, NONE_YET)
                    self._sinks[op.name] = open_external(op, kind, job, known)
        except BaseException:
            self.close()
            raise

    def deliver(self, op: Op, epoch: int, items: Sequence[Any]) -> int:
        """Deliver the items of an epoch; return how many were accepted."""

        def refuse(item: Any, error: Exception) -> None:
            self._on_error(failure_of(op, item, name_item(epoch, op.name), error))

        return self._sinks[op.name].write(epoch, items, refuse) if items else 0

    def find_parted(self, sink: str) -> ConnectorSink | None:
        """Return a sink that is written in parts, unless a worker commits them."""
        found = self._sinks.get(sink) if sink in self.in_parts else None
        return found if isinstance(found, ConnectorSink) else None

    @property
    def last_epochs(self) -> dict[str, tuple[int]]:
        """The last epoch of each sink that knows it."""
        return {
            name: (sink.last,)
            for name, sink in self._sinks.items()
            if isinstance(sink, ConnectorSink) and sink.last is not None
        }

    def has(self, op: Op, epoch: int) -> bool:
        """Tell whether a sink has an epoch already."""
        sink = self._sinks[op.name]
        return isinstance(sink, ConnectorSink) and sink.has(epoch)

    def hand_over(self) -> dict[str, Committing]:
        """Close the sinks that workers can open, and return them."""
        for name in self._closed:
            if name in self._sinks:
                self._sinks.pop(name).close()
        return dict(self._closed)

    def close(self) -> None:
        """Release connections."""
        with contextlib.ExitStack() as closing:  # all of them, whichever fails
            for sink in self._sinks.values():
                closing.callback(sink.close)


def find_sink_of_workers(op: Op) -> Committing | None:
    """Return a sink that workers may open instead of the driver, or None."""
    sink = op.kind.sink if isinstance(op.kind, WriteSink) else None
    return sink if getattr(sink, "in_workers", False) and travels(sink) else None


def copy_for_tasks(op: Op) -> Committing:
    """Return a copy of a sink that tasks write in parts; refuse one that cannot travel."""
    assert isinstance(op.kind, WriteSink)  # noqa: S101
    if not travels(op.kind.sink):
        msg = (
            f"sink {op.name!r} ({op.site}) must be picklable, because tasks call its "
            f"write_part; {type(op.kind.sink).__name__} is not; open files and "
            f"connections in write_part and in open, not before"
        )
        raise EngineError(msg)
    return copy.copy(op.kind.sink)  # type: ignore[return-value]


class FrameSink(External):
    """Calls a user's function with a DataFrame per epoch."""

    def __init__(self, op: Op, item_type: Any, make_frame: MakeFrame) -> None:
        assert isinstance(op.kind, ToSpark)  # noqa: S101
        self._op = op
        self._function = op.kind.function
        self._type = item_type
        self._make_frame = make_frame

    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        table = self._table(items, refuse)
        frame = self._make_frame(table)
        try:
            self._function(frame, epoch)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            # An epoch cannot be skipped, whatever happens to items.
            stop(failure_of(self._op, f"epoch {epoch}", f"epoch {epoch}", error))
        return len(table)

    def close(self) -> None:
        """Do nothing: the session is the user's."""

    def _table(self, items: Sequence[Any], refuse: Refuse) -> pa.Table:
        form = None if self._type is None else form_of(self._type)
        made = None if form is None else to_table(items, form)
        if made is not None:
            return made
        names, types = columns_of(self._type), arrow_types(self._type)
        likely = likely_types(self._type)
        fitting = []
        for item in items:
            try:
                table_of([item], names, types)
                fitting.append(item)
            except OutputError as error:
                refuse(item, error)
        return plain_table(fill_table(table_of(fitting, names, types), likely))


def _open_output(
    op: Op, item_type: Any, on_error: OnError, identity: str | None, *, new: bool
) -> FileOutput:
    """Return the output of a file sink; `identity` is that of the checkpoint, if
    any.
    """
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    if identity is not None:
        return StagedOutput(op, item_type, on_error, identity, new=new)
    if op.kind.rolls:
        return RolledOutput(op, item_type, on_error)
    if isinstance(locate(op.kind.path), StorePath):
        return StoredOutput(op, item_type, on_error)
    return WholeOutput(op, item_type, on_error)


class EpochOutputs:
    """Delivers items that reach the driver, and publishes written parts.

    `identity` is that of the checkpoint, if there is one; `new` tells whether it is
    new. `possible` are the epochs that may be the last of each external sink.
    """

    def __init__(
        self,
        graph: Graph,
        on_error: OnError,
        make_frame: MakeFrame,
        identity: str | None = None,
        *,
        new: bool = True,
        possible: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.job = identity or uuid.uuid4().hex[:12]
        self._outside = Deliveries(graph, on_error, self.job, make_frame, possible)
        self._graph = graph
        self._on_error = on_error
        self.abandoned = False  # nothing may be delivered any more
        self.delivered = {op.name: 0 for op in graph.sinks}
        self._files: dict[str, FileOutput] = {}
        for op in graph.sinks:
            match op.kind:
                case ToList(items=items):
                    items.clear()
                case WriteFiles():
                    kind = graph[op.inputs[0].operator].type
                    self._files[op.name] = _open_output(
                        op, kind, on_error, identity, new=new
                    )

    @property
    def directories(self) -> dict[str, str]:
        """Where tasks write the parts of each file sink."""
        return {name: str(file.directory) for name, file in self._files.items()}

    def begin(self, stage: str) -> None:
        """Prepare for the parts of a try of an epoch."""
        for file in self._files.values():
            file.begin(stage)

    def compare(self, stage: str, parts: Mapping[str, Sequence[str]]) -> None:
        """Refuse parts of an epoch that do not fit earlier ones; nothing counts yet."""
        for name, file in self._files.items():
            file.compare(stage, parts.get(name, ()))

    def publish(self, stage: str, parts: Mapping[str, Sequence[str]]) -> None:
        """Publish the parts of a committed epoch."""
        for name, file in self._files.items():
            file.publish(stage, parts.get(name, ()))

    def note(self, parts: Iterable[PartSum]) -> None:
        """Record the sizes and digests of parts that are, or will be, published."""
        for part in parts:
            file = self._files[part.sink]
            if isinstance(file, StagedOutput):
                file.note(part)

    def take_back(self, epoch: int) -> None:
        """Remove the parts of later epochs, which run again."""
        for file in self._files.values():
            if isinstance(file, StagedOutput):
                file.take_back(epoch)

    def check(self, part_counts: Mapping[str, int], seal: Seal, first: Stamp) -> None:
        """Refuse to resume with outputs that have changed since the last run."""
        for name, file in self._files.items():
            if isinstance(file, StagedOutput):
                file.check(part_counts.get(name, 0), seal, first)

    def count(self, written: Iterable[WrittenPart]) -> None:
        """Count the items that tasks have written to files."""
        for part in written:
            self.delivered[part.sink] += part.items
            file = self._files[part.sink]
            if isinstance(file, RolledOutput):
                file.pending.items += part.items

    def deliver(self, epoch: int, sunk: Mapping[str, list[Any]]) -> None:
        """Deliver an epoch's items to driver sinks.

        After a kill an epoch may come again; its number tells.
        """
        for op in self._graph.sinks:
            items = sunk.get(op.name, [])
            match op.kind:
                case ToList(items=collected):
                    collected.extend(items)
                    self.delivered[op.name] += len(items)
                case ForEach():
                    self._call(op, op.kind, items)
                case EpochSink():
                    taken = self._outside.deliver(op, epoch, items)
                    self.delivered[op.name] += taken

    @property
    def last_epochs(self) -> dict[str, tuple[int]]:
        """The last epoch of each external sink that knows it."""
        return self._outside.last_epochs

    def has(self, epoch: int, sink: str) -> bool:
        """Tell whether an external sink has an epoch already."""
        return self._outside.has(self._graph[sink], epoch)

    def commit_parts(self, epoch: int, sink: str, parts: Sequence[WrittenPart]) -> bool:
        """Have a sink commit the parts of an epoch; False: this is not done here."""
        opened = self._outside.find_parted(sink)
        if opened is None:
            return False
        reach("delivering", epoch)
        opened.commit_parts(epoch, list_described(parts))
        self.delivered[sink] += sum(one.items for one in parts)
        reach("sent", epoch)
        return True

    def deliver_again(self, epoch: int, sink: str, items: Sequence[Any]) -> None:
        """Deliver the items of an epoch that no worker has delivered."""
        self.delivered[sink] += self._outside.deliver(self._graph[sink], epoch, items)

    def note_delivery(
        self, sink: str, accepted: int, failures: Iterable[Failure]
    ) -> None:
        """Count the items that a worker has delivered, and report the others."""
        self.delivered[sink] += accepted
        for failure in failures:
            self._on_error(failure)

    def hand_over(self, directory: str | None) -> ExternalSinks | None:
        """Let workers write external sinks, if any; items wait in `directory`.

        Without one, the driver writes all but those in parts.
        """
        sinks = {} if directory is None else self._outside.hand_over()
        in_parts = self._outside.in_parts
        if not sinks and not in_parts:
            return None
        return ExternalSinks(self.job, directory or "", sinks, in_parts)

    def _call(self, op: Op, kind: ForEach, items: list[Any]) -> None:
        for item in items:
            if self.abandoned:
                raise AbortedError
            number = self.delivered[op.name] + 1
            try:
                kind.function(item)
            except Exception as error:  # noqa: BLE001 - the user's code
                where = f"item {number} of sink {op.name}"
                self._on_error(failure_of(op, item, where, error))
            self.delivered[op.name] += 1

    def complete(self) -> None:
        """Finalize the files at the end of the job."""
        for file in self._files.values():
            file.complete()

    def abort(self) -> None:
        """Remove everything that would disturb the next run."""
        for file in self._files.values():
            file.abort()

    def close(self) -> None:
        """Close the external sinks."""
        self._outside.close()
