"""Runs a unit in columns where possible, from the input table to an output table.

No item becomes an object on the way, unless an operator runs in Python. A batch that a
kernel gives up on is run by the Python program of the unit, or of the segment, on the
same states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.arrow_items import Form, form_of
from anabranch.epochs.layout import EpochLayout, Unit
from anabranch.epochs.wire import MarkedTable, Numbers, WireBatch, end_to_end
from anabranch.errors import OperatorError
from anabranch.graph.graph import Edge, Output
from anabranch.plan.column_kernels import ElementSegment
from anabranch.runtime.codegen import find_punctuated_operators
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.columns.held_state import ColumnBatch
from anabranch.runtime.columns.placed import PlacedBatch, PlacedStreams, place_items
from anabranch.runtime.columns.segmented_element import (
    MakeProgram,
    SegmentedElement,
    Send,
)
from anabranch.runtime.columns.tier import ChainTier, ColumnTier

Ran: TypeAlias = dict[str, tuple[int, int]]  # operator -> in columns, in Python
OnBatch: TypeAlias = Callable[[WireBatch], Iterator[tuple[Edge, WireBatch]]]

_BATCH_ITEMS = 1 << 20  # each has a cost per key and per held window
_PYTHON_ITEMS = 1 << 14
_SEGMENT_ITEMS = 1 << 16  # between two segments, some may be objects


class InColumns:
    """A line of operators with one input and one output stream; `in_python` runs it
    without columns.

    Outputs carry positions of `width` numbers, or none. Items of a `type` leave as a
    table; others leave as objects.
    """

    def __init__(
        self,
        edge: Edge,
        tier: ChainTier,
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
        """The items of the last run in columns and in Python, by operator."""
        return {op.name: self._last for op in self._tier.ops}

    def run(self, stream: WireBatch) -> Iterator[tuple[Edge, WireBatch]]:
        """Yield the outputs of the unit."""
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

        If positions grow, the last number counts the outputs of one item.
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
    """Return a batch as a table of the form, or None if it does not fit."""
    if form.type is not made.type:
        return None
    try:
        arrays = [column.arrow for column in made.columns]
    except UnfitError:
        return None
    kinds = [getattr(array.type, "value_type", array.type) for array in arrays]
    if kinds != form.schema.types:
        return None  # a function returns types other than annotated
    return form.table(arrays)


class InSegments:
    """A unit that runs segment by segment, each in columns or in Python.

    `make` builds the program of a segment, and `in_python` runs the unit without
    columns. If an item fails, `again` runs the epoch from its beginning, item by item:
    it finds the first error and its place.
    """

    def __init__(
        self,
        layout: EpochLayout,
        unit: Unit,
        segments: Sequence[ElementSegment],
        states: Mapping[str, dict[Any, Any]],
        *,
        make: MakeProgram,
        runs: WaysToRun,
    ) -> None:
        graph, choice = layout.graph, layout.choice
        self._layout = layout
        self._unit = unit
        self._marked = find_punctuated_operators(graph)
        self._runs = runs
        self._operators = [
            name for one in segments if one.in_columns for name in one.operators
        ]
        self._exits = [
            edge
            for name in unit.operators
            for edge in graph.out_edges(name)
            if edge in layout.routes
        ]
        self._tier = ColumnTier(
            [choice.columns[name] for name in self._operators],
            lambda: SegmentedElement(
                graph,
                segments,
                choice.columns,
                states,
                form=layout.positions,
                make=make,
                marked=self._marked,
            ),
            choice.when,
        )
        self.ran: Ran = {}

    def run(self, streams: Sequence[WireBatch]) -> Iterator[tuple[Edge, WireBatch]]:
        """Yield the outputs of the unit."""
        self.ran = {}
        left: dict[Edge, list[WireBatch]] = {}
        for part in _cut(streams):
            count, began_s = sum(map(len, part)), perf_counter()
            if self._tier.ready:
                made = self._run_segments(part)
                self._tier.observe_columns(count, perf_counter() - began_s)
            else:
                made = list(self._runs.in_full(part))
                self._note(dict.fromkeys(self._operators, (0, count)))
                self._tier.observe_python(count, perf_counter() - began_s)
            for edge, batch in made:
                if len(batch):
                    left.setdefault(edge, []).append(batch)
        for edge, batches in left.items():
            yield edge, end_to_end(batches)

    def _run_segments(self, part: Sequence[WireBatch]) -> list[tuple[Edge, WireBatch]]:
        element = self._tier.compiled
        assert element is not None  # noqa: S101 - it is ready
        element.ran = {}
        try:
            streams = element.run(self._place(part), self._runs.send)
        except OperatorError:
            list(self._runs.again())
            raise
        self._note(element.ran)
        if element.why_not is not None:
            self._tier.drop(element.why_not)
        return [(edge, self._leave(edge, streams)) for edge in self._exits]

    def _place(self, part: Sequence[WireBatch]) -> PlacedStreams:
        """Return the input streams."""
        streams = PlacedStreams(self._layout.positions, {})
        came = {}
        for entry, batch in zip(self._unit.entries, part, strict=True):
            producer = entry if isinstance(entry, str) else entry.producer.operator
            placed = _place_batch(batch)
            if producer in self._marked:
                placed = placed.set_signs_apart()
            if isinstance(entry, Edge):
                came[entry] = placed
            else:
                streams.made[Output(entry)] = placed
        streams.came = came
        return streams

    def _leave(self, edge: Edge, streams: PlacedStreams) -> WireBatch:
        placed = streams.along(edge)
        kind = self._layout.graph[edge.producer.operator].type
        form = None if kind is None else form_of(kind)
        table, signs = placed.table, placed.signs
        if placed.columns is not None and form is not None:
            table = _table_of(placed.columns, form)
        if table is None:
            placed = placed.put_signs_back()
            batch = WireBatch(placed.positions, form, None, placed.items)
            return self._runs.drop_marks(edge, batch).compact()
        if signs is None or not signs.count:
            return WireBatch(placed.positions, form, table)
        before = placed.find_places(signs)
        places = before + np.arange(signs.count)
        marked = MarkedTable(table, places, signs.items)
        positions = placed.insert_positions(signs, before)
        batch = WireBatch(positions, form, marked=marked)
        return self._runs.drop_marks(edge, batch)

    def _note(self, ran: Ran) -> None:
        for name, (columns, python) in ran.items():
            done, others = self.ran.get(name, (0, 0))
            self.ran[name] = done + columns, others + python


def _place_batch(batch: WireBatch) -> PlacedBatch:
    """Return a batch as segments take it, with its signs apart if columns have them."""
    if batch.marked is None:
        listed = partial(getattr, batch, "items")
        return PlacedBatch(
            batch.positions, len(batch), table=batch.table, list_items=listed
        )
    items, places = batch.drop_signs(), batch.marked.places
    signs = place_items(
        batch.marked.signs, [column[places] for column in batch.positions]
    )
    return PlacedBatch(
        items.positions,
        len(items),
        table=items.table,
        list_items=partial(getattr, items, "items"),
        signs=signs,
    )


class WaysToRun(NamedTuple):
    """How Python runs a unit: completely, the program of a part, or all again.

    `drop_marks` drops signs on the way to a sink.
    """

    in_full: Callable[[Sequence[WireBatch]], Iterator[tuple[Edge, WireBatch]]]
    send: Send
    again: Callable[[], Iterator[tuple[Edge, WireBatch]]]
    drop_marks: Callable[[Edge, WireBatch], WireBatch]


def _cut(streams: Sequence[WireBatch]) -> Iterator[Sequence[WireBatch]]:
    """Cut a stream into parts; several streams stay whole, since they belong
    together.
    """
    if len(streams) > 1:
        if any(map(len, streams)):
            yield streams
        return
    (stream,) = streams
    for start in range(0, len(stream), _SEGMENT_ITEMS):
        yield [stream.slice(start, min(len(stream), start + _SEGMENT_ITEMS))]
