"""An element in up to three stages: Python, a compiled part, and Python again.

Each stage takes the whole batch of the one before. The outputs are the same, item by
item, as if every item had gone through alone; so is the first error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from anabranch.graph.graph import Edge, Graph
from anabranch.runtime.batch import ArrayItems, TableItems
from anabranch.runtime.columns.column_part import ColumnPart, ColumnStream
from anabranch.runtime.compiled.part import (
    ArrayStream,
    AtWork,
    FallbackError,
    Marks,
    Origins,
    Part,
    note_batch,
)
from anabranch.runtime.compiled.shape import PartShape
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Columns, Exit, Program, StatesOf


class CompiledPart(Protocol):
    """Operators that run compiled, on arrays of numbers or on columns."""

    graph: Graph
    shape: PartShape
    filename: str
    line_table: dict[int, str]

    @property
    def fewest(self) -> int:
        """The smallest batch that is worth compiled code."""

    def run(
        self, items: list[Any], states: StatesOf, *, triggers: bool = True
    ) -> tuple[Any, Any]:
        """Return the new states and the output of the part; nothing has changed yet."""

    def items_of(self, stream: Any) -> list[Any]:
        """Return the part's output as items."""


@dataclass(frozen=True)
class Stages:
    """The programs around a compiled part.

    `whole` replaces the part and what follows it for batches that must run in Python.
    `again` is a repeatable copy of `before`, if there is one.
    """

    before: Program | None
    part: CompiledPart
    whole: Program
    behind: Program | None
    again: Program | None


class Staged:
    """Runs batches through the stages of an element.

    Not thread-safe; the program that owns it is its only caller.
    """

    def __init__(
        self,
        part: CompiledPart,
        positions: Positions | None,
        make: Callable[..., Program],
        describe: Callable[[int | None], str],
        *,
        repeatable: bool = False,
    ) -> None:
        graph, shape = part.graph, part.shape
        self._positions = positions
        self._describe = describe
        self._given = note_batch([], None, None)
        self._before: AtWork | None = None
        self._at_work: AtWork | None = None
        self.failed_batches = 0
        self.fewest = part.fewest  # items in a batch that is worth compiled code
        self.done = self.not_done = 0  # items of the part, compiled and in Python
        followed = (*shape.operators, *shape.behind)
        before, behind = shape.before, shape.behind
        again = make(before, None, describe, again=True) if repeatable else None
        self.stages = Stages(
            make(before, None, self._describe_before) if before else None,
            part,
            make(followed, shape.entry, self._describe_behind if before else describe),
            make(behind, shape.last, self._describe_behind) if behind else None,
            again,
        )
        self._cuts = [
            edge
            for edge in (graph.out_edges(shape.source.operator) if before else ())
            if edge.consumer.operator in shape.operators
        ]
        self._origins = None if again is None else Origins(again, self._cuts[0])
        tracked = positions is not None or again is not None
        self._marks = None if tracked else Marks()

    def run(
        self,
        items: Any,
        positions: Columns | None,
        entries: Sequence[int] | None,
        exits: Mapping[Edge, Exit],
        *,
        arrays: bool = False,
    ) -> None:
        """Run a batch and put its outputs into `exits`, as arrays if possible."""
        before = self.stages.before
        self._given = given = note_batch(items, positions, entries)
        if before is None:
            self._through_part(items, positions, exits, arrays=arrays)
            return
        failure: Exception | None = None
        own = given.copy_items()
        self._before = None if own is items else AtWork(own, given.count)
        taken = own
        if self._before is not None and self._marks is not None:
            taken = self._marks.follow(own, before.exits[self._cuts[0]].items)
        try:
            before.run(taken, positions, entries)
        except Exception as error:  # noqa: BLE001 - raised once what came before is done
            failure = error
        made, columns = self._take(before)
        _move(before, exits)
        self._through_part(made, columns, exits)
        if failure is not None:
            raise failure

    @property
    def takes_tables(self) -> bool:
        """Whether the part has the whole batch, and accepts tables."""
        alone = self.stages.before is None and self.stages.behind is None
        return alone and isinstance(self.stages.part, ColumnPart)

    def run_table(
        self, table: Any, positions: Columns | None, exits: Mapping[Edge, Exit]
    ) -> bool:
        """Run a table; False: nothing has happened, and Python must run it."""
        part = self.stages.part
        assert isinstance(part, ColumnPart)  # noqa: S101 - it takes tables
        try:
            flow, stream = part.run_table(table)
        except Exception:  # noqa: BLE001 - nothing has changed, and Python can do it
            return False
        self._settle(flow, len(table))
        columns = self._find_columns(stream, positions)
        self._leave_whole(part.table_of(stream), stream, columns, exits)
        return True

    def run_arrays(
        self,
        items: ArrayItems,
        positions: Columns | None,
        exits: Mapping[Edge, Exit],
        *,
        arrays: bool,
    ) -> bool:
        """Run arrays; False: nothing has happened, and they must run as a list."""
        part = self.stages.part
        alone = self.stages.before is None and self.stages.behind is None
        if not alone or not isinstance(part, Part) or len(items) < self.fewest:
            return False
        if not part.takes(items):
            return False
        try:
            flow, stream = part.run_arrays(
                [np.ascontiguousarray(array) for array in items.arrays],
                self.stages.whole.states,
                triggers=self._wants_triggers(positions),
            )
        except Exception:  # noqa: BLE001 - nothing has changed, and Python can do it
            return False
        self._settle(flow, len(items))
        columns = self._find_columns(stream, positions)
        made = part.arrays_of(stream) if arrays else None
        self._leave_whole(made, stream, columns, exits)
        return True

    def _settle(self, flow: Any, count: int) -> None:
        """Record that the part has run a batch, and write its states."""
        self.failed_batches = 0
        self.done += count
        for change in flow.changes:
            change()

    def _find_columns(self, stream: Any, positions: Columns | None) -> Columns | None:
        """Return the positions of the part's outputs, if they have any."""
        if self._positions is None or positions is None:
            return None
        width = self._positions.after[self.stages.part.shape.last]
        return columns_of(stream, positions, width)

    def _leave_whole(
        self,
        made: TableItems | ArrayItems | None,
        stream: Any,
        columns: Columns | None,
        exits: Mapping[Edge, Exit],
    ) -> None:
        """Let the outputs leave as they are, if only one stream takes them."""
        part = self.stages.part
        edges = part.graph.out_edges(part.shape.last)
        if made is None or len(edges) > 1 or exits[edges[0]].items:
            self._leave(part.items_of(stream), columns, exits)
        else:
            self._leave([], columns, exits)
            exits[edges[0]].tables.append(made)

    def _take(self, before: Program) -> tuple[list[Any], Columns | None]:
        """Take the input of the part; a fan-out gives it once per branch."""
        first = before.exits[self._cuts[0]]
        made = first.items[:]
        columns = None
        if self._positions is not None:
            columns = [column[:] for column in first.positions]
            if self._cuts[0] in self._positions.branch:
                columns.pop()
        for edge in self._cuts:
            before.exits[edge].clear()
        return made, columns

    def _through_part(
        self,
        items: Any,
        positions: Columns | None,
        exits: Mapping[Edge, Exit],
        *,
        arrays: bool = False,
    ) -> None:
        listed = items if isinstance(items, list) else list(self._given.copy_items())
        if not listed:
            return
        whole = self.stages.whole
        try:
            if len(listed) < self.fewest:
                raise FallbackError  # noqa: TRY301 - one way to say no
            flow, stream = self.stages.part.run(
                listed, whole.states, triggers=self._wants_triggers(positions)
            )
        except Exception:  # noqa: BLE001 - nothing has changed, and Python can do it
            self.failed_batches += len(listed) >= self.fewest
            self.not_done += len(listed)
            left = iter(listed) if self.stages.before is not None else items
            self._at_work = AtWork(left, len(listed))
            _run_into(exits, whole, left, positions)
            return
        self._settle(flow, len(listed))
        part = self.stages.part
        columns = self._find_columns(stream, positions)
        if self.stages.behind is None:
            self._leave_whole(
                part.arrays_of(stream) if isinstance(part, Part) and arrays else None,
                stream,
                columns,
                exits,
            )
            return
        made = part.items_of(stream)
        left = iter(made)
        self._at_work = AtWork(left, len(made), stream.triggers)
        _run_into(exits, self.stages.behind, left, columns)

    def _wants_triggers(self, positions: Columns | None) -> bool:
        """Tell whether the item behind each output will be needed."""
        if self.stages.behind is not None:
            return True
        return self._positions is not None and positions is not None

    def _leave(
        self, made: list[Any], columns: Columns | None, exits: Mapping[Edge, Exit]
    ) -> None:
        for edge in self.stages.part.graph.out_edges(self.stages.part.shape.last):
            exits[edge].items.extend(made)
            if columns is None or self._positions is None:
                continue
            own = columns
            if edge in self._positions.branch:
                own = [*columns, [self._positions.branch[edge]] * len(columns[0])]
            for column, numbers in zip(exits[edge].positions, own, strict=True):
                column.extend(numbers)

    def _describe_before(self, place: int | None) -> str:
        """Return the location of an item in the first stage."""
        if self._before is not None:
            self._given.point_at(self._before.index)
        return self._describe(place)

    def _describe_behind(self, place: int | None) -> str:
        """Return the location of an item in the part or behind it."""
        index = self._find_origin(place)
        if index is not None:
            self._given.point_at(index)
            return self._describe(place)
        self._given.point_at(self._given.count - 1)
        return _or_before(self._describe(place))

    def _find_origin(self, place: int | None) -> int | None:
        """Return the index of the batch item behind the current one."""
        found = self._given.find(place)
        if found is not None or self._at_work is None:
            return found
        if self.stages.before is None:
            return self._at_work.index
        if self._origins is not None:
            return self._origins.find(self._given, self._at_work.index)
        if self._before is None or self._marks is None:
            return None
        return self._marks.find(self._at_work.index)


def _or_before(described: str) -> str:
    hedge = ", or before it in its batch"
    return described if described.endswith(hedge) else f"{described}{hedge}"


def _run_into(
    exits: Mapping[Edge, Exit], program: Program, items: Any, columns: Columns | None
) -> None:
    """Run a stage; its outputs count even if it fails later on."""
    try:
        program.run(items, columns)
    finally:
        _move(program, exits)


def _move(program: Program, exits: Mapping[Edge, Exit]) -> None:
    """Move the outputs of a stage to those of the whole element."""
    for edge, left in program.exits.items():
        if edge in exits:
            exits[edge].items.extend(left.items)
            for column, numbers in zip(
                exits[edge].positions, left.positions, strict=True
            ):
                column.extend(numbers)
        left.clear()


def columns_of(
    stream: ArrayStream | ColumnStream, positions: Columns, width: int
) -> Columns:
    """Return the positions of a part's outputs.

    An output has the position of its trigger. If positions grow inside the part, the
    last number counts the outputs of one trigger.

    >>> stream = ArrayStream([], np.array([0, 0, 2]))
    >>> columns_of(stream, [[7, 8, 9]], 2)
    [[7, 7, 9], [0, 1, 0]]
    """
    triggers = stream.triggers
    assert triggers is not None  # noqa: S101 - whoever has positions asked for them
    made = [_pick(column, triggers) for column in positions]
    missing = width - len(made)
    if missing:
        made += [[0] * len(triggers) for _ in range(missing - 1)]
        begins = np.searchsorted(triggers, triggers, side="left")
        made.append((np.arange(len(triggers)) - begins).tolist())
    return made


def _pick(column: Sequence[Any], rows: Any) -> list[Any]:
    """Return the components of rows; besides numbers there may be turns.

    >>> _pick(range(7, 10), np.array([0, 2])), _pick([b"", 4], np.array([1, 0]))
    ([7, 9], [4, b''])
    """
    if isinstance(column, range):
        return list((column.start + column.step * rows).tolist())
    if isinstance(column, np.ndarray):
        return list(column[rows].tolist())
    return [column[row] for row in rows.tolist()]
