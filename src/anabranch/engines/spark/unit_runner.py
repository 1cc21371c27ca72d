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
from anabranch.engines.spark.handing import in_chunks
from anabranch.engines.spark.layout import Unit
from anabranch.engines.spark.routing import Rows
from anabranch.engines.spark.shortcuts import shortcut_of
from anabranch.engines.spark.spec import Job
from anabranch.engines.spark.states import StoredStates
from anabranch.engines.spark.task import (
    EpochTask,
    Report,
    Share,
)
from anabranch.engines.spark.unit_inputs import UnitInputs
from anabranch.engines.spark.unit_programs import UnitPrograms
from anabranch.engines.spark.unit_states import Changes, UnitStates
from anabranch.engines.spark.wire import (
    Batch,
    end_to_end,
)
from anabranch.graph.graph import Edge
from anabranch.runtime.failures import Failure, stop
from anabranch.runtime.interpreter import kernel_of
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
        self._inputs = UnitInputs(job, unit, self._exits, self._on_error)
        self.programs = UnitPrograms(job, unit, self._states, self._on_error)
        self.half_done: tuple[Changes, Report] = ({}, Report(unit.number, 0))
        self._shortcut = None
        self._begun: tuple[EpochTask, int, list[Batch]] | None = None
        # What fails on a shortcut runs twice; in the driver, others would notice.
        if not job.spec.resilient and not unit.in_driver:
            self._shortcut = shortcut_of(
                self._layout,
                unit,
                self.programs.without_positions,
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
            self.programs.whole()
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
            read, streams = self._inputs.streams(share, received)
            program = self.programs.half(halves.first, self._unit.entries)
            left: dict[Edge, list[Batch]] = {}
            for items, positions, entries in in_chunks(self._inputs.fed(streams)):
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
            program = self.programs.half(halves.second, halves.between)
            left: dict[Edge, list[Batch]] = {}
            last: pa.Buffer | None = None
            for chunk in chunks:
                if chunk and chunk[0][0] == END_OF_HALF:
                    ((_, last),) = chunk
                    continue
                for fed in self._inputs.fed(
                    self._inputs.along(halves.between, chunk), halves.between
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

    def _finish(self, operator: str, channel: int) -> Report:
        if operator in self._stored:
            self._stored[operator].load_all()
        finished = self.programs.whole(operator).finish(operator)
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
            return self._inputs.streams(share, received)
        channels = task.channels[self._unit.number]
        (blobs,) = received
        items, counts = without_counts(blobs, channels)
        read, (stream,) = self._inputs.streams(share, [items])
        pickler = self._job.pickler
        return read, [self._groups.begin(task, channel, counts, stream, pickler)]

    def _processed(
        self, task: EpochTask, share: Share, streams: list[Batch]
    ) -> Iterator[tuple[Edge, Batch]]:
        """Run the program on what came in, and return what left it, by stream."""
        if task.after is not None:
            if share.injected is not None:
                items, positions = self._job.pickler.loads(share.injected)
                yield from self._ran(self.programs.whole(task.after), items, positions)
            elif any(map(len, streams)):
                yield from self._ran_on(streams)
        elif len(streams) == 1 and self._shortcut is not None:
            yield from self._shortcut.run(streams[0])
        elif any(map(len, streams)):
            yield from self._ran_on(streams)

    def _ran_on(self, streams: list[Batch]) -> Iterator[tuple[Edge, Batch]]:
        program = self.programs.whole()
        left: dict[Edge, list[Batch]] = {}
        for items, positions, entries in self._inputs.fed(streams):
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

    def _on_error(self, failure: Failure) -> None:
        if not self._job.spec.resilient:
            stop(failure)
        self._failures.append(_picklable(failure))


def _picklable(failure: Failure) -> Failure:
    error = failure.error
    made = type(error)(*error.args) if type(error).__module__ == "builtins" else error
    return Failure(failure.operator, failure.site, failure.item, failure.where, made)
