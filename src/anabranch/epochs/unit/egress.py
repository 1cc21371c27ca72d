"""The outputs of a unit: sent on, or written as a part of a file sink.

Several attempts of a task may write at the same time, so each has a file of its own,
whose name begins with the id of the attempt. The driver moves the file of the attempt
whose report it received to the name of the part, and removes the others.
"""

from __future__ import annotations

import io
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow.parquet as pq

from anabranch.connectors.external import PartWriter
from anabranch.connectors.files.arrow_items import form_of, without_codes
from anabranch.connectors.files.columnar_csv import write_table
from anabranch.connectors.files.columns import columns_of
from anabranch.connectors.files.csv import csv_of_table, encode_csv, encode_rows
from anabranch.connectors.files.jsonl import encode_jsonl
from anabranch.connectors.files.parquet import arrow_types, table_of
from anabranch.connectors.files.writer import output_error
from anabranch.connectors.storage import Location, locate
from anabranch.epochs.checkpoint.files import sync
from anabranch.epochs.checkpoint.seal import NO_KEY, Digesting, Seal
from anabranch.epochs.faults import reach
from anabranch.epochs.item_files import ItemWriter, items_of
from anabranch.epochs.ranges import find_deciding_before, in_groups
from anabranch.epochs.shuffle import SentKeys, TaskRows, by_key, by_range
from anabranch.epochs.task import (
    TO_DRIVER,
    EpochTask,
    ProcessRows,
    WorkerJob,
    WrittenPart,
)
from anabranch.epochs.unit.make_parts import PartMaker
from anabranch.epochs.wire import WireBatch, end_to_end
from anabranch.errors import OutputError
from anabranch.graph.graph import Edge, Op
from anabranch.operators.clock import keeps_clock
from anabranch.operators.sinks import WriteFiles, is_unordered
from anabranch.operators.window_parts import MergedAggregate
from anabranch.runtime.failures import (
    END,
    Failure,
    OnError,
    failure_of,
    name_place,
)
from anabranch.runtime.interpreter import kernel_of


def name_staged_part(epoch: int, channel: int, form: str, attempt: int) -> str:
    """Return the name under which an attempt writes a part.

    >>> name_staged_part(12, 1, "csv", attempt=42)
    '42.part-000000012-0001.csv'
    """
    return f"{attempt}.part-{epoch:09}-{channel:04}.{form}"


def name_published_part(staged: str) -> str:
    """Return the name of a part in the output.

    >>> name_published_part("42.part-000000012-0001.csv")
    'part-000000012-0001.csv'
    """
    return staged[staged.index("part-") :]


def write_part(
    op: Op,
    item_type: Any,
    batch: WireBatch,
    path: Location,
    on_error: OnError,
    *,
    epoch: int = 0,
    seal: Seal = NO_KEY,
) -> WrittenPart:
    """Write the items of a batch to a file."""
    with _part_errors(op, path.parent):
        try:
            sums = _write(op, item_type, batch, path, epoch, seal)
        except OutputError:
            # One of the items does not fit: find out which, and let the user decide.
            batch = _fitting(op, item_type, batch, on_error)
            sums = _write(op, item_type, batch, path, epoch, seal)
    size, digest = sums
    return WrittenPart(op.name, path.name, len(batch), digest, size=size)


@contextmanager
def _part_errors(op: Op, directory: Location) -> Iterator[None]:
    """Turn errors of a task's writing into ones that name the sink and the path."""
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    try:
        yield
    except FileNotFoundError as error:
        raise _not_there(op, directory) from error
    except OSError as error:
        raise output_error(locate(op.kind.path), error) from error


def _not_there(op: Op, directory: Location) -> OutputError:
    """Return the error of a task that does not see the driver's directory."""
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    return OutputError(
        f"the output {op.kind.path} of {op.name!r} ({op.site}) must lie where the driver "
        f"and every worker see it; a task on {socket.gethostname()} does not find "
        f"{directory}, which the driver has made; write to storage that all hosts "
        f"share, or collect the items with .to_list() or .for_each(...)"
    )


class _Summing(io.RawIOBase):
    """Writes to a file, and sums up what is written: a store is not read for that."""

    def __init__(self, file: BinaryIO, made: Digesting) -> None:
        self._file, self._made = file, made
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._made.update(data)
        self.size += memoryview(data).nbytes
        return self._file.write(data)

    @property
    def sums(self) -> tuple[int, str]:
        """The size and the digest of all bytes."""
        return self.size, self._made.digest


def _write(  # noqa: PLR0917 - the parts of one thing
    op: Op, item_type: Any, batch: WireBatch, path: Location, epoch: int, seal: Seal
) -> tuple[int, str]:
    """Write a part atomically: a file of a store appears when it is closed.

    Return its size and its digest.
    """
    hidden: Location = path
    if isinstance(path, Path):
        hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with hidden.open("wb") as file:
        summing = _Summing(file, seal.begin())
        _write_to(cast("BinaryIO", summing), op, item_type, batch)
    reach("half-written", epoch)
    if isinstance(path, Path):
        hidden.replace(path)  # type: ignore[arg-type]
    return summing.sums


def _write_to(file: BinaryIO, op: Op, item_type: Any, batch: WireBatch) -> None:
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    match op.kind.format:
        case "csv":
            file.writelines(_csv(item_type, batch))
        case "jsonl":
            file.write(encode_jsonl(batch.items))
        case "parquet":
            table = batch.as_table()
            if table is None:
                names = columns_of(item_type)
                table = table_of(batch.items, names, arrow_types(item_type))
            pq.write_table(without_codes(table), file)


def _csv(item_type: Any, batch: WireBatch) -> Iterable[bytes | memoryview]:
    """Yield the text of a part: by kernels, by Arrow, or else item by item."""
    table = batch.as_table()
    if table is not None:
        head = encode_rows([table.column_names])
        parts = write_table(table)
        if parts is not None:
            return chain((head,), parts)
        fast = csv_of_table(without_codes(table))
        if fast is not None:
            return head, fast
    return (encode_csv(batch.items, columns_of(item_type), header=True),)


class NoPlaceError(Exception):
    """An item cannot be written, and only positions could say which one it is."""


def _fitting(op: Op, item_type: Any, batch: WireBatch, on_error: OnError) -> WireBatch:
    """Return the items that can be written; the others go to `on_error`."""
    if not batch.positions:
        raise NoPlaceError
    kept = []
    for item, number in zip(batch.items, batch.positions[0].tolist(), strict=True):
        try:
            match op.kind:
                case WriteFiles(format="csv"):
                    encode_csv([item], columns_of(item_type), header=False)
                case WriteFiles(format="jsonl"):
                    encode_jsonl([item])
                case _:
                    table_of([item], columns_of(item_type), arrow_types(item_type))
            kept.append(item)
        except OutputError as error:
            on_error(failure_of(op, item, f"position {number}", error, (number,)))
    return WireBatch([], batch.form, None, kept)


class Exits:
    """Sends the outputs of a job's units to their destinations."""

    def __init__(self, job: WorkerJob, on_error: OnError) -> None:
        self._job = job
        self._layout = job.spec.layout
        self._on_error = on_error
        external = job.spec.external
        self._item_writer = None if external is None else ItemWriter(job, external)
        self._external = frozenset() if external is None else frozenset(external.sinks)
        self._part_writers: dict[str, PartWriter] = {}
        if external is not None:
            for sink, one in external.in_parts.items():
                op, item_type = self._layout.graph[sink], self._type_of(sink)
                self._part_writers[sink] = PartWriter(op, one, item_type, external.job)
        self._written: list[WrittenPart] = []
        self.sent = SentKeys()  # since they were last taken
        self._part_makers = {
            edge: PartMaker(kind)
            for edge in self._layout.routes
            if isinstance(
                kind := self._layout.graph[edge.consumer.operator].kind, MergedAggregate
            )
        }

        self._clocks = {
            edge: kernel_of(op)
            for edge, route in self._layout.routes.items()
            if route.how == "range" and route.unit >= 0
            if keeps_clock(op := self._layout.graph[edge.consumer.operator])
        }

    def take_written(self) -> tuple[WrittenPart, ...]:
        """Return what was written for sinks since the last call."""
        written, self._written = tuple(self._written), []
        return written

    def leave(
        self,
        left: dict[Edge, list[WireBatch]],
        task: EpochTask,
        channel: int,
        rows: TaskRows,
    ) -> None:
        """Send or write the outputs."""
        for edge, batches in left.items():
            batch = end_to_end(batches)
            route = self._layout.routes[edge]
            if route.how != "write":
                self._send(edge, batch, task, channel, rows)
            elif len(batch):
                self.write(edge.consumer.operator, batch, task, channel)

    def drop_marks(self, edge: Edge, batch: WireBatch) -> WireBatch:
        """Drop punctuations on the way to a sink."""
        to_sink = edge.consumer.operator not in self._layout.unit_of
        if not to_sink or edge.producer.operator not in self._job.marked:
            return batch
        return batch.drop_signs()

    def _send(
        self,
        edge: Edge,
        batch: WireBatch,
        task: EpochTask,
        own: int,
        rows: TaskRows,
    ) -> None:
        pickler, route = self._job.pickler, self._layout.routes[edge]
        if not len(batch):
            return
        if route.how == "driver":
            self._send_to_sink(edge.consumer.operator, batch, task, own, rows)
            return
        if route.how == "one":
            maker = self._part_makers.get(edge)
            batch = batch if maker is None else maker.make(batch)
            rows.add_batch(route.unit, 0, route.entry, batch, pickler)
            return
        unit = self._layout.units[route.unit]
        if route.how == "key":
            divided = by_key(batch, unit.key, task, unit.number, self.sent)
        elif route.how == "group":
            counts, divided = in_groups(batch, task, unit)
            for channel in range(task.stage.channels[unit.number]):
                rows.add(unit.number, channel, route.entry, counts)
        else:
            kernel = self._clocks.get(edge)
            if kernel is not None:
                found = find_deciding_before(batch, task, unit.number, kernel, pickler)
                for channel, deciding in found:
                    rows.add(unit.number, channel, route.entry, deciding)
            divided = by_range(batch, task, unit.number)
        for channel, part in divided:
            rows.add_batch(route.unit, channel, route.entry, part, pickler)

    def _send_to_sink(
        self, sink: str, batch: WireBatch, task: EpochTask, channel: int, rows: TaskRows
    ) -> None:
        """Store items for the worker that will deliver them, or send them to the
        driver.
        """
        graph = self._layout.graph
        if is_unordered(graph[sink]):
            batch = batch.drop_positions()
        if self._item_writer is not None and sink in self._external:
            file = self._item_writer.write(sink, batch, task, channel)
            self._written.append(file)
            return
        number = graph.names.index(sink)
        rows.add_batch(TO_DRIVER, 0, number, batch, self._job.pickler)

    def write(self, sink: str, batch: WireBatch, task: EpochTask, channel: int) -> None:
        """Write a part of an epoch for a sink."""
        op = self._layout.graph[sink]
        if sink in self._part_writers:
            self._written.append(self._describe_part(op, batch, task, channel))
            return
        assert isinstance(op.kind, WriteFiles)  # noqa: S101
        attempt = task.attempt
        directory = locate(self._job.spec.outputs[sink]) / attempt.parts_directory
        form, which = op.kind.format, attempt.attempt_id
        path = directory / name_staged_part(attempt.epoch, channel, form, which)
        item_type = self._type_of(sink)

        def refuse(failure: Failure) -> None:
            self._on_error(self._tell_place(failure, task))

        epoch, seal = task.attempt.epoch, self._job.spec.seal
        part = write_part(op, item_type, batch, path, refuse, epoch=epoch, seal=seal)
        if self._job.spec.checkpoint is not None:
            sync(path)
        self._written.append(part)
        reach("written", epoch)

    def _describe_part(
        self, op: Op, batch: WireBatch, task: EpochTask, channel: int
    ) -> WrittenPart:
        """Have a sink write a part, and return its description."""
        epoch = task.attempt.epoch
        place = f"{epoch:09}-{channel:06}"
        writer, items = self._part_writers[op.name], items_of(batch)
        reach("half-written", epoch)
        described, refused = writer.write_part(place, epoch, items)
        if refused and not batch.positions:
            raise NoPlaceError
        for number, error in refused.items():
            position = int(batch.positions[0][number])
            failure = failure_of(
                op, items[number], f"position {position}", error, (position,)
            )
            self._on_error(self._tell_place(failure, task))
        reach("written", epoch)
        kept = len(items) - len(refused)
        return WrittenPart(op.name, place, kept, described=described)

    def _tell_place(self, failure: Failure, task: EpochTask) -> Failure:
        """Return a sink's failure with its place in the form of other operators."""
        if failure.place is None or not isinstance(task.mode, ProcessRows):
            return replace(failure, where=END, place=None)
        graph = self._layout.graph
        where = name_place(graph, failure.place[0])
        alone = len(graph.sources) == 1  # else the number of the source is missing
        return replace(failure, where=where, place=failure.place if alone else None)

    def _type_of(self, sink: str) -> Any:
        """Return the type of the items that a sink gets."""
        return self._layout.graph[self._layout.graph[sink].inputs[0].operator].type

    def form(self, operator: str) -> Any:
        kind = self._layout.graph[operator].type
        return None if kind is None else form_of(kind)
