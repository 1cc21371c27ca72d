"""Runs a unit in columns where it can be, from the table that came in to one that leaves.

No item becomes an object on the way. A batch that a kernel gives up on is run by the
Python program of the unit, on the same states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TypeAlias

import numpy as np

from anabranch.connectors.files.arrow_items import form_of, to_items
from anabranch.epochs.wire import Numbers, WireBatch, end_to_end
from anabranch.errors import OperatorError
from anabranch.graph.graph import Edge
from anabranch.runtime.columns.chain import ColumnBatch
from anabranch.runtime.columns.tier import ColumnTier

Ran: TypeAlias = dict[str, tuple[int, int]]  # operator -> in columns, in Python
OnBatch: TypeAlias = Callable[[WireBatch], Iterator[tuple[Edge, WireBatch]]]

_BATCH_ITEMS = 1 << 20  # each costs something for every key, and for what windows hold
_PYTHON_ITEMS = 1 << 14
_SEGMENT_ITEMS = 1 << 16  # between two segments, some of them may be objects


class InColumns:
    """Operators in a line with one stream in and one out; `in_python` runs it without columns.

    With `positions`, outputs carry the positions of the items that they come of. Others
    know how the columns of a `typed` stream lie; any other leaves as items.
    """

    def __init__(
        self,
        edge: Edge,
        tier: ColumnTier,
        in_python: OnBatch,
        *,
        positions: bool,
        typed: bool,
    ) -> None:
        self._edge = edge
        self._tier = tier
        self._in_python = in_python
        self._positions = positions
        self._typed = typed
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
            ready = self._tier.ready and stream.as_table() is not None
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
        assert part.table is not None  # noqa: S101
        made = self._tier.run(part.table)
        if made is None:
            return None
        positions = self._places(part, made) if self._positions else []
        form = form_of(made.type)
        assert form is not None  # noqa: S101 - the compiler has made sure
        arrays = [column.arrow for column in made.columns]
        table = form.table(arrays)
        if self._typed:
            return WireBatch(positions, form, table)
        return WireBatch(positions, None, None, to_items(table, form))

    def _places(self, part: WireBatch, made: ColumnBatch) -> list[Numbers]:
        if made.rows is None:
            return part.positions
        rows = np.asarray(made.rows, np.int64)
        return [column[rows] for column in part.positions]


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
