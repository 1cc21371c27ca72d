"""Runs a task: rows in, one fused program, rows out.

The generated programs are kept in the worker process from epoch to epoch; what
changes with the epoch comes with the task.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import Broadcast, TaskContext

from anabranch.engines.spark.cuts import halves_of
from anabranch.engines.spark.durable import sync
from anabranch.engines.spark.faults import reach
from anabranch.engines.spark.layout import Layout, Route, Unit
from anabranch.engines.spark.parts import write_part
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.pieces import read_piece
from anabranch.engines.spark.restoring import local_directory
from anabranch.engines.spark.routing import Rows, by_key, by_range
from anabranch.engines.spark.ship import unpacked
from anabranch.engines.spark.shortcuts import shortcut_of
from anabranch.engines.spark.states import StoredStates
from anabranch.engines.spark.store import close_buckets
from anabranch.engines.spark.task import (
    ALONG,
    ALONG_END,
    REPORT,
    TO_DRIVER,
    EpochTask,
    Report,
    Share,
)
from anabranch.engines.spark.unit_states import Changes, UnitStates
from anabranch.engines.spark.wire import (
    Batch,
    decode,
    end_to_end,
    in_order,
    interleaved,
)
from anabranch.errors import AnabranchError
from anabranch.graph.graph import Edge
from anabranch.runtime.columns import form_of
from anabranch.runtime.failures import Failure, stop
from anabranch.runtime.fusion import Entry
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Program
from anabranch.runtime.punctuated import punctuated_operators
from anabranch.runtime.punctuation import WINDOW
from anabranch.runtime.state import States

Fed: TypeAlias = tuple[list[Any], list[list[int]], list[int] | None]

_runners: dict[str, Runner] = {}  # by job; a worker serves one job at a time


@dataclass(frozen=True)
class Spec:
    """What stays the same for a whole job: the layout and the directories."""

    job: str
    layout: Layout
    resilient: bool
    state_directory: str  # of this host, without a checkpoint
    outputs: dict[str, str]  # file sink -> directory of its parts
    checkpoint: str | None = None
    identity: str = ""  # of the checkpoint


def run_task(
    job: str,
    shipped: Broadcast[bytes],
    task: EpochTask,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the task of this partition; `shipped` is the packed `Spec` of the job."""
    if job not in _runners:
        _runners.clear()
        close_buckets()
        _runners[job] = Runner(unpacked(shipped.value))
        gc.freeze()  # what is there now stays; it need not be looked at again
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls us
    gc.disable()  # a batch is a lot of objects, hardly any of them in a cycle
    try:
        yield from _runners[job].run(task, context.partitionId(), batches)
    finally:
        gc.enable()
        gc.collect()


class Runner:
    """The units of a job in this process."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.pickler = Pickler(spec.layout.graph)
        self.marked = punctuated_operators(spec.layout.graph)
        self._units: dict[int, UnitRunner] = {}

    def run(
        self, task: EpochTask, partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Run the task of a partition and pass on what is for later levels."""
        layout = self.spec.layout
        rows = Rows()
        unit, channel = task.places(layout, task.level)[partition]
        if task.half == "second":
            yield from self._second(task, (unit, channel), batches, rows)
            return
        received: list[list[pa.Buffer]] = [[] for _ in unit.entries]
        for batch in batches:
            if batch.num_columns == len(rows.schema):  # not the number of a partition
                _sort_out(batch, unit, received, rows)
        share = task.shares.get((unit.number, channel), Share())
        if task.half == "first" and unit.number in task.cuts:
            given = [
                [*map(pa.py_buffer, _blobs(share, n)), *received[n]]
                for n in range(len(received))
            ]
            yield from self._first(
                task, (unit, channel), replace(share, blobs=()), given, rows
            )
        else:
            self.run_unit(task, (unit, channel), share, received, rows)
        yield from rows.batches(task, layout)

    def _first(
        self,
        task: EpochTask,
        place: tuple[Unit, int],
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Iterator[pa.RecordBatch]:
        """Run what comes before a cut, and hand it on chunk by chunk."""
        unit, channel = place
        along = Rows()
        try:
            half = self.unit(unit).first_half(task, channel, share, received, rows)
            for batch in half:
                along.add_batch(ALONG, channel, 0, batch, self.pickler)
                yield from along.taken(task, self.spec.layout)
            ended = self.unit(unit).half_done
        except AnabranchError as error:
            ended = {}, Report(unit.number, channel, error=_told(error))
        rows.add(ALONG_END, channel, 0, self.pickler.dumps(ended))

    def _second(
        self,
        task: EpochTask,
        place: tuple[Unit, int],
        batches: Iterable[pa.RecordBatch],
        rows: Rows,
    ) -> Iterator[pa.RecordBatch]:
        """Run what comes behind a cut, while the first half still works."""
        unit, channel = place
        if unit.number not in task.cuts:
            yield from batches
            return
        blobs = _along(batches, rows)
        try:
            reports = self.unit(unit).second_half(task, channel, blobs, rows)
        except AnabranchError as error:
            reports = (Report(unit.number, channel, error=_told(error)),)
        for report in reports:
            rows.add(REPORT, channel, 0, self.pickler.dumps(report))
        yield from rows.batches(task, self.spec.layout)

    def unit(self, unit: Unit) -> UnitRunner:
        """Return the running side of a unit."""
        if unit.number not in self._units:
            self._units[unit.number] = UnitRunner(self, unit)
        return self._units[unit.number]

    def run_unit(
        self,
        task: EpochTask,
        place: tuple[Unit, int],
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> None:
        """Run a channel of a unit; an error becomes part of the report."""
        unit, channel = place
        for entry, blob in share.blobs:
            received[entry].append(pa.py_buffer(blob))
        started = time.perf_counter()
        try:
            report = self.unit(unit).run(task, channel, share, received, rows)
        except AnabranchError as error:
            report = Report(unit.number, channel, error=_told(error))
        report = replace(report, seconds=time.perf_counter() - started)
        rows.add(REPORT, channel, 0, self.pickler.dumps(report))


class UnitRunner:
    """A unit in this process: its program, and its states while an epoch runs."""

    def __init__(self, runner: Runner, unit: Unit) -> None:
        self._runner = runner
        self._unit = unit
        self._layout = runner.spec.layout
        graph = self._layout.graph
        kernels = {
            name: kernel_of(graph[name])
            for name in unit.operators
            if graph[name].inputs
        }
        stateful = [n for n in graph.names if n in kernels and kernels[n].stateful]
        self._stored: dict[str, StoredStates] = {}
        self._states: dict[str, dict[Any, Any]] = {}
        for number, name in enumerate(stateful):
            if unit.in_driver:  # this process stays, and so do its states
                self._states[name] = States(graph[name], kernels[name])
            else:
                stored = StoredStates(number, graph[name], kernels[name], unit.key)
                self._states[name] = self._stored[name] = stored
        self._failures: list[Failure] = []
        self._halves: dict[str, Program] = {}
        self.half_done: tuple[Changes, Report] = ({}, Report(unit.number, 0))
        self._programs: dict[str | None, Program] = {}
        self._shortcut = None
        if not runner.spec.resilient:
            self._shortcut = shortcut_of(
                self._layout, unit, lambda: self._made(unit.entries, None), self._ran_on
            )
        self._saved = UnitStates(
            unit, self._stored, _states_of(runner.spec), runner.spec.checkpoint
        )

    def run(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Report:
        """Run one channel for one epoch."""
        self._failures.clear()
        if task.warming:
            self._program(None)
            return Report(self._unit.number, channel)
        if task.finishing not in (None, *self._unit.operators):
            return Report(self._unit.number, channel)
        self._saved.open(task, channel, self._runner.pickler)
        try:
            if task.finishing is not None:
                return self._finish(task.finishing, channel)
            return self._run(task, channel, share, received, rows)
        finally:
            self._saved.close()

    def _run(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Report:
        read, streams = self._streams(share, received)
        written: dict[str, int] = {}
        if not self._unit.operators:  # only writes what it is given
            (stream,) = streams
            (sink,) = self._unit.writes
            if len(stream):
                written[sink] = self._write(sink, stream, task, channel)
        else:
            left = {e: [b] for e, b in self._processed(task, share, streams)}
            written, _ = self._leave(left, task, channel, rows)
        reach("processed", task.epoch)
        changes = self._saved.changes(self._unit.operators)
        saved = self._saved.save(task, channel, changes)
        return Report(
            self._unit.number,
            channel,
            read,
            written,
            tuple(self._failures),
            parts={sink: self._part(sink, task, channel) for sink in written},
            logs=saved.logs,
            snapshots=saved.snapshots,
        )

    def first_half(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Iterator[Batch]:
        """Run what comes before a cut; yield what goes on to the second half.

        `half_done` then holds what this half has changed, and its report.
        """
        self._failures.clear()
        halves = halves_of(self._layout, self._unit, task.cuts[self._unit.number])
        self._saved.open(task, channel, self._runner.pickler)
        try:
            read, streams = self._streams(share, received)
            program = self._half(halves.first, self._unit.entries)
            left: dict[Edge, list[Batch]] = {}
            for items, positions, entries in self._fed(streams):
                for edge, batch in self._ran(program, items, positions, entries):
                    if edge == halves.between:
                        yield batch
                    else:
                        left.setdefault(edge, []).append(batch.compact())
            written, parts = self._leave(left, task, channel, rows)
            report = Report(
                self._unit.number,
                channel,
                read,
                written,
                tuple(self._failures),
                parts=parts,
            )
            self.half_done = self._saved.changes(halves.first), report
        finally:
            self._saved.close()

    def second_half(
        self, task: EpochTask, channel: int, blobs: Iterator[pa.Buffer], rows: Rows
    ) -> tuple[Report, ...]:
        """Run what comes behind a cut, and save the states of both halves."""
        self._failures.clear()
        pickler = self._runner.pickler
        halves = halves_of(self._layout, self._unit, task.cuts[self._unit.number])
        self._saved.open(task, channel, pickler)
        try:
            program = self._half(halves.second, (halves.between,))
            form = self._form(halves.between.producer.operator)
            left: dict[Edge, list[Batch]] = {}
            last = None
            for blob in blobs:
                if last is not None:
                    batch = decode(last, form, pickler)
                    positions = [column.tolist() for column in batch.positions]
                    for edge, out in self._ran(program, batch.items, positions):
                        left.setdefault(edge, []).append(out.compact())
                last = blob
            assert last is not None  # noqa: S101 - the first half always ends with one
            changes, first = pickler.loads(last)
            written, parts = self._leave(left, task, channel, rows)
            if first.error is not None:
                return (first,)
            own = self._saved.changes(halves.second)
            together = {n: {**changes.get(n, {}), **own[n]} for n in own}
            saved = self._saved.save(task, channel, together)
            report = Report(
                self._unit.number,
                channel,
                {},
                written,
                tuple(self._failures),
                parts=parts,
                logs=saved.logs,
                snapshots=saved.snapshots,
            )
            return first, report
        finally:
            self._saved.close()

    def _half(self, operators: tuple[str, ...], entries: tuple[Entry, ...]) -> Program:
        key = "+".join(operators)
        if key not in self._halves:
            self._halves[key] = self._made(entries, self._layout.positions, operators)
        return self._halves[key]

    def _finish(self, operator: str, channel: int) -> Report:
        if operator in self._stored:
            self._stored[operator].load_all()
        finished = self._program(operator).finish(operator)
        return Report(
            self._unit.number,
            channel,
            failures=tuple(self._failures),
            finished=tuple((key, outputs) for key, outputs in finished if outputs),
        )

    def _streams(
        self, share: Share, received: list[list[pa.Buffer]]
    ) -> tuple[dict[str, int], list[Batch]]:
        """Return what came in, one batch per entry, and how much each source gave."""
        graph, pickler = self._layout.graph, self._runner.pickler
        several = len(graph.sources) > 1
        order = {op.name: index for index, op in enumerate(graph.sources)}
        read: dict[str, int] = {}
        streams = []
        for entry, blobs in zip(self._unit.entries, received, strict=True):
            if isinstance(entry, Edge):
                form = self._form(entry.producer.operator)
                batches = [decode(blob, form, pickler) for blob in blobs]
            else:
                batches = [
                    read_piece(piece, graph[entry], pickler, self._on_error)
                    for piece in share.pieces
                    if piece.source == entry
                ]
                for batch in batches:
                    if several:
                        batch.positions.append(np.full(len(batch), order[entry]))
                read[entry] = sum(map(len, batches))
            streams.append(in_order(batches))
        return read, streams

    def _leave(
        self,
        left: dict[Edge, list[Batch]],
        task: EpochTask,
        channel: int,
        rows: Rows,
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Send on or write what has left; return what was written, and to which part."""
        written: dict[str, int] = {}
        for edge, batches in left.items():
            batch = end_to_end(batches)
            route = self._layout.routes[edge]
            if route.how != "write":
                self._send(edge, batch, route, task, rows)
            elif len(batch):
                sink = edge.consumer.operator
                written[sink] = self._write(sink, batch, task, channel)
        return written, {sink: self._part(sink, task, channel) for sink in written}

    def _processed(
        self, task: EpochTask, share: Share, streams: list[Batch]
    ) -> Iterator[tuple[Edge, Batch]]:
        """Run the program on what came in, and return what left it, by stream."""
        if task.after is not None:
            if share.injected is not None:
                items, positions = self._runner.pickler.loads(share.injected)
                yield from self._ran(self._program(task.after), items, positions)
            elif any(map(len, streams)):
                yield from self._ran_on(streams)
        elif len(streams) == 1 and self._shortcut is not None:
            yield from self._shortcut.run(streams[0])
        elif any(map(len, streams)):
            yield from self._ran_on(streams)

    def _ran_on(self, streams: list[Batch]) -> Iterator[tuple[Edge, Batch]]:
        program = self._program(None)
        left: dict[Edge, list[Batch]] = {}
        for items, positions, entries in self._fed(streams):
            for edge, batch in self._ran(program, items, positions, entries):
                left.setdefault(edge, []).append(batch.compact())
        for edge, batches in left.items():
            yield edge, end_to_end(batches)

    def _fed(self, streams: list[Batch]) -> Iterator[Fed]:
        """Return what came in as a program takes it: chunks of items in order."""
        if not any(map(len, streams)):
            return
        if len(streams) == 1:
            for chunk in streams[0].chunks():
                yield chunk.items, [c.tolist() for c in chunk.positions], None
            return
        form = self._layout.positions
        width = max(
            form.on(entry) if isinstance(entry, Edge) else form.after[entry]
            for entry in self._unit.entries
        )
        items, columns, entries = interleaved(streams, width)
        yield items, [column.tolist() for column in columns], entries

    def _ran(
        self,
        program: Program,
        items: list[Any],
        positions: list[list[int]],
        entries: list[int] | None = None,
    ) -> Iterator[tuple[Edge, Batch]]:
        program.run(items, positions, entries)
        for edge, left in program.exits.items():
            columns = [np.array(column, np.int64) for column in left.positions]
            form = self._form(edge.producer.operator)
            batch = Batch(columns, form, None, left.items[:])
            left.clear()
            yield edge, self._unmarked(edge, batch)

    def _program(self, after: str | None) -> Program:
        """Return the program whose items come in as usual, or after an operator."""
        if after not in self._unit.operators:
            after = None
        if after not in self._programs:
            entries = self._unit.entries if after is None else (after,)
            self._programs[after] = self._made(entries, self._layout.positions)
        return self._programs[after]

    def _made(
        self,
        entries: tuple[Entry, ...],
        positions: Positions | None,
        operators: tuple[str, ...] | None = None,
    ) -> Program:
        return Program(
            self._layout.graph,
            self._unit.operators if operators is None else operators,
            entries,
            positions=positions,
            states=self._states,
            on_error=self._on_error if self._runner.spec.resilient else stop,
            describe=self._describe,
        )

    def _unmarked(self, edge: Edge, batch: Batch) -> Batch:
        """Leave out punctuations on the way to a sink."""
        to_sink = edge.consumer.operator not in self._layout.unit_of
        if not to_sink or edge.producer.operator not in self._runner.marked:
            return batch
        kept = [i for i, item in enumerate(batch.items) if item is not WINDOW]
        return batch.take(np.array(kept, np.int64))

    def _send(
        self, edge: Edge, batch: Batch, route: Route, task: EpochTask, rows: Rows
    ) -> None:
        pickler = self._runner.pickler
        if not len(batch):
            return
        if route.how == "driver":
            sink = self._layout.graph.names.index(edge.consumer.operator)
            rows.add_batch(TO_DRIVER, 0, sink, batch, pickler)
            return
        if route.how == "one":
            rows.add_batch(route.unit, 0, route.entry, batch, pickler)
            return
        key = self._layout.units[route.unit].key
        divided = (
            by_key(batch, key, task, route.unit)
            if route.how == "key"
            else by_range(batch, task, route.unit)
        )
        for channel, part in divided:
            rows.add_batch(route.unit, channel, route.entry, part, pickler)

    def _write(self, sink: str, batch: Batch, task: EpochTask, channel: int) -> int:
        op = self._layout.graph[sink]
        directory = Path(self._runner.spec.outputs[sink]) / task.stage
        path = directory / self._part(sink, task, channel)
        item_type = self._layout.graph[op.inputs[0].operator].type
        written = write_part(op, item_type, batch, path, self._on_error)
        if task.stage:
            sync(path)
        return written

    def _part(self, sink: str, task: EpochTask, channel: int) -> str:
        kind = self._layout.graph[sink].kind
        return f"part-{task.epoch:09}-{channel:04}.{kind.format}"  # type: ignore[attr-defined]

    def _form(self, operator: str) -> Any:
        kind = self._layout.graph[operator].type
        return None if kind is None else form_of(kind)

    def _on_error(self, failure: Failure) -> None:
        if not self._runner.spec.resilient:
            stop(failure)
        self._failures.append(_picklable(failure))

    def _describe(self, place: int | None) -> str:
        sources = self._layout.graph.sources
        if place is None or len(sources) > 1:
            return "an item" if place is None else f"item {place} of the sources"
        return f"item {place} of {sources[0].name}"


def _states_of(spec: Spec) -> Path:
    """Return where this host has the states; after a restart, where it had them."""
    if spec.checkpoint is None:
        return Path(spec.state_directory)
    return local_directory(spec.identity)


def _sort_out(
    batch: pa.RecordBatch, unit: Unit, received: list[list[pa.Buffer]], rows: Rows
) -> None:
    """Keep the blobs that are for this unit and pass the other rows on."""
    units = batch.column("unit").to_pylist()
    channels = batch.column("channel").to_pylist()
    entries = batch.column("entry").to_pylist()
    payloads = batch.column("payload")
    for index, target in enumerate(units):
        payload = payloads[index].as_buffer()
        if target == unit.number:
            received[entries[index]].append(payload)
        else:
            rows.add(target, channels[index], entries[index], payload)


def _blobs(share: Share, entry: int) -> Iterator[bytes]:
    return (blob for number, blob in share.blobs if number == entry)


def _along(batches: Iterable[pa.RecordBatch], rows: Rows) -> Iterator[pa.Buffer]:
    """Return the blobs for the second half, as they come; pass the other rows on."""
    for batch in batches:
        units = batch.column("unit").to_pylist()
        channels = batch.column("channel").to_pylist()
        entries = batch.column("entry").to_pylist()
        for index, unit in enumerate(units):
            payload = batch.column("payload")[index].as_buffer()
            if unit in (ALONG, ALONG_END):
                yield payload
            else:
                rows.add(unit, channels[index], entries[index], payload)


def _told(error: AnabranchError) -> AnabranchError:
    """Add the user's own traceback to an error that leaves the process."""
    if error.__cause__ is not None:
        lines = traceback.format_exception(error.__cause__)
        error.add_note("".join(lines))
    return error


def _picklable(failure: Failure) -> Failure:
    error = failure.error
    made = type(error)(*error.args) if type(error).__module__ == "builtins" else error
    return Failure(failure.operator, failure.site, failure.item, failure.where, made)
