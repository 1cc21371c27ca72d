"""Sorts items by slot, the index of their key, so that those of a key are together.

Slots are few and dense: each item has its place as soon as the items of every slot are
counted. NumPy sorts them eight times as slowly.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from anabranch.runtime.columns.column import Numpy
from anabranch.runtime.compiled.build import CompilationError, Fire, compile_functions

_TEXT = """\
from numba import njit


@njit
def place(slots, ends, order):
    for item in range(len(slots)):
        slot = slots[item]
        order[ends[slot]] = item
        ends[slot] += 1
"""
_FEWEST = 4096  # items: sorting fewer takes no time
_NARROW = 1 << 16


@cache
def prepare_sorting() -> Fire | None:
    """Return the compiled loop, or None where Numba cannot compile it."""
    try:
        (place,) = compile_functions(
            _TEXT,
            {"place": "void(Array(int64, 1, 'C', readonly=True), i8[::1], i8[::1])"},
        )
    except CompilationError:
        return None
    return place


def sort_slots(slots: Numpy, firsts: Numpy) -> Numpy:
    """Return the indices that sort items by slot, in order of occurrence.

    `firsts` has the number of items in earlier slots.

    >>> sort_slots(np.array([1, 0, 1, 0, 0]), np.array([0, 3])).tolist()
    [1, 3, 4, 0, 2]
    """
    place = prepare_sorting() if len(slots) >= _FEWEST else None
    if place is None:
        if len(firsts) <= _NARROW:
            slots = slots.astype(np.uint16)  # NumPy sorts those by counting
        return np.argsort(slots, kind="stable")
    order = np.empty(len(slots), np.int64)
    place(slots, firsts.astype(np.int64), order)
    return order
