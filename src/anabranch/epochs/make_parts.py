"""Partial aggregation before an unkeyed window, where it changes no bit.

See `operators/window_parts.py` for how parts are combined.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from anabranch.connectors.files.arrow_items import values_of
from anabranch.epochs.wire import WireBatch
from anabranch.operators.getters import attribute_getter
from anabranch.operators.window_parts import WindowPart, find_span
from anabranch.operators.windows import Aggregate, Column

WORTH = 2  # items per part, at least, for parts to be made
_ORDERED = ({int}, {float}, {str})  # types with a total order
_COUNTED = {int, str, bool, bytes, type(None)}

Bounds: TypeAlias = Sequence[tuple[int, int]]
ListValues: TypeAlias = Callable[[str], list[Any]]  # an attribute of all items
Take: TypeAlias = Callable[[list[int]], list[Any]]  # the items at some indices


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
        table = batch.as_table()

        def list_values(name: str) -> list[Any]:
            if table is not None:
                return values_of(table.column(name))
            return list(map(attribute_getter(name), batch.items))

        def take(places: list[int]) -> list[Any]:
            return batch.take(np.array(places, np.int64)).items

        try:
            starts, parts = self._make(list_values, take)
        except Exception:  # noqa: BLE001 - whoever takes the items one by one tells
            return batch
        if len(parts) * WORTH > len(batch):
            return batch
        positions = [column[np.array(starts)] for column in batch.positions]
        return WireBatch(positions, None, None, list(parts))

    def _make(
        self, list_values: ListValues, take: Take
    ) -> tuple[list[int], list[WindowPart]]:
        """Return the indices where parts begin, and the parts."""
        times = list_values(self._on)
        _check(set(map(type, times)) == {int})
        spans = np.array(times, np.int64) // self._span
        starts = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist()]
        bounds = list(pairwise([*starts, len(times)]))
        columns = [
            _part_values(column, list_values, bounds, take) for column in self._columns
        ]
        return starts, [
            WindowPart(end - start, first, times[start], tuple(each))
            for (start, end), first, *each in zip(
                bounds, take(starts), *columns, strict=True
            )
        ]


def _check(holds: bool) -> None:
    if not holds:
        raise NotExactError


def _part_values(
    column: Column, list_values: ListValues, bounds: Bounds, take: Take
) -> list[Any]:
    """Return a column's value for each part."""
    if column.attribute is None:
        return [None] * len(bounds)
    values = list_values(column.attribute)
    types = set(map(type, values))
    match column.function:
        case "sum" | "mean":
            _check(types == {int})
            packed = array("q", values)
            return [(sum(packed[a:b]), packed[a:b].tobytes()) for a, b in bounds]
        case "min" | "max" | "highest" | "lowest" as name:
            _check(types in _ORDERED)
            _check(float not in types or not np.isnan(values).any())
            best = min if name in ("min", "lowest") else max
            found = [best(values[a:b]) for a, b in bounds]
            with_items = name in ("highest", "lowest")
            return _add_items(values, bounds, found, take) if with_items else found
        case "counts":
            _check(types <= _COUNTED)
            return [dict(Counter(values[a:b])) for a, b in bounds]
    at_end = column.function == "last"
    return [values[b - 1 if at_end else a] for a, b in bounds]  # any, first, last


def _add_items(
    values: list[Any], bounds: Bounds, found: list[Any], take: Take
) -> list[Any]:
    """Return the extreme value of each part, with the items that have it."""
    places = [
        [at for at in range(a, b) if values[at] == best]
        for (a, b), best in zip(bounds, found, strict=True)
    ]
    items = iter(take([at for some in places for at in some]))
    return [
        (best, [next(items) for _ in some])
        for best, some in zip(found, places, strict=True)
    ]
