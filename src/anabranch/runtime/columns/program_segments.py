"""Runs the batches of a program segment by segment.

Items carry their number in the batch in front of their positions. So inner streams are
in the order of a single thread, and a failing item is identified: work that a single
thread would not have done any more is left out, and the first failure counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.graph.graph import Edge, Graph, Output, ancestors
from anabranch.plan.column_kernels import ColumnKernel, ElementSegment
from anabranch.runtime.codegen import Entry
from anabranch.runtime.columns.fork_order import ForkOrder
from anabranch.runtime.columns.placed import (
    Place,
    PlacedBatch,
    PlacedStreams,
    column_of,
    place_items,
)
from anabranch.runtime.columns.segmented_element import SegmentedElement
from anabranch.runtime.compiled.part import AtWork, note_batch
from anabranch.runtime.positions import Positions, positions_inside, shift_positions
from anabranch.runtime.program import Columns, Exit, Program, StatesOf


class _FailedItem(NamedTuple):
    """A failed item; it entered a segment at `place`, through the operator `first`."""

    place: Place
    first: str
    operator: str
    error: Exception


FEWEST = 64  # cheap items: for fewer, starting the kernels costs more than it gains


class ProgramSegments:
    """The segments of a program; `make` builds the program of some operators.

    Not thread-safe; the program that owns it is its only caller.
    """

    fewest = FEWEST

    def __init__(
        self,
        graph: Graph,
        segments: Sequence[ElementSegment],
        entries: Sequence[Entry],
        kernels: Mapping[str, ColumnKernel],
        states: StatesOf,
        *,
        make: Callable[..., Program],
        positions: Positions | None,
        describe: Callable[[int | None], str],
        marked: frozenset[str],
    ) -> None:
        """Compile; raise `CompilationError` if Numba cannot."""
        self._graph = graph
        self._entries = entries
        self._positions = positions
        self._describe = describe
        self._marked = marked
        inner = [name for one in segments for name in one.operators]
        self._alike = positions is None or _is_flat(positions)
        if self._alike or positions is None:
            self._form = positions_inside(graph, inner, entries)
        else:
            self._form = shift_positions(positions)
        self._forks = ForkOrder(graph, self._form)
        self.element = SegmentedElement(
            graph,
            segments,
            kernels,
            states,
            form=self._form,
            make=lambda operators, inputs: make(
                operators, inputs, self._form, self._describe_here
            ),
            marked=marked,
        )
        self._given = note_batch([], None, None)
        self._streams = PlacedStreams(self._form, {})
        self._at_work: tuple[AtWork, Sequence[int]] | None = None
        self._failed: _FailedItem | None = None

    @property
    def why_not(self) -> str | None:
        """Why it should no longer be used, or None."""
        return self.element.why_not

    @property
    def programs(self) -> list[Program]:
        """The programs that a thread may be in."""
        return [one.program for one in self.element.in_python.values()]

    def take_counts(self) -> dict[str, tuple[int, int]]:
        """Return, by operator, the items run in columns and in Python since the last
        call.
        """
        counts, self.element.ran = self.element.ran, {}
        return counts

    def run(
        self,
        items: Any,
        positions: Columns | None,
        entries: Sequence[int] | None,
        exits: Mapping[Edge, Exit],
    ) -> None:
        """Run a batch and put its outputs into `exits`."""
        self._given = given = note_batch(items, positions, entries)
        listed = list(given.copy_items())
        self._failed = None
        self._streams = self._place(listed, positions, entries)
        streams = self.element.run(self._streams, self._send)
        for edge, left in exits.items():
            self._leave(streams.along(edge).put_signs_back(), left, positions)
        if self._failed is not None:
            given.point_at(int(self._failed.place[0]))
            raise self._failed.error

    def _place(
        self,
        items: list[Any],
        positions: Columns | None,
        entries: Sequence[int] | None,
    ) -> PlacedStreams:
        """Return the streams on which items enter."""
        came: dict[Edge, PlacedBatch] = {}
        made: dict[Output, PlacedBatch] = {}
        ports = None if entries is None else np.asarray(entries)
        for number, entry in enumerate(self._entries):
            producer = entry if isinstance(entry, str) else entry.producer.operator
            width = self._form.after[producer]
            if isinstance(entry, Edge):
                width = self._form.on(entry)
            turns = self._form.turns.get(producer, ())
            rows = np.arange(len(items))
            chosen = items
            if ports is not None:
                rows = np.flatnonzero(ports == number)
                chosen = [items[row] for row in rows.tolist()]
            columns = [rows]
            for place in range(1, width):
                assert positions is not None  # noqa: S101 - only then is it so wide
                own = positions[place - 1]
                if ports is not None:  # at this place another stream may have turns
                    own = [own[row] for row in rows.tolist()]
                columns.append(column_of(own, turns=place in turns))
            batch = place_items(chosen, columns)
            if producer in self._marked:
                batch = batch.set_signs_apart()
            if isinstance(entry, Edge):
                came[entry] = batch
            else:
                made[Output(entry)] = batch
        return PlacedStreams(self._form, came, made)

    def _send(
        self,
        program: Program,
        items: list[Any],
        positions: Columns,
        entries: list[int] | None,
    ) -> None:
        left = iter(items)
        at_work = AtWork(left, len(items))
        self._at_work = at_work, positions[0]
        try:
            program.run(left, positions, entries)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - raised once what came before is done
            entry = program.entries[0 if entries is None else entries[at_work.index]]
            assert isinstance(entry, Edge)  # noqa: S101 - see PythonSegment
            width = self._form.on(entry)  # others may have more numbers
            place = tuple(column[at_work.index] for column in positions[:width])
            operator = getattr(error, "operator", None) or min(program.operators)
            first = entry.consumer.operator
            self._note_failure(_FailedItem(place, first, operator, error))
        finally:
            self._at_work = None

    def _note_failure(self, failed: _FailedItem) -> None:
        """Keep the first failure, and leave out what comes after it."""
        if self._failed is not None and not self._is_before(failed, self._failed):
            return
        self._failed = failed

        def find_end(edge: Edge) -> Place:
            width = self._find_shared_width(failed.operator, edge.producer.operator)
            return failed.place[:width]

        self._streams.find_end = find_end

    def _is_before(self, failed: _FailedItem, known: _FailedItem) -> bool:
        """Tell whether a single thread reaches a failure before one of an earlier
        segment.
        """
        width = self._find_shared_width(known.operator, failed.operator)
        ends = [failed.place[:width], known.place[:width]]
        shorter = min(map(len, ends))
        own, other = (place[:shorter] for place in ends)
        if own != other:
            return own < other
        # Outputs that a segment gave for an item precede its failure there.
        if known.first in ancestors(self._graph, failed.operator):
            return True
        return self._forks.is_before(failed.operator, known.operator)

    def _find_shared_width(self, one: str, other: str) -> int | None:
        """Return how many numbers order the items of two operators; None: all.

        Positions of branches that never meet agree up to the fork, where the number of
        the branch follows if any of them meet.
        """
        graph = self._graph
        if self._alike or one in {other, *ancestors(graph, other)}:
            return None
        if other in ancestors(graph, one):
            return self._form.after[other]
        return self._forks.find_width(one, other)

    def _leave(self, batch: PlacedBatch, left: Exit, positions: Columns | None) -> None:
        left.items.extend(batch.items)
        if not left.positions:
            return
        if self._alike:
            assert positions is not None  # noqa: S101 - as there are columns for them
            rows = batch.positions[0].tolist()
            columns = [[column[row] for row in rows] for column in positions]
        else:
            columns = [column.tolist() for column in batch.positions[1:]]
        for column, numbers in zip(left.positions, columns, strict=True):
            column.extend(numbers)

    def _describe_here(self, _: int | None) -> str:
        """Return the location of the current item, by its number in the batch."""
        known, positions = None, self._given.positions or []
        if self._at_work is not None:
            at_work, numbers = self._at_work
            index = int(numbers[at_work.index])
            self._given.point_at(index)
            if len(positions) >= min(2, len(self._graph.sources)):
                known = positions[0][index]
        return self._describe(known)


def _is_flat(form: Positions) -> bool:
    """Tell whether all positions have one number, that of the input item."""
    widths = {*form.inside.values(), *form.after.values()}
    return widths == {1} and not form.branch
