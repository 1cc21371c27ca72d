"""Batches of items with positions, and the streams of an element that hold them.

Several operators may read a batch, as columns or as objects; each form is made once, on
demand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.graph.graph import Edge, Output
from anabranch.operators.clock import is_sign
from anabranch.plan.column_kernels import ColumnShape
from anabranch.runtime.columns.chain import batch_of_items, batch_of_table
from anabranch.runtime.columns.column import Numpy, Pools
from anabranch.runtime.columns.held_state import ColumnBatch
from anabranch.runtime.positions import Positions, turn_of

Place: TypeAlias = tuple[Any, ...]  # a position: numbers, and turns

_SPARSE = 4  # times as many numbers as there are items


class PlacedBatch:
    """Items of one stream in order, with columns of positions.

    They are `columns`, a `table`, or objects returned by `list_items`. On a stream with
    punctuations or a clock these `signs` are kept apart from columns.
    """

    def __init__(
        self,
        positions: Sequence[Numpy],
        count: int,
        *,
        columns: ColumnBatch | None = None,
        table: pa.Table | None = None,
        list_items: Callable[[], list[Any]] | None = None,
        signs: PlacedBatch | None = None,
    ) -> None:
        self.positions = list(positions)
        self.count = count
        self.columns = columns
        self.table = table
        self._list_items = list_items
        self.signs = signs
        self._items: list[Any] | None = None
        self._by_shape: dict[ColumnShape, ColumnBatch] = {}

    @property
    def items(self) -> list[Any]:
        """The items as objects, without signs that are kept apart."""
        if self._items is None:
            if self.columns is not None:
                self._items = self.columns.items()
            else:
                assert self._list_items is not None  # noqa: S101 - one of them is there
                self._items = self._list_items()
        return self._items

    def with_positions(self, positions: Sequence[Numpy]) -> PlacedBatch:
        """Return the same items at other positions."""
        made = PlacedBatch(
            positions,
            self.count,
            columns=self.columns,
            table=self.table,
            list_items=lambda: self.items,
            signs=self.signs,
        )
        made._items, made._by_shape = self._items, self._by_shape
        return made

    def to_columns(self, shape: ColumnShape, pools: Pools) -> ColumnBatch:
        """Return the items in columns; raise `UnfitError` if they do not fit."""
        if self.columns is not None and self.columns.shape == shape:
            return self.columns
        made = self._by_shape.get(shape)
        if made is None:
            if self.table is not None:
                made = batch_of_table(self.table, shape, pools)
            else:
                made = batch_of_items(self.items, shape, pools)
            self._by_shape[shape] = made
        return made

    def take(self, rows: Numpy) -> PlacedBatch:
        """Return the items at some indices."""
        positions = [column[rows] for column in self.positions]
        if self.columns is not None:
            columns = self.columns.take(rows)
            return PlacedBatch(positions, len(rows), columns=columns, signs=self.signs)
        items = self.items
        return place_items([items[row] for row in rows.tolist()], positions)

    def before(self, end: Place) -> PlacedBatch:
        """Return the items before a position."""
        kept = np.ones(self.count, bool)
        for number, column in reversed(list(zip(end, self.positions, strict=False))):
            kept = (column < number) | ((column == number) & kept)
        signs = None if self.signs is None else self.signs.before(end)
        if kept.all() and signs is self.signs:
            return self
        made = self if kept.all() else self.take(np.flatnonzero(kept))
        made = made.with_positions(made.positions)
        made.signs = signs
        return made

    def set_signs_apart(self) -> PlacedBatch:
        """Return a batch whose signs are separate, so that its items can be columns."""
        if self.columns is not None or self.table is not None:
            return self
        places = [i for i, item in enumerate(self.items) if is_sign(item)]
        if not places:
            return self
        rows = np.array(places, np.int64)
        made = self.take(np.setdiff1d(np.arange(self.count), rows))
        made.signs = self.take(rows)
        return made

    def put_signs_back(self) -> PlacedBatch:
        """Return a batch with its signs among its items."""
        if self.signs is None or not self.signs.count:
            return self
        signs = self.signs
        places, rows = self.find_places(signs), np.arange(self.count)
        order = np.insert(rows, places, np.arange(signs.count) + self.count)
        items = [*self.items, *signs.items]
        listed = [items[row] for row in order.tolist()]
        return place_items(listed, self.insert_positions(signs, places))

    def find_places(self, signs: PlacedBatch) -> Numpy:
        """Return the number of items before each of the signs."""
        firsts = self.positions[0]
        low = np.searchsorted(firsts, signs.positions[0], "left")
        high = np.searchsorted(firsts, signs.positions[0], "right")
        if (high - low > 1).any():
            return _count_before(self.positions, signs.positions)
        alike = np.flatnonzero(high > low)
        before = np.ones(len(alike), bool)  # an item, on a tie
        for own, other in zip(
            self.positions[:0:-1], signs.positions[:0:-1], strict=True
        ):
            left, right = own[low[alike]], other[alike]
            before = (left < right) | ((left == right) & before)
        low[alike] += before
        return low

    def insert_positions(self, signs: PlacedBatch, places: Numpy) -> list[Numpy]:
        """Return the positions of items, with those of signs inserted."""
        pairs = zip(self.positions, signs.positions, strict=True)
        return [np.insert(own, places, others) for own, others in pairs]


def _count_before(positions: Sequence[Numpy], others: Sequence[Numpy]) -> Numpy:
    """Return the number of positions before each of others, both sorted."""
    count = len(positions[0])
    joined = [np.concatenate(pair) for pair in zip(positions, others, strict=True)]
    is_other = np.arange(len(joined[0])) >= count
    order = sort_positions([*joined, is_other.astype(np.int64)])
    return np.asarray(np.cumsum(~is_other[order])[is_other[order]])


def place_items(items: list[Any], positions: Sequence[Numpy]) -> PlacedBatch:
    """Return objects as a batch."""
    return PlacedBatch(positions, len(items), list_items=lambda: items)


def pad_positions(
    positions: Sequence[Numpy], count: int, width: int, turns: Collection[int] = ()
) -> list[Numpy]:
    """Pad positions to a width with zeros, or with turns that come first.

    >>> [c.tolist() for c in pad_positions([np.array([7, 8])], 2, 2)]
    [[7, 8], [0, 0]]
    """
    made = list(positions)
    for place in range(width):
        if place >= len(made):
            made.append(np.zeros(count, np.int64))
        if place in turns:
            made[place] = column_of(made[place].tolist(), turns=True)
    return made


def column_of(numbers: Sequence[Any], *, turns: bool) -> Numpy:
    """Return a column of positions as an array; one that may have `turns` is of
    bytes.
    """
    if not turns:
        return np.array(numbers, np.int64)
    made = np.empty(len(numbers), object)
    made[:] = [*map(turn_of, numbers)]
    return made


def join_batches(
    batches: Sequence[PlacedBatch], shape: ColumnShape, pools: Pools
) -> PlacedBatch:
    """Merge several streams by position; ties go to the first stream."""
    columns = [batch.to_columns(shape, pools) for batch in batches]
    whole = columns[0]
    for one in columns[1:]:
        whole = whole.join(one)
    positions = [
        np.concatenate(column)
        for column in zip(*(batch.positions for batch in batches), strict=True)
    ]
    streams = np.repeat(np.arange(len(batches)), [batch.count for batch in batches])
    order = sort_positions([*positions, streams])
    taken = ColumnBatch(shape, whole.columns, whole.count, listed=whole.listed)
    return PlacedBatch(positions, whole.count, columns=taken).take(order)


def sort_positions(positions: Sequence[Numpy]) -> Numpy:
    """Return the indices that sort positions.

    Single numbers that are dense are placed directly.

    >>> turns = np.array([b"b", b"", b"a"], object)
    >>> sort_positions([np.array([7, 7, 7]), turns]).tolist()
    [1, 2, 0]
    """
    if any(column.dtype == object for column in positions):
        return _sort_turns(positions)
    numbers = positions[0]
    if len(positions) > 1 or not len(numbers):
        return np.lexsort(positions[::-1])
    first = int(numbers.min())
    span = int(numbers.max()) - first + 1
    if span > _SPARSE * len(numbers):
        return np.argsort(numbers, kind="stable")
    places = np.full(span, -1, np.int64)
    places[numbers - first] = np.arange(len(numbers))
    order = places if span == len(numbers) else places[places >= 0]
    if len(order) != len(numbers) or (span == len(numbers) and order.min() < 0):
        return np.argsort(numbers, kind="stable")  # some are equal
    return order


def _sort_turns(positions: Sequence[Numpy]) -> Numpy:
    columns = {str(n): arrow_column(column) for n, column in enumerate(positions)}
    ascending = [(name, "ascending") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=ascending)
    return np.asarray(np.from_dlpack(order), np.int64)


def arrow_column(numbers: Numpy) -> pa.Array:
    """Return a column of positions as an Arrow array; `pa.array` would import
    pandas.
    """
    if numbers.dtype == object:
        return pa.array(numbers.tolist(), pa.binary())
    data = pa.py_buffer(np.ascontiguousarray(numbers, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, data])


@dataclass
class PlacedStreams:
    """The streams of an element while a batch passes through it.

    Input streams are identified by their edge, the others by their output; each branch
    of a fan-out that meets another appends its number.
    """

    form: Positions
    came: dict[Edge, PlacedBatch]
    made: dict[Output, PlacedBatch] = field(default_factory=dict)
    find_end: Callable[[Edge], Place] | None = None  # later items are left out

    def along(self, edge: Edge) -> PlacedBatch:
        """Return the items on a stream."""
        batch = self.came.get(edge)
        if batch is None:
            batch = self._find_branch(edge)
        return batch if self.find_end is None else batch.before(self.find_end(edge))

    def _find_branch(self, edge: Edge) -> PlacedBatch:
        batch = self.made.get(edge.producer)
        if batch is None:
            width = self.form.after[edge.producer.operator]
            batch = place_items([], [np.zeros(0, np.int64)] * width)
        branch = self.form.branch.get(edge)
        if branch is None:
            return batch
        signs = batch.signs
        made = batch.with_positions(_append(batch, branch))
        if signs is not None:
            made.signs = signs.with_positions(_append(signs, branch))
        return made


def _append(batch: PlacedBatch, number: int) -> list[Numpy]:
    return [*batch.positions, np.full(batch.count, number)]
