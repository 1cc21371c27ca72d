"""Partial aggregation before an unkeyed window, where it changes no bit.

See `operators/window_parts.py` for how parts are combined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.arrow_items import values_of
from anabranch.epochs.wire import Numbers, WireBatch
from anabranch.operators.getters import attribute_getter
from anabranch.operators.window_parts import WindowPart, find_span
from anabranch.operators.windows import Aggregate, Column
from anabranch.runtime.columns.placed import arrow_column

WORTH = 2  # items per part, at least, for parts to be made
_ORDERED = ({int}, {float}, {str})  # types with a total order
_LARGEST = (1 << 63) - 1
_COUNTED = {int, str, bool, bytes, type(None)}

Bounds: TypeAlias = Sequence[tuple[int, int]]


class NotExactError(Exception):
    """Values cannot be added without changing a bit of the result."""


class PartMaker:
    """Makes partial aggregates of the items that go to a window."""

    def __init__(self, kind: Aggregate) -> None:
        self._on: str = kind.window.on or ""
        self._span = find_span(kind.window)
        self._columns = [column for _, column in kind.columns]

    def make(self, batch: WireBatch) -> WireBatch:
        """Return a batch with partial aggregates in place of its items, or
        unchanged.
        """
        try:
            starts, parts = self._make(_Values(batch))
        except Exception:  # noqa: BLE001 - the window reports it, item by item
            return batch
        if len(parts) * WORTH > len(batch):
            return batch
        positions = [column[np.array(starts)] for column in batch.positions]
        return WireBatch(positions, None, None, parts)

    def _make(self, values: _Values) -> tuple[list[int], list[WindowPart]]:
        """Return the indices where parts begin, and the parts."""
        times = values.find_numbers(self._on)
        if times is None:
            listed = values.list_all(self._on)
            _check(set(map(type, listed)) == {int})
            times = np.array(listed, np.int64)
        _check(times.dtype == np.int64)
        cuts = np.flatnonzero(np.diff(times // self._span)) + 1
        starts = [0, *cuts.tolist()]
        bounds = list(pairwise([*starts, len(times)]))
        columns = [_part_values(column, values, bounds) for column in self._columns]
        firsts = zip(values.take(starts), times[starts].tolist(), strict=True)
        return starts, [
            WindowPart(end - start, first, time, tuple(each))
            for (start, end), (first, time), *each in zip(
                bounds, firsts, *columns, strict=True
            )
        ]


class _Values:
    """The attributes of the items of a batch: arrays of numbers, or lists."""

    def __init__(self, batch: WireBatch) -> None:
        self._batch = batch
        self._table = batch.as_table()

    def find_numbers(self, name: str) -> Numbers | None:
        """Return an attribute as an array if all its values are 64-bit numbers."""
        if self._table is None:
            return None
        column = self._table.column(name)
        plain = column.type in (pa.int64(), pa.float64()) and not column.null_count
        if not plain or not len(column):
            return None
        return np.asarray(np.from_dlpack(column.combine_chunks()))

    def list_all(self, name: str) -> list[Any]:
        """Return an attribute of all items."""
        if self._table is not None:
            return values_of(self._table.column(name))
        return list(map(attribute_getter(name), self._batch.items))

    def pick(self, name: str, places: list[int]) -> list[Any]:
        """Return an attribute of the items at some indices."""
        if self._table is not None:
            return values_of(
                self._table.column(name).take(arrow_column(_array(places)))
            )
        return list(map(attribute_getter(name), self.take(places)))

    def take(self, places: list[int]) -> list[Any]:
        """Return the items at some indices."""
        return self._batch.take(_array(places)).items


def _array(places: Sequence[int]) -> Numbers:
    return np.array(places, np.int64)


def _check(holds: bool) -> None:
    if not holds:
        raise NotExactError


def _part_values(column: Column, values: _Values, bounds: Bounds) -> list[Any]:
    """Return a column's value for each part."""
    name = column.attribute
    if name is None:
        return [None] * len(bounds)
    match column.function:
        case "sum" | "mean":
            return _sum_parts(values, name, bounds)
        case "min" | "max" | "highest" | "lowest" as function:
            least = function in ("min", "lowest")
            with_items = function in ("highest", "lowest")
            return _find_best(values, name, bounds, least=least, with_items=with_items)
        case "counts":
            listed = values.list_all(name)
            _check(set(map(type, listed)) <= _COUNTED)
            return [dict(Counter(listed[a:b])) for a, b in bounds]
    at_end = column.function == "last"
    places = [b - 1 if at_end else a for a, b in bounds]  # any, first, last
    return values.pick(name, places)


def _sum_parts(values: _Values, name: str, bounds: Bounds) -> list[Any]:
    """Return the sum of each part, with the ints that it is the sum of."""
    numbers = values.find_numbers(name)
    if numbers is None:
        listed = values.list_all(name)
        _check(set(map(type, listed)) == {int})
        numbers = np.array(listed, np.int64)  # or they are too large
    _check(numbers.dtype == np.int64)
    largest = max(b - a for a, b in bounds)
    far = max(abs(int(numbers.min())), abs(int(numbers.max())))
    if far * largest <= _LARGEST:
        sums = np.add.reduceat(numbers, [a for a, _ in bounds]).tolist()
    else:
        sums = [sum(numbers[a:b].tolist()) for a, b in bounds]
    pairs = zip(sums, bounds, strict=True)
    return [(total, numbers[a:b].tobytes()) for total, (a, b) in pairs]


def _find_best(
    values: _Values, name: str, bounds: Bounds, *, least: bool, with_items: bool
) -> list[Any]:
    """Return the extreme value of each part; `with_items`, also the items that have
    it.
    """
    numbers = values.find_numbers(name)
    if numbers is not None and not _has_doubt(numbers):
        starts = [a for a, _ in bounds]
        best = (np.minimum if least else np.maximum).reduceat(numbers, starts)
        found: list[Any] = best.tolist()
        places: list[int] = []
        if with_items:
            alike = numbers == np.repeat(best, [b - a for a, b in bounds])
            places = np.flatnonzero(alike).tolist()
    else:
        listed = values.list_all(name)
        types = set(map(type, listed))
        _check(types in _ORDERED)
        _check(float not in types or not np.isnan(listed).any())
        choose = min if least else max
        found = [choose(listed[a:b]) for a, b in bounds]
        places = [
            at
            for (a, b), one in zip(bounds, found, strict=True)
            for at in range(a, b)
            if with_items and listed[at] == one
        ]
    if not with_items:
        return found
    cuts = np.searchsorted(places, [a for a, _ in bounds]).tolist()
    items, ends = values.take(places), [*cuts[1:], len(places)]
    return [(one, items[a:b]) for one, a, b in zip(found, cuts, ends, strict=True)]


def _has_doubt(numbers: Numbers) -> bool:
    """Tell whether numbers have an extreme value that depends on their order.

    Zeros may differ in their sign, and NaN is less than nothing.
    """
    zeros_or_nan = (numbers == 0) | (numbers != numbers)  # noqa: PLR0124 - NaN is not itself
    return numbers.dtype == np.float64 and bool(zeros_or_nan.any())
