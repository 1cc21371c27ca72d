"""States as arrays and back: what a kernel of a scan reads and writes.

The states themselves stay where the interpreter has them, one Python value for each
key, so that either way of running an operator goes on where the other stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.plan.column_kernels import COLUMN_KINDS, ColumnKind, ColumnShape
from anabranch.runtime.columns.column import DTYPES, Numpy, StringPool, UnfitError

_TYPES: dict[ColumnKind, type] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "none": type(None),
}
_KINDS = {python: kind for kind, python in _TYPES.items()}


def to_arrays(
    values: Sequence[Any], shape: ColumnShape, pool: StringPool
) -> list[Numpy]:
    """Return states as arrays; refuse any that is not of the shape.

    >>> shape = ColumnShape(parts=(ColumnShape(("float",)), ColumnShape(("int", "none"))))
    >>> [a.tolist() for a in to_arrays([(0.5, 7), (1.5, None)], shape, StringPool())]
    [[0.5, 1.5], [0, 4], [7, 0]]
    """
    found = set(map(type, values))
    if shape.parts is not None:
        if found - {shape.type or tuple}:
            msg = "a state has another type"
            raise UnfitError(msg)
        if set(map(len, values)) - {len(shape.parts)}:
            msg = "a state has another length"
            raise UnfitError(msg)
        arrays = []
        for number, part in enumerate(shape.parts):
            arrays += to_arrays([value[number] for value in values], part, pool)
        return arrays
    if found - {_TYPES[kind] for kind in shape.kinds}:
        msg = "a state has another type"
        raise UnfitError(msg)
    if shape.kinds == ("none",):
        return []
    if len(shape.kinds) == 1:
        return [_array(values, shape.kinds[0], pool)]
    tags = [COLUMN_KINDS.index(_KINDS[type(value)]) for value in values]
    arrays = [np.array(tags, np.int64)]
    for kind in shape.arrays[1:]:
        of = _TYPES[kind]
        zero = "" if kind == "str" else of()
        plain = [value if type(value) is of else zero for value in values]
        arrays.append(_array(plain, kind, pool))
    return arrays


def _array(values: Sequence[Any], kind: ColumnKind, pool: StringPool) -> Numpy:
    if kind == "str":
        return np.array([pool.add(value) for value in values], np.int64)
    try:
        return np.array(values, DTYPES[kind])
    except OverflowError as error:
        raise UnfitError(str(error)) from error


def from_arrays(
    arrays: Iterator[Numpy], shape: ColumnShape, count: int, pool: StringPool
) -> list[Any]:
    """Return the states that arrays hold.

    >>> shape = ColumnShape(("int", "none"))
    >>> from_arrays(iter([np.array([0, 4]), np.array([7, 0])]), shape, 2, StringPool())
    [7, None]
    """
    if shape.parts is not None:
        columns = [from_arrays(arrays, part, count, pool) for part in shape.parts]
        if not columns:
            return [() if shape.type is None else shape.type()] * count
        rows = zip(*columns, strict=True)
        if shape.type is None:
            return list(rows)
        return [tuple.__new__(shape.type, row) for row in rows]
    if shape.kinds == ("none",):
        return [None] * count
    if len(shape.kinds) == 1:
        return _values(next(arrays), shape.kinds[0], pool)
    tags = next(arrays).tolist()
    columns_of = {kind: _values(next(arrays), kind, pool) for kind in shape.arrays[1:]}
    columns_of["none"] = [None] * count
    return [columns_of[COLUMN_KINDS[tag]][n] for n, tag in enumerate(tags)]


def _values(array: Numpy, kind: ColumnKind, pool: StringPool) -> list[Any]:
    found: list[Any] = array.tolist()
    return [pool.strings[code] for code in found] if kind == "str" else found
