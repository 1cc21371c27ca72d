"""Conversion of states to arrays and back, for the kernel of a scan.

The states themselves stay with the interpreter, one Python value per key, so that
either way of running an operator continues where the other stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anabranch.plan.column_kernels import ColumnShape
from anabranch.runtime.columns.column import (
    Numpy,
    Pools,
    UnfitError,
    from_scalar_arrays,
    to_scalar_arrays,
)


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
    return [tuple.__new__(shape.type, row) for row in rows]
