"""An element in up to three stages: Python, a compiled part, and Python again.

Each stage takes the whole batch of the one before. The streams that leave are the same,
item by item, as if every item had gone through alone; so is the first error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.graph.graph import Edge
from anabranch.runtime.compiled.arrays import to_items
from anabranch.runtime.compiled.part import Part
from anabranch.runtime.compiled.steps import GoneWrongError, Stream
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Columns, Exit, Program


@dataclass(frozen=True)
class Stages:
    """The programs around a compiled part.

    `whole` stands in for the part and what follows it, for batches that must go
    through Python.
    """

    before: Program | None
    part: Part
    whole: Program
    behind: Program | None


class Staged:
    """Runs batches through the stages of an element.

    Not thread-safe; the program that owns it is its only caller.
    """

    def __init__(
        self,
        part: Part,
        positions: Positions | None,
        make: Callable[..., Program],
        describe: Callable[[int | None], str],
    ) -> None:
        graph, shape = part.graph, part.shape
        self._positions = positions
        self._describe = describe
        self._place = _Place()
        self.failed_batches = 0
        followed = (*shape.operators, *shape.behind)
        self.stages = Stages(
            make(shape.before, None, describe) if shape.before else None,
            part,
            make(followed, shape.entry, self._described if shape.before else describe),
            make(shape.behind, shape.last, self._described) if shape.behind else None,
        )
        self._cuts = [
            edge
            for edge in (graph.out_edges(shape.source.operator) if shape.before else ())
            if edge.consumer.operator in shape.operators
        ]

    def run(
        self,
        items: Any,
        positions: Columns | None,
        entries: Sequence[int] | None,
        exits: Mapping[Edge, Exit],
    ) -> None:
        """Send a batch through, and put what leaves into `exits`."""
        before = self.stages.before
        if before is None:
            self._through_part(items, positions, exits)
            return
        failure: Exception | None = None
        try:
            before.run(items, positions, entries)
        except Exception as error:  # noqa: BLE001 - raised once what came before is done
            failure = error
        made, columns = self._taken(before)
        _move(before, exits)
        self._through_part(made, columns, exits)
        if failure is not None:
            raise failure

    def _taken(self, before: Program) -> tuple[list[Any], Columns | None]:
        """Take what goes on to the part; a fan-out gives it once for each branch."""
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
        self, items: Any, positions: Columns | None, exits: Mapping[Edge, Exit]
    ) -> None:
        listed = items if isinstance(items, list) else list(copy.copy(items))
        if not listed:
            return
        whole = self.stages.whole
        try:
            if len(listed) < self.stages.part.fewest:
                raise GoneWrongError  # noqa: TRY301 - one way to say no
            flow, stream = self.stages.part.run(
                listed, whole.states, triggers=self._wants_triggers(positions)
            )
        except Exception:  # noqa: BLE001 - nothing has changed, and Python can do it
            self.failed_batches += len(listed) >= self.stages.part.fewest
            self._place = _Place()
            _run_into(exits, whole, items, positions)
            return
        self.failed_batches = 0
        for change in flow.changes:
            change()
        part = self.stages.part
        made = to_items(stream.arrays, part.gives_type)
        columns = None
        if self._positions is not None and positions is not None:
            width = self._positions.after[part.shape.last]
            columns = columns_of(stream, positions, width)
        if self.stages.behind is None:
            self._leave(made, columns, exits)
            return
        left = iter(made)
        given = None if isinstance(items, list) else items
        self._place = _Place(given, left, stream, len(made))
        _run_into(exits, self.stages.behind, left, columns)

    def _wants_triggers(self, positions: Columns | None) -> bool:
        """Tell whether somebody will ask which item is behind an output."""
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
                own = [*columns, [self._positions.branch[edge]] * len(made)]
            for column, numbers in zip(exits[edge].positions, own, strict=True):
                column.extend(numbers)

    def _described(self, place: int | None) -> str:
        """Return the place of an item behind the part."""
        if self._place.go_on():
            return self._describe(place)
        described = self._describe(place)
        if place is not None and self._positions is not None:
            return described
        return f"{described}, or before it in its batch"


@dataclass
class _Place:
    """Where the program behind a part stands, in terms of the items that came in."""

    items: Any = None  # the iterator of whoever runs the batch, who looks at it
    left: Any = None
    stream: Stream | None = None
    count: int = 0
    passed: int = 0

    def go_on(self) -> bool:
        """Move the iterator to the item that is behind the one at work, if it can."""
        if self.items is None or self.stream is None or self.stream.triggers is None:
            return False
        index = self.count - self.left.__length_hint__() - 1
        trigger = int(self.stream.triggers[max(index, 0)])
        while self.passed <= trigger:
            next(self.items)
            self.passed += 1
        return True


def _run_into(
    exits: Mapping[Edge, Exit], program: Program, items: Any, columns: Columns | None
) -> None:
    """Run a stage; what has left it counts even if it fails later on."""
    try:
        program.run(items, columns)
    finally:
        _move(program, exits)


def _move(program: Program, exits: Mapping[Edge, Exit]) -> None:
    """Move what has left a stage to where the whole element leaves it."""
    for edge, left in program.exits.items():
        if edge in exits:
            exits[edge].items.extend(left.items)
            for column, numbers in zip(
                exits[edge].positions, left.positions, strict=True
            ):
                column.extend(numbers)
        left.clear()


def columns_of(stream: Stream, positions: Columns, width: int) -> Columns:
    """Return the positions of what a part has given.

    An output has the position of its trigger. Where positions get longer inside the
    part, the outputs of one trigger are counted by the last number.

    >>> stream = Stream([], np.array([0, 0, 2]))
    >>> columns_of(stream, [[7, 8, 9]], 2)
    [[7, 7, 9], [0, 1, 0]]
    """
    triggers = stream.triggers
    assert triggers is not None  # noqa: S101 - whoever has positions asked for them
    made = [_numbers(column)[triggers].tolist() for column in positions]
    missing = width - len(made)
    if missing:
        made += [[0] * len(triggers) for _ in range(missing - 1)]
        begins = np.searchsorted(triggers, triggers, side="left")
        made.append((np.arange(len(triggers)) - begins).tolist())
    return made


def _numbers(column: Sequence[int]) -> Any:
    if isinstance(column, range):
        return np.arange(column.start, column.stop, column.step)
    return np.asarray(column, np.int64)
