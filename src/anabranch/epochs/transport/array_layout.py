"""NumPy arrays that lie in memory as they did where they came from.

NumPy pickles a column of a table, or every third element, as an array without gaps. Its
elements are the same, but NumPy and BLAS add them up in another order or with other
instructions, so a sum or a product may differ in the last bit from that of one thread.
What decides is which axis is the innermost, whether its elements are neighbours, which
axes can be gone through as one, and their directions. An array with gaps is therefore
sent without them, and laid out with small ones where it arrives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from anabranch.epochs.transport.stable_names import name_function


def reduce_array(array: NDArray[Any]) -> Any:
    """Return the reduction of an array with gaps; NumPy's own for other arrays."""
    flags = array.flags
    if flags.c_contiguous or flags.f_contiguous or array.dtype.hasobject:
        return NotImplemented
    strides = compact_strides(array)
    values = np.ascontiguousarray(_without_copies(array, strides))
    return _array_of, (values, array.shape, strides, flags.writeable)


def compact_strides(array: NDArray[Any]) -> tuple[int, ...]:
    """Return strides with which an array takes little memory, yet is read alike.

    >>> table = np.zeros((100, 50))
    >>> table.strides, compact_strides(table[:, 3]), compact_strides(table[:, :2])
    ((400, 8), (16,), (24, 8))
    >>> compact_strides(table[::-1].T), compact_strides(np.broadcast_to(table, (2, 100, 50)))
    ((8, -400), (0, 400, 8))
    """
    size = array.dtype.itemsize
    found = [0] * array.ndim
    shape, strides = array.shape, array.strides
    axes = [n for n in reversed(range(array.ndim)) if shape[n] > 1 and strides[n]]
    joined, needed = size, size
    for axis in sorted(axes, key=lambda axis: abs(strides[axis])):
        given, length = strides[axis], shape[axis]
        step = needed if abs(given) == joined else needed + size
        found[axis] = step if given > 0 else -step
        joined, needed = abs(given) * length, step * length
    return tuple(found)


@name_function("array")
def _array_of(
    values: NDArray[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    writeable: bool,
) -> NDArray[Any]:
    """Return an array with these values and strides."""
    reach = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    before = -sum(step for step in reach if step < 0)
    after = sum(step for step in reach if step > 0)
    size = values.dtype.itemsize
    memory = np.zeros((before + after) // size + 1, values.dtype)
    array = as_strided(memory[before // size :], shape, strides)
    _without_copies(array, strides)[...] = values
    if not writeable:
        array.flags.writeable = False
    return array


def _without_copies(array: NDArray[Any], strides: tuple[int, ...]) -> NDArray[Any]:
    """Return an array with one element along each axis that repeats its elements."""
    one, all_of = slice(0, 1), slice(None)
    return array[tuple(all_of if step else one for step in strides)]
