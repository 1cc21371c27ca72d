"""Runs an element segment by segment: kernels over columns, then Python, and so on.

The element is a graph. Any number of kernels may read a batch of columns; only
operators in Python make objects of it. Where streams meet, positions give the order.

A segment in columns changes no state until all its kernels have processed all items. If
one gives up, Python runs that segment on its input, so nothing has to be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from anabranch.graph.graph import Graph, Op, Output
from anabranch.plan.column_kernels import ColumnKernel, ElementSegment
from anabranch.runtime.codegen import Entry
from anabranch.runtime.columns.chain import ColumnStep, Commit
from anabranch.runtime.columns.clocked_step import (
    ClockedStep,
    ClockStep,
    MeetingStep,
    make_step,
)
from anabranch.runtime.columns.column import Numpy, Pools, UnfitError
from anabranch.runtime.columns.fork_order import ForkOrder
from anabranch.runtime.columns.placed import (
    PlacedBatch,
    PlacedStreams,
    column_of,
    join_batches,
    pad_positions,
    place_items,
    sort_positions,
)
from anabranch.runtime.compiled.part import name_part, write_steps
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import BEHIND_TURNS, IN_TURN, Positions
from anabranch.runtime.program import Columns, Program

_PATIENCE = 5  # consecutive batches that had to run in Python after all

MakeProgram: TypeAlias = Callable[[tuple[str, ...], tuple[Entry, ...]], Program]


class Send(Protocol):
    """Runs a program on items, given their positions and entries."""

    def __call__(
        self,
        program: Program,
        items: list[Any],
        positions: Columns,
        entries: list[int] | None,
    ) -> None: ...


@dataclass
class ColumnRun:
    """A batch passing through kernels: the streams, and the new states."""

    streams: PlacedStreams
    changes: list[Commit] = field(default_factory=list)


class _Node:
    """One operator of a segment in columns."""

    def __init__(
        self, graph: Graph, op: Op, step: ColumnStep, pools: Pools, form: Positions
    ) -> None:
        self._op = op
        self._step = step
        self._pools = pools
        self._edges = [e for e in graph.edges if e.consumer.operator == op.name]
        self._width = form.inside[op.name]
        self._turns = form.turns.get(op.name, frozenset())
        self._prolific = op.name in form.prolific
        self._turning = form.appends_turn(op.name)
        kernel = kernel_of(op)
        self._passes_signs = kernel.forwards_punctuation and kernel.forwards_clock

    def __call__(self, run: ColumnRun) -> None:
        came = [self._pad(run.streams.along(edge)) for edge in self._edges]
        takes = self._step.kernel.takes
        match self._step.kernel.role:
            case "union":
                self._join(run, came)
                return
            case "split" | "routes":
                self._split(run, came[0])
                return
            case "clock":
                assert isinstance(self._step, ClockStep)  # noqa: S101 - see `make_step`
                self._advance(run, came[0], self._step)
                return
            case "window" if isinstance(self._step, ClockedStep):
                self._close(run, came[0], self._step)
                return
        batch = came[0].to_columns(takes, self._pools)
        columns = self._step.run(replace(batch, rows=None), run.changes)
        positions = came[0].positions
        if columns.rows is not None:
            positions = [column[columns.rows] for column in positions]
        if self._prolific:
            positions = [*positions, _count_outputs(columns.rows, columns.count)]
        made = PlacedBatch(positions, columns.count, columns=columns)
        made.signs = self._pass_signs(came[0].signs, 0)
        run.streams.made[Output(self._op.name)] = made

    def _join(self, run: ColumnRun, came: list[PlacedBatch]) -> None:
        """Put items in order, and the advances of the least clock among them."""
        made = join_batches(came, self._step.kernel.takes, self._pools)
        if isinstance(self._step, MeetingStep):
            made.signs = self._meet(run, came, self._step)
        if self._prolific:
            made.positions.append(np.zeros(made.count, np.int64))
        run.streams.made[Output(self._op.name)] = made

    def _meet(
        self, run: ColumnRun, came: list[PlacedBatch], step: MeetingStep
    ) -> PlacedBatch | None:
        """Return the advances behind a union, given those of its inputs."""
        pairs = [(port, one.signs) for port, one in enumerate(came) if one.signs]
        if not pairs:
            return None
        ports = np.repeat([port for port, _ in pairs], [s.count for _, s in pairs])
        signs = [sign for _, one in pairs for sign in one.items]
        columns = zip(*(one.positions for _, one in pairs), strict=True)
        positions = [np.concatenate(column) for column in columns]
        order = sort_positions([*positions, ports])
        ordered = [signs[row] for row in order.tolist()]
        found, advances = step.advance(ordered, ports[order].tolist(), run.changes)
        moved = [column[order[found]] for column in positions]
        if self._prolific:
            moved.append(np.zeros(len(found), np.int64))
        return place_items(list(advances), moved)

    def _split(self, run: ColumnRun, came: PlacedBatch) -> None:
        columns = came.to_columns(self._step.kernel.takes, self._pools)
        rows, ports = self._step.split(columns, self._op.kind.outputs)
        numbers = _count_outputs(rows, len(ports))
        whole = PlacedBatch(came.positions, came.count, columns=columns)
        for port in range(self._op.kind.outputs):
            own = np.flatnonzero(ports == port)
            made = whole.take(own if rows is None else rows[own])
            if self._prolific:
                made.positions.append(numbers[own])
            made.signs = self._pass_signs(came.signs, port)
            run.streams.made[Output(self._op.name, port)] = made

    def _advance(self, run: ColumnRun, came: PlacedBatch, step: ClockStep) -> None:
        """Pass items on, with an advance after each item that moves the clock."""
        if (came.signs is not None and came.signs.count) or not self._prolific:
            msg = "there are signs before the clock"
            raise UnfitError(msg)
        if not came.count:
            return
        columns = came.to_columns(self._step.kernel.takes, self._pools)
        found = step.advance(columns, run.changes)
        whole = PlacedBatch(came.positions, came.count, columns=columns)
        made = whole if found.rows is None else whole.take(found.rows)
        made.positions.append(np.zeros(made.count, np.int64))
        made.signs = place_items(
            found.advances,
            [
                *(column[found.advancing] for column in came.positions),
                np.ones(len(found.advancing), np.int64),
            ],
        )
        run.streams.made[Output(self._op.name)] = made

    def _close(self, run: ColumnRun, came: PlacedBatch, step: ClockedStep) -> None:
        """Close windows by the advances among the items."""
        signs = came.signs
        if signs is None:
            signs = place_items([], [column[:0] for column in came.positions])
        columns = came.to_columns(self._step.kernel.takes, self._pools)
        places = came.find_places(signs)
        found = step.close(columns, signs.items, places, run.changes)
        closed_by, count = found.closed_by, found.batch.count
        number = np.arange(count) - np.searchsorted(closed_by, closed_by)
        positions = [column[closed_by] for column in signs.positions]
        behind = [column[found.advanced] for column in signs.positions]
        if self._turning:
            first = np.full(count, IN_TURN)
            positions += [first, column_of(found.turns, turns=True), number]
            nothing = [b""] * len(found.advanced)
            behind += [
                np.full(len(nothing), BEHIND_TURNS),
                column_of(nothing, turns=True),
                np.zeros(len(nothing), np.int64),
            ]
        else:
            positions.append(number)
            ends = [np.searchsorted(closed_by, found.advanced, s) for s in _BOTH]
            behind.append(ends[1] - ends[0])
        made = PlacedBatch(positions, count, columns=found.batch)
        made.signs = place_items(found.advances, behind)
        run.streams.made[Output(self._op.name)] = made

    def _pad(self, batch: PlacedBatch) -> PlacedBatch:
        if len(batch.positions) == self._width and not self._turns:
            return batch
        made = batch.with_positions(self._pad_positions(batch))
        if batch.signs is not None:
            made.signs = batch.signs.with_positions(self._pad_positions(batch.signs))
        return made

    def _pad_positions(self, batch: PlacedBatch) -> list[Numpy]:
        return pad_positions(batch.positions, batch.count, self._width, self._turns)

    def _pass_signs(self, signs: PlacedBatch | None, number: int) -> PlacedBatch | None:
        """Return the signs behind this operator, indexed as outputs."""
        if signs is None or not self._passes_signs:
            return None
        if not self._prolific:
            return signs
        index = np.full(signs.count, number)
        return signs.with_positions([*signs.positions, index])


_BOTH: tuple[Any, ...] = ("left", "right")


def _count_outputs(rows: Numpy | None, count: int) -> Numpy:
    """Return the index of each output among those of its item.

    >>> _count_outputs(np.array([0, 0, 2]), 3).tolist()
    [0, 1, 0]
    """
    if rows is None:
        return np.zeros(count, np.int64)
    return np.arange(count) - np.searchsorted(rows, rows)


class ColumnSegment:
    """The compiled kernels of a segment, and the states of its operators."""

    def __init__(
        self,
        graph: Graph,
        segment: ElementSegment,
        kernels: Mapping[str, ColumnKernel],
        states: Mapping[str, MutableMapping[Any, Any]],
        *,
        pools: Pools,
        form: Positions,
    ) -> None:
        """Compile; raise `CompilationError` if Numba cannot."""
        steps = []
        for name in segment.operators:
            step = make_step(graph[name], kernels[name], states.get(name), pools)
            steps.append(_Node(graph, graph[name], step, pools, form))
        self.filename = name_part("columns", segment.operators)
        self.line_table = {2 + n: name for n, name in enumerate(segment.operators)}
        self._run = write_steps(steps, self.filename)

    def run(self, streams: PlacedStreams) -> PlacedStreams | None:
        """Return the streams including its own; None if Python has to run it."""
        copied = replace(streams, made=dict(streams.made))
        run = ColumnRun(copied)
        try:
            self._run(run)
        except Exception:  # noqa: BLE001 - nothing has changed, and Python can do it
            return None
        for change in run.changes:
            change()
        return run.streams


class PythonSegment:
    """Operators of a segment as a fused program."""

    def __init__(
        self, graph: Graph, segment: ElementSegment, make: MakeProgram, form: Positions
    ) -> None:
        self._entries = segment.find_entries(graph)
        self._width = max(form.on(edge) for edge in self._entries)
        self._ranks = ForkOrder(graph, form).rank_streams(self._entries, self._width)
        self.program = make(segment.operators, tuple(self._entries))
        self._form = form

    def run(self, streams: PlacedStreams, send: Send, marked: Collection[str]) -> None:
        """Run the program on its input, and add its outputs to the streams."""
        batches = [streams.along(edge).put_signs_back() for edge in self._entries]
        for left in self.program.exits.values():
            left.clear()
        if any(batch.count for batch in batches):
            send(self.program, *self._interleave(batches))
        for edge, left in self.program.exits.items():
            # Once an item has failed, only some branches of a stream have it.
            apart = streams.find_end is not None
            if not apart and edge.producer in streams.made:
                continue
            width = self._form.after[edge.producer.operator]
            turns = self._form.turns.get(edge.producer.operator, ())
            positions = [
                column_of(column, turns=place in turns)
                for place, column in enumerate(left.positions)
            ]
            made = place_items(left.items[:], positions if apart else positions[:width])
            if edge.producer.operator in marked:
                made = made.set_signs_apart()
            if apart:
                streams.came[edge] = made
            else:
                streams.made[edge.producer] = made

    def _interleave(
        self, batches: Sequence[PlacedBatch]
    ) -> tuple[list[Any], Columns, list[int] | None]:
        """Merge the items of all streams in the order in which one thread has them,
        with the stream of each.
        """
        if len(batches) == 1:
            (batch,) = batches
            return batch.items, [c.tolist() for c in batch.positions], None
        width = self._width
        producers = {edge.producer.operator for edge in self._entries}
        turns = {n for name in producers for n in self._form.turns.get(name, ())}
        padded = [pad_positions(b.positions, b.count, width, turns) for b in batches]
        columns = [np.concatenate(parts) for parts in zip(*padded, strict=True)]
        numbers = np.repeat(np.arange(len(batches)), [b.count for b in batches])
        items = [item for batch in batches for item in batch.items]
        keys = [self._ranks[0][numbers]]
        for column, ranks in zip(columns, self._ranks[1:], strict=True):
            keys += [column, ranks[numbers]]
        telling = [key for key in keys if (key != key[:1]).any()]
        order = sort_positions(telling or keys[:1])
        return (
            [items[row] for row in order.tolist()],
            [column[order].tolist() for column in columns],
            numbers[order].tolist(),
        )


class SegmentedElement:
    """The segments of an element, in execution order.

    `ran` counts, per operator with a kernel, the items in columns and in Python. Not
    thread-safe; the program or unit that owns it is its only caller.
    """

    def __init__(
        self,
        graph: Graph,
        segments: Sequence[ElementSegment],
        kernels: Mapping[str, ColumnKernel],
        states: Mapping[str, MutableMapping[Any, Any]],
        *,
        form: Positions,
        make: MakeProgram,
        marked: Collection[str] = (),
    ) -> None:
        """Compile; raise `CompilationError` if Numba cannot."""
        pools = Pools()
        self._graph = graph
        self._marked = marked
        self._segments = segments
        self._entries = [one.find_entries(graph) for one in segments]
        self.in_columns = {
            n: ColumnSegment(graph, one, kernels, states, pools=pools, form=form)
            for n, one in enumerate(segments)
            if one.in_columns
        }
        self.in_python = {
            n: PythonSegment(graph, one, make, form) for n, one in enumerate(segments)
        }
        self._failed = dict.fromkeys(self.in_columns, 0)
        self.ran: dict[str, tuple[int, int]] = {}

    @property
    def why_not(self) -> str | None:
        """Why none of its segments runs in columns any more, or None."""
        if min(self._failed.values()) < _PATIENCE:
            return None
        return "its items keep going through Python"

    def run(self, streams: PlacedStreams, send: Send) -> PlacedStreams:
        """Return all streams, given the input streams."""
        for number, segment in enumerate(self._segments):
            edges = self._entries[number]
            count = sum(streams.along(edge).count for edge in edges)
            if not count and not any(streams.along(e).signs for e in edges):
                continue
            done = None
            if self._failed.get(number, _PATIENCE) < _PATIENCE:
                done = self.in_columns[number].run(streams)
                self._failed[number] = self._failed[number] + 1 if done is None else 0
            if segment.in_columns:
                self._note(segment, count, in_columns=done is not None)
            if done is not None:
                streams.made = done.made
            else:
                self.in_python[number].run(streams, send, self._marked)
        return streams

    def _note(self, segment: ElementSegment, count: int, *, in_columns: bool) -> None:
        for name in segment.operators:
            columns, python = self.ran.get(name, (0, 0))
            if in_columns:
                self.ran[name] = columns + count, python
            else:
                self.ran[name] = columns, python + count
