"""Lossless conversion of items to arrays of numbers and back.

A number that is not exactly of the promised type (an int where a float was promised, a
bool, an int out of range) is not converted: `to_arrays` returns None, and the batch
runs in Python.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anabranch.plan.plan import ArrayColumn

Array: TypeAlias = npt.NDArray[Any]

DTYPES = {"float": np.float64, "int": np.int64, "bool": np.bool_}
_HEADER = 5  # header of a marshalled list or tuple: its code and length
_FLOATS = np.dtype([("code", "u1"), ("value", "<f8")])
_INTS = np.dtype([("code", "u1"), ("value", "<i4")])
_TRUE, _FALSE = ord("T"), ord("F")


def to_arrays(
    items: list[Any], columns: Sequence[ArrayColumn], item_type: type | None
) -> list[Array] | None:
    """Return items as one array per attribute; None if one does not fit.

    >>> to_arrays([1.0, -0.0], [ArrayColumn("float", 0, 0)], None)
    [array([ 1., -0.])]
    >>> to_arrays([1.0, 2], [ArrayColumn("float", 0, 0)], None) is None
    True
    """
    if not items:
        return [np.empty(0, DTYPES[column.kind]) for column in columns]
    parts: Sequence[Any] = (items,)
    if item_type is not None:
        if set(map(type, items)) != {item_type}:
            return None
        parts = list(zip(*items, strict=True))
    arrays = []
    for column, values in zip(columns, parts, strict=True):
        array = _to_array(values, column.kind)
        if array is None or not is_within(array, column):
            return None
        arrays.append(array)
    return arrays


def is_within(array: Array, column: ArrayColumn) -> bool:
    """Tell whether ints are within the bounds for which a kernel was made.

    >>> is_within(np.array([5]), ArrayColumn("int", 0, 9))
    True
    """
    if column.kind != "int" or not len(array):
        return True
    return column.low <= int(array.min()) and int(array.max()) <= column.high


def _to_array(values: Any, kind: str) -> Array | None:
    """Return numbers of one exact type as an array.

    Marshal writes a type code before every value, and all values of a type have one
    size. So one pass in C gives the values, and one check of the bytes verifies their
    types.
    """
    try:
        data = marshal.dumps(values, 2)
    except ValueError:  # something other than plain values
        return None
    if kind == "bool":
        codes = np.frombuffer(data, np.uint8, offset=_HEADER)
        true = codes == _TRUE
        whole = len(codes) == len(values) and bool((true | (codes == _FALSE)).all())
        return true if whole else None
    form, code = (_FLOATS, "g") if kind == "float" else (_INTS, "i")
    if len(data) == _HEADER + len(values) * form.itemsize:
        numbers = np.frombuffer(data, form, offset=_HEADER)
        if bool((numbers["code"] == ord(code)).all()):
            return numbers["value"].astype(DTYPES[kind])
    return None if kind == "float" else _large_ints(values)


def _large_ints(values: Any) -> Array | None:
    if set(map(type, values)) != {int}:
        return None
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return None


def to_items(arrays: Sequence[Array], item_type: type | None) -> list[Any]:
    """Return the items in arrays.

    >>> to_items([np.array([1, 2])], None)
    [1, 2]
    """
    if item_type is None:
        return arrays[0].tolist()  # type: ignore[no-any-return]
    rows = zip(*(array.tolist() for array in arrays), strict=True)
    return list(map(tuple.__new__, repeat(item_type), rows))


@dataclass(frozen=True)
class ItemsOf:
    """Makes the items of arrays; equal for equal types."""

    item_type: type | None

    def __call__(self, arrays: Sequence[Array]) -> list[Any]:
        return to_items(arrays, self.item_type)
