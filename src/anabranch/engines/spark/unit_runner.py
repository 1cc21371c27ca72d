"""Runs a unit in a task: its program, and its states while an epoch lasts.

The generated programs are kept in the worker process from epoch to epoch; what
changes with the epoch comes with the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.engines.spark.cuts import halves_of
from anabranch.engines.spark.exits import Exits
from anabranch.engines.spark.faults import reach
from anabranch.engines.spark.groups import UnitGroups, without_counts
from anabranch.engines.spark.handing import Fed, in_chunks
from anabranch.engines.spark.layout import Unit
from anabranch.engines.spark.pieces import read_piece
from anabranch.engines.spark.routing import Rows
from anabranch.engines.spark.shortcuts import shortcut_of
from anabranch.engines.spark.spec import Job
from anabranch.engines.spark.states import StoredStates
from anabranch.engines.spark.task import (
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
from anabranch.graph.graph import Edge
from anabranch.runtime.compiled.program import make_program
from anabranch.runtime.failures import Failure, stop
from anabranch.runtime.fusion import Entry
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Program
from anabranch.runtime.state import States

END_OF_HALF = -1  # instead of the number of a stream


class UnitRunner:
    """A unit in this process: its program, and its states while an epoch runs."""

    def __init__(self, job: Job, unit: Unit) -> None:
        self._job = job
        self._unit = unit
        self._layout = job.spec.layout
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
            # This process stays, and so do its states; or the driver keeps them.
            if unit.in_driver or unit.period > 1:
                self._states[name] = States(graph[name], kernels[name])
            else:
                stored = StoredStates(number, graph[name], kernels[name], unit.key)
                self._states[name] = self._stored[name] = stored
        self._groups = None
        if unit.period > 1:
            self._groups = UnitGroups(unit, graph, self._states)
        self._failures: list[Failure] = []
        self._exits = Exits(job, self._on_error)
        self._all: list[Program] = []
        self._halves: dict[str, Program] = {}
        self.half_done: tuple[Changes, Report] = ({}, Report(unit.number, 0))
        self._programs: dict[str | None, Program] = {}
        self._shortcut = None
        self._begun: tuple[EpochTask, int, list[Batch]] | None = None
        # What fails on a shortcut runs twice; in the driver, others would notice.
        if not job.spec.resilient and not unit.in_driver:
            self._shortcut = shortcut_of(
                self._layout,
                unit,
                lambda: self._made(unit.entries, None),
                self._ran_again,
            )
        self._saved = UnitStates(
            unit, self._stored, job.spec.states, job.spec.checkpoint
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
        self._saved.open(task, channel, self._job.pickler)
        try:
            if task.finishing is not None:
                return self._finish(task.finishing, channel)
            return self._run(task, channel, share, received, rows)
        finally:
            self._begun = None
            self._saved.close()

    def _run(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Report:
        read, streams = self._taken(task, channel, share, received)
        self._begun = task, channel, streams
        written: dict[str, int] = {}
        if not self._unit.operators:  # only writes what it is given
            (stream,) = streams
            (sink,) = self._unit.writes
            if len(stream):
                written[sink] = self._exits.write(sink, stream, task, channel)
        else:
            left = {e: [b] for e, b in self._processed(task, share, streams)}
            written, _ = self._exits.leave(left, task, channel, rows)
        reach("processed", task.epoch)
        pickler = self._job.pickler
        changes = self._saved.changes(self._unit.operators)
        saved = self._saved.save(task, channel, changes)
        return Report(
            self._unit.number,
            channel,
            read,
            written,
            tuple(self._failures),
            parts={sink: self._exits.part(sink, task, channel) for sink in written},
            logs=saved.logs,
            snapshots=saved.snapshots,
            begun=None if self._groups is None else self._groups.left(pickler),
        )

    def first_half(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Iterator[list[Batch]]:
        """Run what comes before a cut; yield what goes on, chunk by chunk and by stream.

        `half_done` then holds what this half has changed, and its report.
        """
        self._failures.clear()
        halves = halves_of(self._layout, self._unit, task.cuts[self._unit.number])
        self._saved.open(task, channel, self._job.pickler)
        try:
            read, streams = self._streams(share, received)
            program = self._half(halves.first, self._unit.entries)
            left: dict[Edge, list[Batch]] = {}
            for items, positions, entries in in_chunks(self._fed(streams)):
                given = dict(self._ran(program, items, positions, entries))
                yield [given.pop(edge) for edge in halves.between]
                for edge, batch in given.items():
                    left.setdefault(edge, []).append(batch.compact())
            written, parts = self._exits.leave(left, task, channel, rows)
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
        self,
        task: EpochTask,
        channel: int,
        chunks: Iterator[list[tuple[int, pa.Buffer]]],
        rows: Rows,
    ) -> tuple[Report, ...]:
        """Run what comes behind a cut, and save the states of both halves.

        A chunk is its blobs, with the number of their stream; the last one is what the
        first half has changed and reports.
        """
        self._failures.clear()
        pickler = self._job.pickler
        halves = halves_of(self._layout, self._unit, task.cuts[self._unit.number])
        self._saved.open(task, channel, pickler)
        try:
            program = self._half(halves.second, halves.between)
            left: dict[Edge, list[Batch]] = {}
            last: pa.Buffer | None = None
            for chunk in chunks:
                if chunk and chunk[0][0] == END_OF_HALF:
                    ((_, last),) = chunk
                    continue
                for fed in self._fed(
                    self._along(halves.between, chunk), halves.between
                ):
                    for edge, out in self._ran(program, *fed):
                        left.setdefault(edge, []).append(out.compact())
            assert last is not None  # noqa: S101 - the first half always ends with one
            changes, first = pickler.loads(last)
            written, parts = self._exits.leave(left, task, channel, rows)
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

    def _along(
        self, between: tuple[Edge, ...], chunk: list[tuple[int, pa.Buffer]]
    ) -> list[Batch]:
        """Return what a chunk of the first half gave, one batch for each stream."""
        streams = []
        for number, edge in enumerate(between):
            form = self._exits.form(edge.producer.operator)
            blobs = [blob for stream, blob in chunk if stream == number]
            batches = [decode(blob, form, self._job.pickler) for blob in blobs]
            streams.append(in_order(batches))
        return streams

    def programs(self, task: EpochTask) -> list[Program]:
        """Return the programs that a task may run."""
        cut = task.cuts.get(self._unit.number)
        if cut is not None:
            halves = halves_of(self._layout, self._unit, cut)
            self._half(halves.first, self._unit.entries)
            self._half(halves.second, halves.between)
        elif self._unit.operators:
            self._program(None)  # this process may be new
        return list(self._all)

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

    def _taken(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
    ) -> tuple[dict[str, int], list[Batch]]:
        """Return what came in and is for this channel to run."""
        if self._groups is None:
            return self._streams(share, received)
        channels = task.channels[self._unit.number]
        (blobs,) = received
        items, counts = without_counts(blobs, channels)
        read, (stream,) = self._streams(share, [items])
        pickler = self._job.pickler
        return read, [self._groups.begin(task, channel, counts, stream, pickler)]

    def _streams(
        self, share: Share, received: list[list[pa.Buffer]]
    ) -> tuple[dict[str, int], list[Batch]]:
        """Return what came in, one batch per entry, and how much each source gave."""
        graph, pickler = self._layout.graph, self._job.pickler
        several = len(graph.sources) > 1
        order = {op.name: index for index, op in enumerate(graph.sources)}
        read: dict[str, int] = {}
        streams = []
        for entry, blobs in zip(self._unit.entries, received, strict=True):
            if isinstance(entry, Edge):
                form = self._exits.form(entry.producer.operator)
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
                items, positions = self._job.pickler.loads(share.injected)
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

    def _ran_again(self) -> Iterator[tuple[Edge, Batch]]:
        """Run all that this channel has taken once more, from the beginning."""
        assert self._begun is not None  # noqa: S101 - it has failed
        task, channel, streams = self._begun
        pickler = self._job.pickler
        if self._groups is None:
            self._saved.open(task, channel, pickler)
        else:
            self._groups.again(pickler)
        yield from self._ran_on(streams)

    def _fed(
        self, streams: list[Batch], entries_of: tuple[Entry, ...] | None = None
    ) -> Iterator[Fed]:
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
            for entry in entries_of or self._unit.entries
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
            form = self._exits.form(edge.producer.operator)
            batch = Batch(columns, form, None, left.items[:])
            left.clear()
            yield edge, self._exits.unmarked(edge, batch)

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
        program = make_program(
            self._layout.graph,
            self._unit.operators if operators is None else operators,
            entries,
            self._layout.choice,
            positions=positions,
            states=self._states,
            on_error=self._on_error if self._job.spec.resilient else stop,
            describe=self._describe,
        )
        self._all.append(program)
        return program

    def _on_error(self, failure: Failure) -> None:
        if not self._job.spec.resilient:
            stop(failure)
        self._failures.append(_picklable(failure))

    def _describe(self, place: int | None) -> str:
        sources = self._layout.graph.sources
        if place is None or len(sources) > 1:
            return "an item" if place is None else f"item {place} of the sources"
        return f"item {place} of {sources[0].name}"


def _picklable(failure: Failure) -> Failure:
    error = failure.error
    made = type(error)(*error.args) if type(error).__module__ == "builtins" else error
    return Failure(failure.operator, failure.site, failure.item, failure.where, made)
