"""Runs a unit in columns where it can be, from the table that came in to one that leaves.

No item becomes an object on the way. A batch that a kernel gives up on is run by the
Python program of the unit, on the same states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.arrow_items import Form, form_of
from anabranch.epochs.wire import Numbers, WireBatch, end_to_end
from anabranch.errors import OperatorError
from anabranch.graph.graph import Edge
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.columns.held_state import ColumnBatch
from anabranch.runtime.columns.tier import ColumnTier

Ran: TypeAlias = dict[str, tuple[int, int]]  # operator -> in columns, in Python
OnBatch: TypeAlias = Callable[[WireBatch], Iterator[tuple[Edge, WireBatch]]]

_BATCH_ITEMS = 1 << 20  # each costs something for every key, and for what windows hold
_PYTHON_ITEMS = 1 << 14
_SEGMENT_ITEMS = 1 << 16  # between two segments, some of them may be objects


class InColumns:
    """Operators in a line with one stream in and one out; `in_python` runs it without columns.

    Outputs carry positions of so many numbers, the `width`, or none. Others know how the
    columns of a stream of items of a `type` lie; any other leaves as items.
    """

    def __init__(
        self,
        edge: Edge,
        tier: ColumnTier,
        in_python: OnBatch,
        *,
        width: int | None,
        type: Any,
    ) -> None:
        self._edge = edge
        self._tier = tier
        self._in_python = in_python
        self._width = width
        self._form = None if type is None else form_of(type)
        self._last = 0, 0

    @property
    def ran(self) -> Ran:
        """The items of the last run that went in columns, and in Python, by operator."""
        return {op.name: self._last for op in self._tier.ops}

    def run(self, stream: WireBatch) -> Iterator[tuple[Edge, WireBatch]]:
        """Return what leaves the unit."""
        batches: list[WireBatch] = []
        before, start = self._tier.done, 0
        while start < len(stream):
            ready = self._tier.ready
            end = min(len(stream), start + (_BATCH_ITEMS if ready else _PYTHON_ITEMS))
            part = stream.slice(start, end)
            start = end
            made = self._run_columns(part) if ready else None
            if made is not None:
                batches.append(made)
                continue
            began_s = perf_counter()
            batches += [batch for _, batch in self._in_python(part)]
            self._tier.observe_python(len(part), perf_counter() - began_s)
        done = self._tier.done - before
        self._last = done, len(stream) - done
        if batches:
            yield self._edge, end_to_end(batches)

    def _run_columns(self, part: WireBatch) -> WireBatch | None:
        made = self._tier.run(part.items if part.table is None else part.table)
        if made is None:
            return None
        positions = [] if self._width is None else self._places(part, made, self._width)
        form = self._form
        table = None if form is None else _table_of(made, form)
        if table is None:
            return WireBatch(positions, form, None, made.items())
        return WireBatch(positions, form, table)

    def _places(self, part: WireBatch, made: ColumnBatch, width: int) -> list[Numbers]:
        """Return the positions of outputs: those of their items, and then a number.

        Where positions get longer, the outputs of one item are counted by the last.
        """
        if made.rows is None:
            places = list(part.positions)
            rows = np.arange(made.count)
        else:
            rows = np.asarray(made.rows, np.int64)
            places = [column[rows] for column in part.positions]
        for missing in range(width - len(places), 0, -1):
            number = np.zeros(len(rows), np.int64)
            if missing == 1:
                number = np.arange(len(rows)) - np.searchsorted(rows, rows)
            places.append(number)
        return places


def _table_of(made: ColumnBatch, form: Form) -> pa.Table | None:
    """Return a batch as others know its columns, None if they would not."""
    if form.type is not made.type:
        return None
    try:
        arrays = [column.arrow for column in made.columns]
    except UnfitError:
        return None
    kinds = [getattr(array.type, "value_type", array.type) for array in arrays]
    if kinds != form.schema.types:
        return None  # a function gives other types than it is annotated with
    return form.table(arrays)


class InSegments:
    """Operators in a line that run segment by segment, each in columns or in Python.

    If an item fails, `in_full` runs the epoch from its beginning, item by item: it finds
    the first error there is, with its place.
    """

    def __init__(
        self,
        edge: Edge,
        segments: Sequence[InColumns | OnBatch],
        in_full: Callable[[], Iterator[tuple[Edge, WireBatch]]],
    ) -> None:
        self._edge = edge
        self._segments = segments
        self._in_full = in_full
        self.ran: Ran = {}

    def run(self, stream: WireBatch) -> Iterator[tuple[Edge, WireBatch]]:
        """Return what leaves the unit."""
        self.ran = {}
        batches = []
        try:
            for start in range(0, len(stream), _SEGMENT_ITEMS):
                end = min(len(stream), start + _SEGMENT_ITEMS)
                made = self._run_part(stream.slice(start, end))
                if made is not None and len(made):
                    batches.append(made)
        except OperatorError:
            list(self._in_full())
            raise
        if batches:
            yield self._edge, end_to_end(batches)

    def _run_part(self, part: WireBatch) -> WireBatch | None:
        for segment in self._segments:
            if isinstance(segment, InColumns):
                made = [batch for _, batch in segment.run(part) if len(batch)]
                self._note(segment.ran)
            else:
                made = [batch for _, batch in segment(part) if len(batch)]
            if not made:
                return None
            part = end_to_end(made)
        return part

    def _note(self, ran: Ran) -> None:
        for name, (columns, python) in ran.items():
            done, others = self.ran.get(name, (0, 0))
            self.ran[name] = done + columns, others + python
