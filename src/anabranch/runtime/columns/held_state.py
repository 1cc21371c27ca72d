"""Operator states held in columns by kernels from batch to batch.

States are stored, moved and shown as the interpreter has them: one Python value per
key. Making these for every batch costs more than the kernels themselves, so kernels
keep states as columns until something else needs them (`LentStates`). An epoch stores
their changes without making items.

The kernel of a scan converts states to arrays and back, so that either way of running an operator continues where the other stopped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from anabranch.plan.column_kernels import ColumnShape
from anabranch.runtime.columns.column import (
    PYTHON_TYPES,
    BatchColumn,
    Numpy,
    Pools,
    UnfitError,
    from_scalar_arrays,
    to_scalar_arrays,
)
from anabranch.runtime.columns.windows import WindowPlan
from anabranch.runtime.state import PLAIN_TYPES, HeldColumn, HeldItems, LentStates


def to_arrays(values: Sequence[Any], shape: ColumnShape, pools: Pools) -> list[Numpy]:
    """Return states as arrays; refuse those of another shape.

    >>> shape = ColumnShape(parts=(ColumnShape(("float",)), ColumnShape(("int", "none"))))
    >>> [a.tolist() for a in to_arrays([(0.5, 7), (1.5, None)], shape, Pools())]
    [[0.5, 1.5], [0, 9], [7, 0]]
    """
    if shape.parts is None:
        return to_scalar_arrays(values, shape, pools)
    arrays = []
    for part, column in zip(shape.parts, transpose(values, shape), strict=True):
        arrays += to_arrays(column, part, pools)
    return arrays


def transpose(values: Sequence[Any], shape: ColumnShape) -> list[Sequence[Any]]:
    """Return tuples of a shape as columns; refuse another type or length."""
    assert shape.parts is not None  # noqa: S101 - it is a tuple
    if set(map(type, values)) - {shape.type or tuple}:
        msg = "a value has another type"
        raise UnfitError(msg)
    if set(map(len, values)) - {len(shape.parts)}:
        msg = "a tuple has another length"
        raise UnfitError(msg)
    if not values:
        return [()] * len(shape.parts)
    return list(zip(*values, strict=True))


def from_arrays(
    arrays: Iterator[Numpy], shape: ColumnShape, count: int, pools: Pools
) -> list[Any]:
    """Return the states in arrays.

    >>> import numpy as np
    >>> shape = ColumnShape(("int", "none"))
    >>> from_arrays(iter([np.array([0, 9]), np.array([7, 0])]), shape, 2, Pools())
    [7, None]
    """
    if shape.parts is None:
        own = [next(arrays) for _ in shape.arrays]
        return from_scalar_arrays(own, shape, count, pools)
    columns = [from_arrays(arrays, part, count, pools) for part in shape.parts]
    return join_columns(columns, shape, count)


def join_columns(
    columns: Sequence[Sequence[Any]], shape: ColumnShape, count: int
) -> list[Any]:
    """Return tuples of a shape, built from columns."""
    rows = zip(*columns, strict=True) if columns else [()] * count
    if shape.type is None:
        return list(rows)
    return list(map(tuple.__new__, itertools.repeat(shape.type), rows))


_HELD_KEYS = 1 << 16  # held for longer than a batch needs them
_NO_NUMBERS: Numpy = np.zeros(0, np.int64)
_NO_MARKS: Numpy = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class ColumnBatch:
    """Items in columns, with their indices among the input items.

    `shape` is that of the items, which have a column for each scalar. `rows` is None if
    each item corresponds to itself. `listed` are the items themselves, if they came as
    objects and are only selected.
    """

    shape: ColumnShape
    columns: tuple[BatchColumn, ...]
    count: int
    rows: Numpy | None = None
    listed: Sequence[Any] | None = None

    @property
    def type(self) -> Any:
        """The type of the items; None for a plain tuple, or one of several."""
        if self.shape.parts is not None or len(self.shape.kinds) > 1:
            return self.shape.type
        return PYTHON_TYPES.get(self.shape.kinds[0])

    def table(self) -> pa.Table:
        """Return the columns as a table; the items contain no tuples."""
        arrays = [column.arrow for column in self.columns]
        names = getattr(self.shape.type, "_fields", ("value",))
        return pa.Table.from_arrays(arrays, names=list(names))

    def take(self, rows: Numpy) -> ColumnBatch:
        """Return the items at some indices."""
        columns = tuple(column.take(rows) for column in self.columns)
        before = rows if self.rows is None else self.rows[rows]
        listed = None
        if self.listed is not None:
            listed = list(map(self.listed.__getitem__, rows.tolist()))
        return ColumnBatch(self.shape, columns, len(rows), before, listed)

    def in_arrays(self) -> ColumnBatch:
        """Return the items without objects, where that is possible."""
        columns = tuple(column.in_arrays() for column in self.columns)
        return replace(self, columns=columns, listed=None)

    def join(self, other: ColumnBatch) -> ColumnBatch:
        """Concatenate with items of the same shape."""
        pairs = zip(self.columns, other.columns, strict=True)
        columns = tuple(before.join(after) for before, after in pairs)
        listed = None
        if self.listed is not None and other.listed is not None:
            listed = [*self.listed, *other.listed]
        return ColumnBatch(self.shape, columns, self.count + other.count, listed=listed)

    def items(self) -> list[Any]:
        """Return the items as objects."""
        if self.listed is not None:
            return list(self.listed)
        return _join_items(iter(self.columns), self.shape, self.count)


def _join_items(
    columns: Iterator[BatchColumn], shape: ColumnShape, count: int
) -> list[Any]:
    if shape.parts is None:
        return next(columns).list_values()
    parts = [_join_items(columns, part, count) for part in shape.parts]
    return join_columns(parts, shape, count)


@dataclass
class HeldKeys:
    """The keys whose states are held, with their indices."""

    pools: Pools
    keys: list[Any] = field(default_factory=list)
    _places: dict[Any, int] = field(default_factory=dict)
    _there: Numpy = field(default_factory=lambda: _NO_MARKS)  # has a state
    _changed: Numpy = field(default_factory=lambda: _NO_MARKS)  # since it was stored

    def place(self, keys: Sequence[Any]) -> tuple[Numpy, list[Any]]:
        """Return the indices of keys, and the new keys, which come last."""
        places = [self._places.get(key, -1) for key in keys]
        new = [key for key, place in zip(keys, places, strict=True) if place < 0]
        numbers = np.array(places, np.int64)
        numbers[numbers < 0] = np.arange(len(self.keys), len(self.keys) + len(new))
        return numbers, new

    def is_too_large_for(self, items: int, more: int = 0) -> bool:
        """Tell whether too few items arrive to justify a pass over the held states.

        `more` keys would have to be held with them.
        """
        return len(self.keys) + more > max(4 * items, _HELD_KEYS)

    def take_over(self, states: LentStates, new: list[Any], changed: Numpy) -> None:
        """Hold the states of new keys as well; mark some as changed."""
        for key in new:
            dict.pop(states, key, None)
        self._places.update(zip(new, itertools.count(len(self.keys))))
        self.keys += new
        more = np.zeros(len(new), np.bool_)
        self._there = np.concatenate([self._there, more])
        self._changed = np.concatenate([self._changed, more])
        self._there[changed] = self._changed[changed] = True
        states.holder = self  # type: ignore[assignment]

    def take_changed(self) -> list[int]:
        """Return and clear the indices of changed states."""
        found: list[int] = np.flatnonzero(self._changed).tolist()
        self._changed[:] = False
        return found


@dataclass
class HeldScan(HeldKeys):
    """The states of a scan: arrays with a number per key."""

    arrays: list[Numpy] = field(default_factory=list)
    shape: ColumnShape | None = None

    def _values(self) -> list[Any]:
        assert self.shape is not None  # noqa: S101 - it holds something
        return from_arrays(iter(self.arrays), self.shape, len(self.keys), self.pools)

    def put_back(self, states: dict[Any, Any]) -> None:
        """Turn the held values into states for the interpreter."""
        for key, value, there in zip(
            self.keys, self._values(), self._there.tolist(), strict=True
        ):
            if there:
                states.setdefault(key, [value])

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys with states changed since the last call."""
        values = self._values()
        for place in self.take_changed():
            yield self.keys[place], [values[place]]


@dataclass
class HeldWindows(HeldKeys):
    """The contents of keyed windows: the items of each key in turn.

    With a `plan` of windows, `rests` has the other parts of each key's state.
    """

    counts: Numpy = field(default_factory=lambda: _NO_NUMBERS)
    batch: ColumnBatch | None = None
    plan: WindowPlan | None = None
    rests: list[Any] = field(default_factory=list)

    def put_back(self, states: dict[Any, Any]) -> None:
        """Turn the held contents into states for the interpreter."""
        assert self.batch is not None  # noqa: S101 - it holds something
        items, ends = self.batch.items(), np.cumsum(self.counts).tolist()
        for place, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            state = self._state_of(place, items[start:end])
            states.setdefault(self.keys[place], state)

    def _state_of(self, place: int, items: list[Any]) -> Any:
        if self.plan is None:
            return items
        return self.plan.restore(items, self.rests[place])

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys with states changed since the last call."""
        assert self.batch is not None  # noqa: S101 - as above
        shape, ends = self.batch.shape, np.cumsum(self.counts).tolist()
        if not shape.is_flat_record or self.plan is not None:
            items = self.batch.items()
            for place in self.take_changed():
                end = ends[place]
                own = items[end - int(self.counts[place]) : end]
                yield self.keys[place], self._state_of(place, own)
            return
        columns = [HeldRanges(column) for column in self.batch.columns]
        plain = all(column.plain for column in columns)
        for place in self.take_changed():
            end = ends[place]
            start = end - int(self.counts[place])
            cut = tuple(column.cut(start, end) for column in columns)
            yield self.keys[place], HeldItems(shape.type, cut, plain)


class HeldRanges:
    """A held column from which the ranges of keys are cut."""

    def __init__(self, column: BatchColumn) -> None:
        self._listed: list[Any] = []
        self._bytes = b""
        self._form, self.plain = "listed", True
        self._changes: list[int] | None = None
        kinds = column.shape.kinds
        if kinds in (("int",), ("float",)) and not column.is_listed:
            self._form = "q" if kinds == ("int",) else "d"
            (numbers,) = column.arrays
            self._bytes = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
            return
        if kinds == ("str",) and not column.is_listed:
            words, codes = column.encode()
            self._listed = list(map(words.__getitem__, codes.tolist()))
            # The number of word changes so far: a range has one word if it is equal at
            # both ends.
            self._changes = [0, *np.cumsum(codes[1:] != codes[:-1]).tolist()]
            return
        self._listed = column.list_values()
        self.plain = set(map(type, self._listed)) <= PLAIN_TYPES

    def cut(self, start: int, end: int) -> HeldColumn:
        """Return the values of a range."""
        count = end - start
        if self._form != "listed":
            return HeldColumn(self._form, self._bytes[8 * start : 8 * end], count)
        changes = self._changes
        if count and changes is not None and changes[start] == changes[end - 1]:
            return HeldColumn("same", self._listed[start], count)
        return HeldColumn("listed", tuple(self._listed[start:end]), count)


Held = TypeVar("Held", HeldScan, HeldWindows)
