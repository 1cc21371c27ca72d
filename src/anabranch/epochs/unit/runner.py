"""Runs a unit in a task: its program, its shortcuts, and its states during an epoch.

The generated programs are kept in the worker process from epoch to epoch; what changes
with the epoch comes with the task.

Positions cost about as much as a small function. They are not needed when the outputs
are written locally, in the order in which they come; and when each item has exactly one
output, the outputs have the positions of the inputs. So there are cheaper ways to run a
unit if its shape allows it, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from anabranch.connectors.files.arrow_items import form_of
from anabranch.epochs.faults import reach
from anabranch.epochs.layout import CutPart, EpochLayout, Unit, parts_of
from anabranch.epochs.ranges import UnitGroups, pass_over, take_deciding, without_counts
from anabranch.epochs.shuffle import TaskRows
from anabranch.epochs.state.states import ClockStates, StoredStates
from anabranch.epochs.task import (
    EpochTask,
    FinishOperators,
    InjectOutputs,
    Report,
    Share,
    WarmUp,
    WorkerJob,
)
from anabranch.epochs.unit.egress import Exits, NoPlaceError
from anabranch.epochs.unit.in_columns import (
    InColumns,
    InSegments,
    OnBatch,
    WaysToRun,
)
from anabranch.epochs.unit.inputs import UnitInputs, in_chunks, in_steps
from anabranch.epochs.unit.progress import PROGRESS
from anabranch.epochs.unit.states import Changes, UnitStates, remembers_nothing
from anabranch.epochs.wire import Numbers, WireBatch, encode, end_to_end
from anabranch.errors import EngineError, OperatorError
from anabranch.graph.graph import Edge, Op, has_turns
from anabranch.operators.clock import has_idle
from anabranch.operators.stateless import Split
from anabranch.plan.column_kernels import ElementSegment, divide_into_segments
from anabranch.runtime.codegen import Entry, find_punctuated_operators
from anabranch.runtime.columns.placed import column_of
from anabranch.runtime.columns.tier import ChainTier
from anabranch.runtime.compiled.program import make_program
from anabranch.runtime.failures import (
    Failure,
    OnError,
    name_place,
    stop,
    travelling,
    user_line,
)
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Program
from anabranch.runtime.state import States
from anabranch.runtime.verify.rehearsal import Rehearse

_MOST_SPARE = 1 << 16  # keys of an operator that remembers nothing


class UnitPrograms:
    """The programs of a unit, or of its parts between two cuts."""

    def __init__(
        self,
        job: WorkerJob,
        unit: Unit,
        states: Mapping[str, dict[Any, Any]],
        on_error: OnError,
    ) -> None:
        self._unit = unit
        self._layout = job.spec.layout
        # Columns are chosen for a unit as a whole, and Python runs the rest.
        self._choice = replace(self._layout.choice, columns={})
        self._states = states
        self._on_error = on_error if job.spec.resilient else stop
        self._made: dict[tuple[Any, ...], Program] = {}

    def whole(self, after: str | None = None) -> Program:
        """Return the program whose items enter as usual, or after an operator."""
        unit = self._unit
        entries = (after,) if after in unit.operators else unit.entries
        return self._program(entries, self._layout.positions, unit.operators)

    def without_positions(self) -> Program:
        """Return the program whose outputs carry no positions."""
        return self._program(self._unit.entries, None, self._unit.operators)

    def part(self, operators: tuple[str, ...], entries: tuple[Entry, ...]) -> Program:
        """Return the program of the operators between two cuts."""
        return self._program(entries, self._layout.positions, operators)

    def of(self, task: EpochTask) -> list[Program]:
        """Return the programs that a task may run."""
        cuts = task.cuts.get(self._unit.number)
        if cuts is not None:
            part = parts_of(self._layout, self._unit, cuts)[task.stage.part]
            self.part(part.operators, part.entries or self._unit.entries)
        elif self._unit.operators:
            self.whole()  # this process may be new
        return list(self._made.values())

    def _program(
        self,
        entries: tuple[Entry, ...],
        positions: Positions | None,
        operators: tuple[str, ...],
    ) -> Program:
        key = entries, positions is None, operators
        if key not in self._made:
            self._made[key] = make_program(
                self._layout.graph,
                operators,
                entries,
                self._choice,
                positions=positions,
                states=self._states,
                on_error=self._on_error,
                describe=partial(name_place, self._layout.graph),
            )
        return self._made[key]


class Shortcut(Protocol):
    """A cheaper way to run a unit on its only stream."""

    def run(self, stream: WireBatch) -> Iterator[tuple[Edge, WireBatch]]:
        """Yield the outputs of the unit."""


def shortcut_of(
    layout: EpochLayout,
    unit: Unit,
    make: Callable[[], Program],
    in_full: Callable[[], Iterator[tuple[Edge, WireBatch]]],
    rehearse: Rehearse | None = None,
) -> Shortcut | None:
    """Return a shortcut for a unit, if there is one.

    If an item fails, `in_full` runs the epoch from its beginning.
    """
    exits = [
        edge
        for name in unit.operators
        for edge in layout.graph.out_edges(name)
        if edge in layout.routes
    ]
    if unit.in_driver:
        return None  # its effects cannot be repeated to find a failure
    marked = find_punctuated_operators(layout.graph)
    if len(exits) != 1 or len(unit.entries) != 1 or marked.intersection(unit.operators):
        return None
    (edge,) = exits
    if unit.entries == unit.operators:
        return Untouched(edge)
    line = all(len(layout.graph.out_edges(name)) == 1 for name in unit.operators)
    inner = [name for name in unit.operators if layout.graph[name].inputs]
    if line and layout.one_to_one.issuperset(inner):
        return SamePositions(edge, layout, unit, make, in_full, rehearse=rehearse)
    if layout.routes[edge].how == "write":
        return NoPositions(edge, layout, unit, make, in_full, rehearse=rehearse)
    return None


def columns_of_unit(
    layout: EpochLayout,
    unit: Unit,
    states: Mapping[str, dict[Any, Any]],
    shortcut: Shortcut | None,
    in_full: OnBatch,
) -> InColumns | None:
    """Return the column runner of a line of operators, if all of them have kernels."""
    positions = layout.positions
    line = _line_of(layout, unit)
    if line is None or not all(op.name in layout.choice.columns for op in line):
        return None
    (edge,) = layout.graph.out_edges(line[-1].name)
    if edge in positions.branch:
        return None
    tier = ChainTier(line, layout.choice.columns, states, layout.choice.when)
    bare = isinstance(shortcut, NoPositions) and not isinstance(shortcut, SamePositions)
    run = in_full if shortcut is None else shortcut.run
    width = None if bare else positions.on(edge)
    return InColumns(edge, tier, run, width=width, type=line[-1].type)


def segments_of_unit(
    layout: EpochLayout, unit: Unit
) -> tuple[ElementSegment, ...] | None:
    """Return the segments of a unit, if the plan runs some of it in columns."""
    columns = layout.choice.columns
    if unit.period > 1 or unit.in_driver or columns.keys().isdisjoint(unit.operators):
        return None
    return divide_into_segments(layout.graph, unit.operators, columns)


def _line_of(layout: EpochLayout, unit: Unit) -> list[Op] | None:
    """Return the operators of a unit in order, if they form a straight line."""
    graph = layout.graph
    inner = [graph[name] for name in unit.operators if graph[name].inputs]
    exits = [e for name in unit.operators for e in graph.out_edges(name)]
    leaving = [edge for edge in exits if edge in layout.routes]
    marked = find_punctuated_operators(graph)
    if (
        not inner
        or unit.in_driver
        or unit.period > 1
        or len(unit.entries) != 1
        or len(leaving) != 1
        or len(exits) != len(unit.operators)
        or any(len(op.inputs) != 1 or isinstance(op.kind, Split) for op in inner)
        or marked.intersection(unit.operators)
    ):
        return None
    return inner


class Untouched:
    """A source alone: its columns pass unchanged."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def run(self, stream: WireBatch) -> Iterator[tuple[Edge, WireBatch]]:
        yield self._edge, stream


def run_and_rehearse(
    program: Program,
    items: list[Any],
    positions: list[list[int]] | None,
    entries: list[int] | None,
    rehearse: Rehearse | None,
    *,
    unit: int | None = None,
) -> None:
    """Run a batch; then repeat some of its items.

    Given the number of its `unit`, progress is reported from time to time.
    """
    if rehearse is not None:
        program.watch_given()
    began_s = perf_counter()
    if unit is None:
        program.run(items, positions, entries)
    else:
        for some, places, ports in in_steps(iter([(items, positions or [], entries)])):
            program.run(some, None if positions is None else places, ports)
            PROGRESS.add(unit, len(some))
    if rehearse is not None:
        seconds = perf_counter() - began_s
        rehearse(program.entries, program.operators, items, entries, seconds)


class NoPositions:
    """The outputs are written in the order in which they come."""

    def __init__(
        self,
        edge: Edge,
        layout: EpochLayout,
        unit: Unit,
        make: Callable[[], Program],
        in_full: Callable[[], Iterator[tuple[Edge, WireBatch]]],
        *,
        rehearse: Rehearse | None = None,
    ) -> None:
        self._edge = edge
        self._unit = unit.number
        self._program = make()
        self._in_full = in_full
        self._rehearse = rehearse
        kind = layout.graph[edge.producer.operator].type
        self._form = None if kind is None else form_of(kind)

    def run(self, stream: WireBatch) -> Iterator[tuple[Edge, WireBatch]]:
        left = self._program.exits[self._edge]
        batches = []
        for chunk in stream.chunks():
            left.clear()
            try:
                run_and_rehearse(
                    self._program,
                    chunk.items,
                    None,
                    None,
                    self._rehearse,
                    unit=self._unit,
                )
            except OperatorError:
                # Only positions can identify the item: repeat with them.
                list(self._in_full())
                raise
            positions = self._positions(chunk, len(left.items))
            batches.append(
                WireBatch(positions, self._form, None, left.items[:]).compact()
            )
        left.clear()
        yield self._edge, end_to_end(batches)

    def _positions(self, stream: WireBatch, given: int) -> list[Numbers]:
        return []


class SamePositions(NoPositions):
    """Each item has one output, at its own position."""

    def _positions(self, stream: WireBatch, given: int) -> list[Numbers]:
        if given != len(stream):
            msg = (
                f"the operators before {self._edge.consumer.operator} must give one "
                f"output for each item; they gave {given} for {len(stream)}; is a "
                f"declared push wrong?"
            )
            raise EngineError(msg)
        return stream.positions


PartDone: TypeAlias = tuple[Changes, Report]
Chunk: TypeAlias = list[tuple[int, pa.Buffer]]  # blobs, with the number of their stream


class UnitRunner:
    """A unit in this process: its program, and its states during an epoch."""

    def __init__(self, job: WorkerJob, unit: Unit) -> None:
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
        self._spare: list[States] = []  # that make no difference, by key
        for number, name in enumerate(stateful):
            # This process stays, and so do its states; or the driver keeps them; or no
            # item depends on another one.
            op = graph[name]
            spare = remembers_nothing(self._layout, unit, op)
            if unit.in_driver or unit.period > 1 or spare:
                states = self._states[name] = States(op, kernels[name])
                if spare and op.state_key:
                    self._spare.append(states)
            else:
                kind = ClockStates if has_turns(op) else StoredStates
                stored = kind(number, op, kernels[name], unit.key)
                self._states[name] = self._stored[name] = stored
        self._sharing = {
            name: kernels[name]
            for name in stateful
            if not unit.in_driver and (unit.replicated or has_turns(graph[name]))
            if kernels[name].find_shared(kernels[name].open()) is not None
        }
        self._meeting = {
            name: kernels[name]
            for name in stateful
            if has_idle(graph) and graph[name].timing and len(graph[name].inputs) > 1
        }
        self._groups = None
        if unit.period > 1:
            self._groups = UnitGroups(unit, graph, self._states)
        self._failures: list[Failure] = []
        self._exits = Exits(job, self._on_error)
        self._inputs = UnitInputs(job, unit, self._exits, self._on_error)
        self.programs = UnitPrograms(job, unit, self._states, self._on_error)
        self.parts_done: list[PartDone] = []
        self._shortcut: Shortcut | None = None
        self._in_columns: InColumns | InSegments | None = None
        self._begun: tuple[EpochTask, int, list[WireBatch]] | None = None
        self._deciding: list[WireBatch] = []  # of the ranges before this replica's
        # A failure on a shortcut runs items twice; in the driver, that would be
        # visible.
        if not job.spec.resilient and not unit.in_driver:
            self._shortcut = shortcut_of(
                self._layout,
                unit,
                self.programs.without_positions,
                self._replay,
                job.rehearse,
            )
            self._in_columns = self._find_columns()
        self._saved = UnitStates(
            unit, self._stored, job.spec.states, job.spec.checkpoint, job.spec.seal
        )

    def _find_columns(self) -> InColumns | InSegments | None:
        """Return the column runner of the unit, if the plan has one."""
        layout, unit, states = self._layout, self._unit, self._states
        line = columns_of_unit(
            layout,
            unit,
            states,
            self._shortcut,
            lambda batch: self._run_streams([batch]),
        )
        segments = segments_of_unit(layout, unit)
        if line is not None or segments is None:
            return line
        runs = WaysToRun(
            self._run_streams,
            partial(run_and_rehearse, rehearse=self._job.rehearse),
            self._replay,
            self._exits.drop_marks,
        )
        make = self.programs.part
        return InSegments(layout, unit, segments, states, make=make, runs=runs)

    def run(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: TaskRows,
    ) -> Report:
        """Run one replica for one epoch."""
        self._failures.clear()
        self._exits.take_written()  # of a failed attempt
        self._exits.sent.take()
        match task.mode:
            case WarmUp():
                if self._unit.operators:  # others only write what they get
                    self.programs.whole()
                differing = self._job.differing
                return Report(self._unit.number, channel, differing=differing)
            case FinishOperators(some) if not {*some}.intersection(
                self._unit.operators
            ):
                return Report(self._unit.number, channel)
        self._open(task, channel)
        try:
            if isinstance(task.mode, FinishOperators):
                return self._finish(task.mode, channel)
            return self._run(task, channel, share, received, rows)
        finally:
            self._begun = None
            self._saved.close()

    def _open(self, task: EpochTask, channel: int) -> None:
        """Open the states of the epoch before."""
        self._saved.open(task, channel, self._job.pickler)
        for states in self._spare:
            if len(states) > _MOST_SPARE:  # keys come for as long as the job runs
                states.clear()
        for name, kernel in self._sharing.items():
            if name not in self._stored:
                self._states[name][()] = kernel.open()
            if name in task.shared:
                kernel.share(self._states[name][()], task.shared[name])
        for name, kernel in self._meeting.items():
            ports = task.idle.get(name, frozenset())
            kernel.set_idle(self._states[name][()], ports)

    def _begin_range(self) -> None:
        """Advance the clocks over the ranges before this replica's."""
        for items, _, entries in self._inputs.read_chunks(self._deciding):
            for item, entry in zip(items, entries or repeat(0), strict=False):
                edge = self._unit.entries[entry]
                assert isinstance(edge, Edge)  # noqa: S101 - sources have no clock
                name, port = edge.consumer
                state = self._states[name][()]
                pass_over(self._sharing[name], state, item, port)

    def _find_shared(self, operators: Container[str]) -> dict[str, Any]:
        """Return the present state that all replicas of some operators share."""
        return {
            name: kernel.find_shared(self._states[name][()])
            for name, kernel in self._sharing.items()
            if name in operators
        }

    def _run(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: TaskRows,
    ) -> Report:
        read, streams = self._receive(task, channel, share, received)
        taken = tuple(map(len, streams))
        self._begun = task, channel, streams
        if not self._unit.operators:  # only writes what it is given
            (stream,) = streams
            (sink,) = self._unit.writes
            if len(stream):
                self._exits.write(sink, stream, task, channel)
        else:
            left = {e: [b] for e, b in self._process(task, share, streams)}
            try:
                self._exits.leave(left, task, channel, rows)
            except NoPlaceError:  # repeat with positions
                left = {e: [b] for e, b in self._replay()}
                self._exits.leave(left, task, channel, rows)
        reach("processed", task.attempt.epoch)
        pickler = self._job.pickler
        changes = self._saved.changes(self._unit.operators)
        shared = self._find_shared(self._unit.operators)
        saved = self._saved.save(task, channel, changes)
        return Report(
            self._unit.number,
            channel,
            read,
            self._exits.take_written(),
            self._describe_failures(),
            changed=saved.changed,
            stamp=saved.stamp,
            logs=saved.logs,
            snapshots=saved.snapshots,
            opened=saved.opened,
            restored=saved.restored,
            begun=None
            if self._groups is None
            else self._groups.find_incomplete(pickler),
            ran={} if self._in_columns is None else self._in_columns.ran,
            taken=taken,
            reached=self._inputs.reached,
            births=self._inputs.births,
            surveyed=self._inputs.surveyed,
            sent=self._exits.sent.take()
            if task.stage.reports_keys(self._unit, channel)
            else {},
            shared=shared,
        )

    def first_part(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: TaskRows,
    ) -> Iterator[list[WireBatch]]:
        """Run the operators before the first cut; yield the output, chunk by chunk.

        A chunk has a batch for each stream that crosses the cut. `parts_done` then
        holds the results of this part.
        """
        self._failures.clear()
        self._exits.take_written()  # of a failed attempt
        self._exits.sent.take()
        part = self.parts(task)[0]
        self._open(task, channel)
        try:
            read, streams = self._receive(task, channel, share, received)
            taken = tuple(map(len, streams))
            program = self.programs.part(part.operators, self._unit.entries)
            left: dict[Edge, list[WireBatch]] = {}
            for items, positions, entries in in_chunks(
                self._inputs.read_chunks(streams)
            ):
                given = dict(self._run_program(program, items, positions, entries))
                yield [given.pop(edge) for edge in part.sent]
                PROGRESS.add(self._unit.number, len(items))
                for edge, batch in given.items():
                    left.setdefault(edge, []).append(batch.compact())
            self._exits.leave(left, task, channel, rows)
            report = Report(
                self._unit.number,
                channel,
                read,
                self._exits.take_written(),
                self._describe_failures(),
                reached=self._inputs.reached,
                births=self._inputs.births,
                surveyed=self._inputs.surveyed,
                sent=self._exits.sent.take(),
                shared=self._find_shared(part.operators),
                taken=taken,
            )
            self.parts_done = [(self._saved.hand_on(task, part.operators), report)]
        finally:
            self._saved.close()

    def later_part(
        self,
        task: EpochTask,
        channel: int,
        chunks: Iterator[Chunk],
        earlier: Sequence[PartDone],
        rows: TaskRows,
    ) -> Iterator[Chunk]:
        """Run the operators between a cut and the next; yield the output, by chunk.

        When there are no more chunks, `earlier` returns the results of the parts
        before, and `parts_done` becomes these with the results of this one. The last
        part saves the states of all, unless one of them has failed.
        """
        self._failures.clear()
        self._exits.take_written()  # of a failed attempt
        self._exits.sent.take()
        parts = self.parts(task)
        part = parts[task.stage.part]
        self._open(task, channel)
        try:
            left: dict[Edge, list[WireBatch]] = {}
            for chunk in chunks:
                yield list(self._run_chunk(part, chunk, left))
            if any(report.error is not None for _, report in earlier):
                self.parts_done = [*earlier, ({}, Report(self._unit.number, channel))]
                return
            self._exits.leave(left, task, channel, rows)
            report = Report(
                self._unit.number,
                channel,
                {},
                self._exits.take_written(),
                self._describe_failures(),
                sent=self._exits.sent.take(),
                shared=self._find_shared(part.operators),
            )
            if part == parts[-1]:
                own = self._saved.changes(part.operators)
                report = self._save_parts(task, channel, [*earlier, (own, report)])
            else:
                own = self._saved.hand_on(task, part.operators)
            self.parts_done = [*earlier, (own, report)]
        finally:
            self._saved.close()

    def _run_chunk(
        self, part: CutPart, chunk: Chunk, left: dict[Edge, list[WireBatch]]
    ) -> Iterator[tuple[int, pa.Buffer]]:
        """Run a chunk: return the outputs that cross the next cut, and add those that
        leave the unit.
        """
        entries, pickler = part.entries, self._job.pickler
        program = self.programs.part(part.operators, entries)
        given: dict[Edge, list[pa.Buffer]] = {}
        for number, blob in chunk:
            given.setdefault(part.received[number], []).append(blob)
        streams = self._inputs.along(entries, given)
        for fed in self._inputs.read_chunks(streams, entries):
            for edge, out in self._run_program(program, *fed):
                if edge not in part.sent:
                    left.setdefault(edge, []).append(out.compact())
                elif len(out):
                    blob = pa.py_buffer(encode(out, pickler))
                    given.setdefault(edge, []).append(blob)
        for number, edge in enumerate(part.sent):
            for blob in given.get(edge, ()):
                yield number, blob

    def _save_parts(
        self, task: EpochTask, channel: int, done: Sequence[PartDone]
    ) -> Report:
        """Save the changes of all parts; return the report of the last."""
        together: Changes = {}
        for changes, _ in done:
            together |= changes
        saved = self._saved.save(task, channel, together, whole=False)
        return replace(
            done[-1][1],
            changed=saved.changed,
            stamp=saved.stamp,
            logs=saved.logs,
            snapshots=saved.snapshots,
            opened=saved.opened,
            restored=saved.restored,
        )

    def parts(self, task: EpochTask) -> tuple[CutPart, ...]:
        """Return the parts of this unit by the cuts of a task."""
        return parts_of(self._layout, self._unit, task.cuts[self._unit.number])

    def _finish(self, mode: FinishOperators, channel: int) -> Report:
        finished: dict[str, Sequence[tuple[bytes, list[Any]]]] = {}
        bounds: dict[str, bytes] = {}
        for name in mode.operators:
            if name not in self._unit.operators:
                continue
            if name in self._stored:
                self._stored[name].load_all()
            program = self.programs.whole(name)
            span = mode.spans.get(name)
            if name in mode.held:
                finished[name] = [(b"", self._states[name][()])]
            elif span is None or not kernel_of(self._layout.graph[name]).ends_by_key:
                finished[name] = program.finish(name)
            else:
                keys, bound = span.choose(list(self._states[name]))
                finished[name] = program.finish(name, keys)
                if bound is not None:
                    bounds[name] = bound
        return Report(
            self._unit.number,
            channel,
            failures=self._describe_failures(),
            finished=finished,
            bounds=bounds,
        )

    def _receive(
        self,
        task: EpochTask,
        channel: int,
        share: Share,
        received: list[list[pa.Buffer]],
    ) -> tuple[dict[str, int], list[WireBatch]]:
        """Return the input of this replica."""
        if self._groups is None:
            received, deciding = take_deciding(received)
            self._deciding = []
            if any(deciding):
                self._deciding = self._inputs.streams(task, Share(), deciding)[1]
            self._begin_range()
            return self._inputs.streams(task, share, received)
        channels = task.stage.channels[self._unit.number]
        (blobs,) = received
        items, counts = without_counts(blobs, channels)
        read, (stream,) = self._inputs.streams(task, share, [items])
        pickler = self._job.pickler
        return read, [self._groups.begin(task, channel, counts, stream, pickler)]

    def _process(
        self, task: EpochTask, share: Share, streams: list[WireBatch]
    ) -> Iterator[tuple[Edge, WireBatch]]:
        """Run the program on its input; yield the outputs, by stream."""
        if isinstance(task.mode, InjectOutputs):
            if share.injected is not None:
                items, positions = self._job.pickler.loads(share.injected)
                program = self.programs.whole(task.mode.operator)
                yield from self._run_program(program, items, positions)
            elif any(map(len, streams)):
                yield from self._run_streams(streams)
        elif self._in_columns is not None or (len(streams) == 1 and self._shortcut):
            before = PROGRESS.count(self._unit.number)
            if isinstance(self._in_columns, InSegments):
                yield from self._in_columns.run(streams)
            else:
                way = self._in_columns or self._shortcut
                assert way is not None  # noqa: S101 - one of them is there
                yield from way.run(streams[0])
            done = PROGRESS.count(self._unit.number) - before
            PROGRESS.add(self._unit.number, max(0, sum(map(len, streams)) - done))
        elif any(map(len, streams)):
            yield from self._run_streams(streams)

    def _run_streams(
        self, streams: Sequence[WireBatch]
    ) -> Iterator[tuple[Edge, WireBatch]]:
        program = self.programs.whole()
        left: dict[Edge, list[WireBatch]] = {}
        unit = None if self._groups else self._unit.number
        for fed in self._inputs.read_chunks(list(streams)):
            for edge, batch in self._run_program(program, *fed, unit=unit):
                left.setdefault(edge, []).append(batch.compact())
        for edge, batches in left.items():
            yield edge, end_to_end(batches)

    def _replay(self) -> Iterator[tuple[Edge, WireBatch]]:
        """Run the whole input of this replica again, from the beginning."""
        assert self._begun is not None  # noqa: S101 - it has failed
        task, channel, streams = self._begun
        pickler = self._job.pickler
        if self._groups is None:
            self._open(task, channel)
            self._begin_range()
        else:
            self._groups.again(pickler)
        yield from self._run_streams(streams)

    def _run_program(
        self,
        program: Program,
        items: list[Any],
        positions: list[list[int]],
        entries: list[int] | None = None,
        unit: int | None = None,
    ) -> Iterator[tuple[Edge, WireBatch]]:
        for left in program.exits.values():
            left.clear()  # an earlier try may have failed half-way
        run_and_rehearse(
            program, items, positions, entries, self._job.rehearse, unit=unit
        )
        for edge, left in program.exits.items():
            turns = self._layout.positions.turns[edge.producer.operator]
            columns = [
                column_of(column, turns=place in turns)
                for place, column in enumerate(left.positions)
            ]
            form = self._exits.form(edge.producer.operator)
            batch = WireBatch(columns, form, None, left.items[:])
            left.clear()
            yield edge, self._exits.drop_marks(edge, batch)

    def _describe_failures(self) -> tuple[Failure, ...]:
        """Return the failures for the driver; those that cannot be pickled, as text."""
        failures, pickler = tuple(self._failures), self._job.pickler
        if not failures or pickler.takes(failures):
            return failures
        return tuple(travelling(failure, pickler.takes) for failure in failures)

    def _on_error(self, failure: Failure) -> None:
        if not self._job.spec.resilient:
            stop(failure)
        self._failures.append(_picklable(failure))


def _picklable(failure: Failure) -> Failure:
    """Return a failure without the frames and items that its error refers to."""
    error = failure.error
    made = type(error)(*error.args) if type(error).__module__ == "builtins" else error
    return replace(failure, error=made, raised_at=user_line(error))
