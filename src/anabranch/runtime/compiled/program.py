"""Programs that start in Python and continue compiled once that pays off.

Compiling takes a second, longer than most programs run. So an element first runs as
generated Python. After a while, a background thread compiles its kernels, and the next
batch uses them: states are the same either way, so the two can alternate at any batch.
If the compiled code turns out to be slower (a part that does little with its numbers),
the element returns to Python for good.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import length_hint
from time import perf_counter
from types import FrameType
from typing import Any, Literal, TypeAlias

from anabranch.graph.graph import Graph
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.plan.column_kernels import (
    ColumnKernel,
    ElementSegment,
    divide_into_segments,
    is_line,
    why_not_in_segments,
)
from anabranch.plan.plan import ArrayKernel, Plan
from anabranch.runtime.batch import ArrayItems
from anabranch.runtime.codegen import Entry, find_punctuated_operators
from anabranch.runtime.columns.column_part import ColumnPart
from anabranch.runtime.columns.program_segments import ProgramSegments
from anabranch.runtime.columns.segmented_element import ColumnSegment
from anabranch.runtime.compiled.build import (
    CompilationError,
    has_compiled_columns,
    is_compiled,
    is_stored,
)
from anabranch.runtime.compiled.part import Part
from anabranch.runtime.compiled.shape import PartShape, find_shape
from anabranch.runtime.compiled.stages import CompiledPart, Staged
from anabranch.runtime.failures import Failure, OnError, stop
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Columns, Program, StatesOf, describe_position

When: TypeAlias = Literal["hot", "at once", "never"]

WHEN_VARIABLE = "ANABRANCH_COMPILE"
_HOT_S = 0.5  # in Python, before compiling is worth a second
_WARM_S = 0.02  # in Python, before compiled code is worth reading from a folder
_TRIAL_BATCHES = 8
_TELLING = 64  # items in a batch; for fewer, other costs dominate
_PATIENCE = 5  # consecutive batches that had to run in Python after all
_WORTH_S = 0.0005  # in Python: a batch that takes longer is worth starting kernels


@dataclass
class ColumnTally:
    """The number of items run in columns, and in Python although columns were possible.

    Each program has its own counter, so that threads need no lock.
    """

    counts: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)

    def note(
        self, program: int, operators: Sequence[str], done: int, other: int
    ) -> None:
        """Add items that a program has run."""
        for name in operators:
            columns, python = self.counts.get((program, name), (0, 0))
            self.counts[program, name] = columns + done, python + other

    def share(self) -> dict[str, float]:
        """Return, by operator, the share of items run in columns.

        >>> tally = ColumnTally()
        >>> tally.note(1, ["a"], 3, 0)
        >>> tally.note(2, ["a"], 0, 1)
        >>> tally.share()
        {'a': 0.75}
        """
        sums: dict[str, tuple[int, int]] = {}
        for (_, name), (columns, python) in list(self.counts.items()):
            done, other = sums.get(name, (0, 0))
            sums[name] = done + columns, other + python
        return {name: a / (a + b) for name, (a, b) in sums.items() if a + b}


@dataclass(frozen=True)
class CompileChoice:
    """What may be compiled, and when; `effects` are operators whose order is
    visible.
    """

    kernels: Mapping[str, ArrayKernel] = field(default_factory=dict)
    effects: frozenset[str] = frozenset()
    when: When = "hot"
    threads: int = 1  # that may share the firings of one operator
    # operators that may be repeated on an item
    repeatable: frozenset[str] | None = None
    columns: Mapping[str, ColumnKernel] = field(default_factory=dict)
    together: tuple[tuple[str, ...], ...] = ()  # operators that share something
    tally: ColumnTally = field(default_factory=ColumnTally, compare=False)


NOTHING = CompileChoice(when="never")


def choice_of(plan: Plan, threads: int = 1) -> CompileChoice:
    """Return the parts to compile; the environment may force or forbid it."""
    effects = frozenset(op.name for op in plan.operators if op.effects)
    wanted = os.environ.get(WHEN_VARIABLE, "hot").replace("_", " ")
    when: When = "hot"
    if wanted == "at once":
        when = "at once"
    elif wanted == "never":
        when = "never"
    repeatable = frozenset(
        op.name for op in plan.operators if op.state == "stateless" and not op.effects
    )
    runs = {op.name: op.runs for op in plan.operators}
    columns = {k.operator: k for k in plan.columns if runs.get(k.operator) == "columns"}
    found = {k.operator: k for one in plan.subgraphs for k in one.kernels}
    kernels = {name: k for name, k in found.items() if name not in columns}
    return CompileChoice(
        kernels, effects, when, threads, repeatable, columns, plan.together
    )


def make_program(
    graph: Graph,
    operators: Iterable[str],
    entries: Sequence[Entry],
    choice: CompileChoice,
    *,
    positions: Positions | None = None,
    states: StatesOf | None = None,
    on_error: OnError = stop,
    describe: Callable[[int | None], str] = describe_position,
) -> Program:
    """Return the program of an element, compiling what the choice allows."""
    inside = tuple(operators)
    shape: PartShape | tuple[ElementSegment, ...] | None
    shape = find_segments(graph, inside, choice)
    if shape is None:
        shape, choice = _choose_shape(graph, inside, entries, choice)
        if shape is not None and _shows(shape, choice):
            shape = None
    if shape is None:
        return Program(
            graph,
            inside,
            entries,
            positions=positions,
            states=states,
            on_error=on_error,
            describe=describe,
        )
    return TieredProgram(
        graph,
        inside,
        entries,
        shape,
        choice,
        positions=positions,
        states=states,
        on_error=on_error,
        describe=describe,
    )


def find_segments(
    graph: Graph, inside: Sequence[str], choice: CompileChoice
) -> tuple[ElementSegment, ...] | None:
    """Return the segments of an element whose streams fork, merge or carry signs."""
    inner = [
        name
        for name in inside
        if not isinstance(graph[name].kind, SourceKind | SinkKind)
    ]
    columns = choice.columns.keys() & {*inner}
    if choice.when == "never" or len(columns) <= len(choice.kernels.keys() & {*inner}):
        return None  # plain arrays of numbers are faster
    marked = find_punctuated_operators(graph)
    bare = marked.isdisjoint([*inner, *graph.producers(inner[0])])
    if bare and is_line(graph, inner):
        return None
    made = divide_into_segments(graph, inner, choice.columns)
    why = why_not_in_segments(graph, made, choice.effects, choice.together)
    return made if why is None else None


def _choose_shape(
    graph: Graph,
    inside: tuple[str, ...],
    entries: Sequence[Entry],
    choice: CompileChoice,
) -> tuple[PartShape | None, CompileChoice]:
    """Return the longest compiled part, and the choice restricted to its kernels."""
    found: list[tuple[PartShape, CompileChoice]] = []
    marked: frozenset[str] | None = None
    for kernels, one in (
        (choice.kernels, replace(choice, columns={})),
        (choice.columns, replace(choice, kernels={})),
    ):
        if choice.when == "never" or kernels.keys().isdisjoint(inside):
            continue
        if marked is None:
            marked = find_punctuated_operators(graph)
        shape = find_shape(graph, inside, entries, kernels, marked)
        if shape is not None:
            found.append((shape, one))
    if not found:
        return None, choice
    return max(found, key=lambda pair: len(pair[0].operators))


def _shows(shape: PartShape, choice: CompileChoice) -> bool:
    """Tell whether running stages batch by batch would be visible."""
    return any(
        not {*group}.isdisjoint(shape.before) and not {*group}.isdisjoint(shape.behind)
        for group in (choice.effects, *choice.together)
    )


class TieredProgram(Program):
    """A program with a part that can be compiled."""

    def __init__(
        self,
        graph: Graph,
        operators: Iterable[str],
        entries: Sequence[Entry],
        shape: PartShape | tuple[ElementSegment, ...],
        choice: CompileChoice,
        *,
        positions: Positions | None = None,
        states: StatesOf | None = None,
        on_error: OnError = stop,
        describe: Callable[[int | None], str] = describe_position,
    ) -> None:
        super().__init__(
            graph,
            operators,
            entries,
            positions=positions,
            states=states,
            on_error=on_error,
            describe=describe,
        )
        self._shape = shape
        self._choice = choice
        self._in_columns = bool(choice.columns)
        if isinstance(shape, PartShape):
            self._compiled_operators = shape.operators
        else:
            columns = (one.operators for one in shape if one.in_columns)
            self._compiled_operators = tuple(chain.from_iterable(columns))
        self._positions = positions
        self._staged: Staged | ProgramSegments | None = None
        self._spent_s = 0.0
        self._spent_items = 0
        self._usual_fewest = 1
        self._stored: bool | None = None  # as far as known
        self._cost = _Cost()
        self._compiled_cost = _Cost()
        self._compiling = False
        self.why_not_compiled = "" if choice.when == "at once" else "has not run long"

    @property
    def compiled(self) -> bool:
        """Whether the next batch runs compiled."""
        return self._staged is not None

    @property
    def parts(self) -> tuple[Program | PartView, ...]:
        if self._staged is None:
            return (self,)
        views: list[Program | PartView] = [self]
        if isinstance(self._staged, ProgramSegments):
            found = self._staged.element.in_columns.values()
            views += [PartView(self, one) for one in found]
            programs: list[Program | None] = [*self._staged.programs]
        else:
            stages = self._staged.stages
            views.append(PartView(self, stages.part))
            programs = [stages.before, stages.whole, stages.behind]
        for program in programs:
            if program is not None:
                views += program.parts
        return tuple(views)

    @property
    def takes_tables(self) -> bool:
        self._compile_if_known()
        return isinstance(self._staged, Staged) and self._staged.takes_tables

    def run_table(self, table: Any, positions: Columns | None) -> bool:
        staged = self._staged
        if not isinstance(staged, Staged) or not staged.takes_tables:
            return False
        return self._run_whole(staged, staged.run_table, table, positions)

    def run_arrays(self, items: ArrayItems, positions: Columns | None) -> bool:
        self._compile_if_known()
        staged = self._staged
        if not isinstance(staged, Staged):
            return False
        run = partial(staged.run_arrays, arrays=self.gives_arrays)
        return self._run_whole(staged, run, items, positions)

    def _run_whole(
        self,
        staged: Staged,
        run: Callable[..., bool],
        items: Any,
        positions: Columns | None,
    ) -> bool:
        began_s = perf_counter()
        if not run(items, positions, self.exits):
            return False
        self._note_columns(len(items), 0)
        self._compiled_cost.add(len(items), perf_counter() - began_s)
        self._judge(staged)
        return True

    def _compile_if_known(self) -> None:
        if not self._compiling and (self._choice.when == "at once" or self._is_known()):
            self._compiling = True
            self._compile()

    def run(
        self,
        items: Sequence[Any],
        positions: Columns | None = None,
        entries: Sequence[int] | None = None,
    ) -> None:
        self._compile_if_known()
        count, began_s = length_hint(items), perf_counter()
        staged = self._staged
        few = isinstance(staged, ProgramSegments) and count < staged.fewest
        if staged is None or few:
            super().run(items, positions, entries)
            self._note_columns(0, count)
            self._note_python(count, perf_counter() - began_s)
            self._cost.add(count, perf_counter() - began_s)
            if not self._compiling and self._is_hot():
                self._compiling = True
                # Not a daemon: a process must not end in the middle of compiling.
                threading.Thread(target=self._compile, name="compile").start()
            return
        if isinstance(staged, ProgramSegments):
            try:
                staged.run(items, positions, entries, self.exits)
            finally:
                for name, counts in staged.take_counts().items():
                    self._choice.tally.note(id(self), [name], *counts)
        else:
            before = staged.done, staged.not_done
            staged.run(items, positions, entries, self.exits, arrays=self.gives_arrays)
            done, not_done = staged.done - before[0], staged.not_done - before[1]
            self._note_columns(done, not_done)
            if not done:
                self._note_python(not_done, perf_counter() - began_s)
        self._compiled_cost.add(count, perf_counter() - began_s)
        self._judge(staged)

    def _note_python(self, items: int, time_s: float) -> None:
        """Learn the cost of an item in Python.

        Costly items come few at a time. They must not stay in Python because they are
        few: compiled, they are cheap.
        """
        self._spent_s += time_s
        self._spent_items += items
        if self._staged is not None and self._spent_s > 0:
            worth = int(_WORTH_S * self._spent_items / self._spent_s) + 1
            self._staged.fewest = min(self._usual_fewest, worth)

    def _note_columns(self, done: int, other: int) -> None:
        if self._in_columns:
            names = self._compiled_operators
            self._choice.tally.note(id(self), names, done, other)

    def _is_known(self) -> bool:
        """Tell whether compiling takes no time because it has been done before."""
        names, choice = self._compiled_operators, self._choice
        if self._in_columns:
            return all(has_compiled_columns(choice.columns[name]) for name in names)
        return all(is_compiled(choice.kernels[name]) for name in names)

    def _is_hot(self) -> bool:
        """Tell whether it has run long enough to be compiled, or to be read."""
        if self._spent_s > _WARM_S and self._stored is None:
            names, choice = self._compiled_operators, self._choice
            found: Mapping[str, ArrayKernel | ColumnKernel] = choice.kernels
            if self._in_columns:
                found = choice.columns
            self._stored = all(is_stored(found[name]) for name in names)
        return self._spent_s > _HOT_S or bool(self._stored)

    def _judge(self, staged: Staged | ProgramSegments) -> None:
        """Return to Python if it was faster, or is used anyway."""
        if isinstance(staged, ProgramSegments):
            gives_up = staged.why_not is not None
        else:
            gives_up = staged.failed_batches >= _PATIENCE
        if gives_up:
            self._staged = None
            self.why_not_compiled = "its items keep going through Python"
            return
        tried = self._compiled_cost.batches == _TRIAL_BATCHES
        slower = self._compiled_cost.for_an_item > self._cost.for_an_item
        if self._choice.when == "hot" and tried and slower and self._cost.items:
            self._staged = None
            self.why_not_compiled = "is faster in Python"

    def _compile(self) -> None:
        try:
            staged = self._make_staged(self._shape)
            self._usual_fewest, self._staged = staged.fewest, staged
            self.why_not_compiled = ""
        except CompilationError as error:
            self.why_not_compiled = str(error)

    def _make_staged(
        self, shape: PartShape | tuple[ElementSegment, ...]
    ) -> Staged | ProgramSegments:
        if not isinstance(shape, PartShape):
            return ProgramSegments(
                self.graph,
                shape,
                self.entries,
                self._choice.columns,
                self.states,
                make=self._make_segment,
                positions=self._positions,
                describe=self._describe,
                marked=find_punctuated_operators(self.graph),
            )
        return Staged(
            self._make_part(shape),
            self._positions,
            partial(self._make_stage, shape),
            self._describe,
            repeatable=self._is_repeatable(shape.before),
        )

    def _make_segment(
        self,
        operators: tuple[str, ...],
        entries: tuple[Entry, ...],
        positions: Positions,
        describe: Callable[[int | None], str],
    ) -> Program:
        """Return the program of a segment, sharing the element's states."""
        return Program(
            self.graph,
            operators,
            entries,
            positions=positions,
            states=self.states,
            describe=describe,
        )

    def _make_part(self, shape: PartShape) -> CompiledPart:
        graph, choice = self.graph, self._choice
        if self._in_columns:
            return ColumnPart(graph, shape, choice.columns, self.states)
        return Part(graph, shape, choice.kernels, choice.threads)

    def _is_repeatable(self, operators: tuple[str, ...]) -> bool:
        """Tell whether repeating some operators on an item is invisible."""
        if not operators or not self.states.keys().isdisjoint(operators):
            return False
        repeatable = self._choice.repeatable
        return repeatable is None or all(
            name in repeatable or isinstance(self.graph[name].kind, SourceKind)
            for name in operators
        )

    def _make_stage(
        self,
        shape: PartShape,
        operators: tuple[str, ...],
        entry: Entry | None,
        describe: Callable[[int | None], str],
        *,
        again: bool = False,
    ) -> Program:
        """Return the program of a stage, sharing the element's states.

        A stage that repeats items does not report them again.
        """
        behind = entry is not None and entry == shape.last
        return make_program(
            self.graph,
            operators,
            self.entries if entry is None else (entry,),
            self._choice if behind else replace(self._choice, when="never"),
            positions=self._positions,
            states=self.states,
            on_error=_ignore if again else self._on_error,
            describe=describe,
        )


def _ignore(_: Failure) -> None:
    pass


class PartView:
    """The compiled part of a program, for the profiler."""

    def __init__(self, program: Program, part: CompiledPart | ColumnSegment) -> None:
        self._program = program
        self._part = part
        self.filename = part.filename

    def path_of(self, lines: Sequence[int]) -> tuple[str, ...]:
        """Return the operators that lead to the one whose step is running."""
        operator = self._part.line_table.get(lines[0])
        return () if operator is None else self._program.path_to(operator)

    def operator_at(self, frame: FrameType | None) -> str | None:
        """Return the operator that a thread is in, given its innermost frame."""
        while frame is not None:
            if frame.f_code.co_filename == self.filename:
                return self._part.line_table.get(frame.f_lineno)
            frame = frame.f_back
        return None


@dataclass
class _Cost:
    """The time taken by batches that are large enough to measure."""

    batches: int = 0
    items: int = 0
    time_s: float = 0.0

    def add(self, items: int, time_s: float) -> None:
        if items < _TELLING:
            return
        self.batches += 1
        self.items += items
        self.time_s += time_s

    @property
    def for_an_item(self) -> float:
        return self.time_s / max(self.items, 1)
