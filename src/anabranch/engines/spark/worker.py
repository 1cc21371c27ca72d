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
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast, TaskContext

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
from anabranch.engines.spark.task import REPORT, TO_DRIVER, EpochTask, Report, Share
from anabranch.engines.spark.unit_states import UnitStates
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
        received: list[list[pa.Buffer]] = [[] for _ in unit.entries]
        for batch in batches:
            if batch.num_columns == len(rows.schema):  # not the number of a partition
                _sort_out(batch, unit, received, rows)
        share = task.shares.get((unit.number, channel), Share())
        self.run_unit(task, (unit, channel), share, received, rows)
        yield from rows.batches(task, layout)

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
        if unit.number not in self._units:
            self._units[unit.number] = UnitRunner(self, unit)
        started = time.perf_counter()
        try:
            report = self._units[unit.number].run(task, channel, share, received, rows)
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
            for edge, batch in self._processed(task, share, streams):
                route = self._layout.routes[edge]
                if route.how == "write":
                    sink = edge.consumer.operator
                    if len(batch):
                        written[sink] = self._write(sink, batch, task, channel)
                else:
                    self._send(edge, batch, route, task, rows)
        reach("processed", task.epoch)
        saved = self._saved.save(task, channel)
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
        if len(streams) == 1:
            left: dict[Edge, list[Batch]] = {}
            for chunk in streams[0].chunks():
                positions = [column.tolist() for column in chunk.positions]
                for edge, batch in self._ran(program, chunk.items, positions):
                    left.setdefault(edge, []).append(batch.compact())
            for edge, batches in left.items():
                yield edge, end_to_end(batches)
            return
        form = self._layout.positions
        width = max(
            form.on(entry) if isinstance(entry, Edge) else form.after[entry]
            for entry in self._unit.entries
        )
        items, columns, entries = interleaved(streams, width)
        positions = [column.tolist() for column in columns]
        yield from self._ran(program, items, positions, entries)

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

    def _made(self, entries: tuple[Entry, ...], positions: Positions | None) -> Program:
        return Program(
            self._layout.graph,
            self._unit.operators,
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
