"""NumPy arrays and views of dicts that see in a copy, too, what they share.

What is written into an array is seen in all arrays that overlap it. So arrays of a state
that overlap are sent as places in one block of memory, which goes from the lowest of them to
the highest: not all that they were cut out of. An array that overlaps no other is sent
alone.
"""

from __future__ import annotations

import array
import ctypes
import gc
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.epochs.transport.stable_names import name_function
from anabranch.errors import EngineError

Array: TypeAlias = NDArray[Any]

_ALIGNED: Final = 64  # bytes; how elements are added may depend on where they begin
_HOLDERS: Final = (bytearray, array.array)
_MAKERS: Final[Mapping[type, tuple[str, Callable[[Any], Any]]]] = {
    type(make(kind())): (f"{kind.__name__}.{name}", make)
    for kind in (dict, OrderedDict)
    for name in ("keys", "values", "items")
    for make in (getattr(kind, name),)
} | {MappingProxyType: ("proxy", MappingProxyType)}
VIEWS: Final = tuple(_MAKERS)
_MAKER_OF: Final = dict(_MAKERS.values())


def reduce_view(view: Any) -> Any:
    """Return the reduction of a view of a dict, as one of that dict."""
    name, _ = _MAKERS[type(view)]
    (mapping,) = gc.get_referents(view)
    return view_of, (name, mapping)


@name_function("view")
def view_of(name: str, mapping: Any) -> Any:
    """Return a view of a dict."""
    return _MAKER_OF[name](mapping)


class _Block:
    """The memory of arrays that overlap; it is pickled once, as an array of bytes."""

    def __init__(self, low: int, high: int) -> None:
        self.start = low - low % _ALIGNED
        self._low, self._high = low, high

    def __reduce__(self) -> Any:
        data = ctypes.string_at(self._low, self._high - self._low)
        return block_of, (self._low - self.start, data)


class _Memory(NamedTuple):
    """Memory that several share: addresses, what is pickled, and where that begins."""

    low: int
    high: int
    holder: Any
    start: int


class SharedMemory:
    """The memory that arrays of one value share; keeps them alive, where they are."""

    def __init__(self, arrays: Sequence[Array], memories: Sequence[_Memory]) -> None:
        self._arrays = arrays
        self._memories = sorted(memories, key=lambda memory: memory.low)
        self._lows = [memory.low for memory in self._memories]

    def reduce(self, array: Array) -> Any:
        """Return the reduction of an array to a place in memory; None if it has none."""
        if not array.size:
            return None
        low, high = _bounds_of(array)
        place = bisect_right(self._lows, low) - 1
        if place < 0 or high > self._memories[place].high:
            return None
        if type(array) is not np.ndarray or array.dtype.hasobject:
            kind = type(array).__name__
            msg = (
                f"arrays of a state that share memory must be plain arrays of numbers; "
                f"one is of type {kind} with elements of type {array.dtype}; keep one "
                f"of them, and slice it where it is used"
            )
            raise EngineError(msg)
        memory = self._memories[place]
        where = _address_of(array) - memory.start
        seen = array.dtype, array.shape, array.strides, array.flags.writeable
        return array_in, (memory.holder, where, seen)


def find_shared_memory(
    arrays: Sequence[Array], list_pickled: Callable[[], Container[int]]
) -> SharedMemory | None:
    """Return the memory that arrays share with each other, or with a bytearray.

    `list_pickled` gives the ids of all that is pickled with them.

    >>> ring = np.zeros(1000)
    >>> find_shared_memory([ring[5:]], dict) is None
    True
    >>> find_shared_memory([ring[:2], ring[2:]], dict) is None
    True
    >>> find_shared_memory([ring[:2], ring[1:]], dict) is None
    False
    """
    if all(one.base is None for one in arrays):
        return None
    memories = _find_holders(arrays, list_pickled)
    found = sorted((_bounds_of(one) for one in arrays if one.size), reverse=True)
    while found:
        low, high = found.pop()
        count = 1
        while found and found[-1][0] < high:
            high = max(high, found.pop()[1])
            count += 1
        if count > 1 and not any(m.low <= low and high <= m.high for m in memories):
            block = _Block(low, high)
            memories.append(_Memory(low, high, block, block.start))
    return SharedMemory(arrays, memories) if memories else None


def _find_holders(
    arrays: Sequence[Array], list_pickled: Callable[[], Container[int]]
) -> list[_Memory]:
    """Return the memory of what is pickled itself, and has arrays in it."""
    holders = {id(one): one for one in map(_holder_of, arrays)}
    held = [one for one in holders.values() if isinstance(one, _HOLDERS)]
    pickled = list_pickled() if held else ()
    memories = []
    for one in held:
        if len(one) and id(one) in pickled:
            low, high = _bounds_of(np.frombuffer(one, np.uint8))
            memories.append(_Memory(low, high, one, low))
    return memories


def _holder_of(array: Array) -> Any:
    """Return what owns the memory of an array, if that is no array."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base


def _bounds_of(array: Array) -> tuple[int, int]:
    """Return the addresses of an array's first byte, and of that behind its last."""
    steps = zip(array.shape, array.strides, strict=True)
    reach = [(length - 1) * step for length, step in steps]
    start = _address_of(array)
    low = start + sum(step for step in reach if step < 0)
    high = start + sum(step for step in reach if step > 0) + array.itemsize
    return low, high


def _address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


@name_function("block")
def block_of(before: int, data: bytes) -> Array:
    """Return memory with data so many bytes behind an aligned address."""
    memory = np.zeros(before + len(data) + _ALIGNED, np.uint8)
    first = -_address_of(memory) % _ALIGNED
    block = memory[first : first + before + len(data)]
    block[before:] = np.frombuffer(data, np.uint8)
    return block


@name_function("array_in")
def array_in(holder: Any, where: int, seen: tuple[Any, ...]) -> Array:
    """Return an array in memory that others share."""
    dtype, shape, strides, writeable = seen
    made: Array = np.ndarray(shape, dtype, holder, where, strides)
    if not writeable:
        made.flags.writeable = False
    return made
