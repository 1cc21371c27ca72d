"""A column of a batch: Arrow array, NumPy arrays or Python values, made on demand.

Coded values (strings, bytes, Enum members) are numbers in pools. Times are integers. A
scalar of several kinds has an array of tags.

Nothing here makes Arrow import pandas, as `pa.array` and `to_numpy` do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.plan.column_kernels import (
    CODED,
    COLUMN_KINDS,
    TIMES,
    ColumnKind,
    ColumnShape,
    count_time,
    restore_time,
)

Numpy = npt.NDArray[Any]

DTYPES: dict[ColumnKind, Any] = {
    **dict.fromkeys(COLUMN_KINDS, np.int64),
    "float": np.float64,
    "bool": np.bool_,
}
_ARROW: dict[ColumnKind, Any] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
}
_NONE = COLUMN_KINDS.index("none")


PYTHON_TYPES: dict[ColumnKind, type] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "bytes": bytes,
    "datetime": dt.datetime,
    "date": dt.date,
    "timedelta": dt.timedelta,
    "none": type(None),
}


class UnfitError(Exception):
    """A batch does not fit the kernels; Python runs it."""


def types_of(shape: ColumnShape) -> dict[type, ColumnKind]:
    """Return the types that a scalar's values may have, with their kinds.

    >>> types_of(ColumnShape(("int", "none")))
    {<class 'int'>: 'int', <class 'NoneType'>: 'none'}
    """
    return {
        shape.type if kind == "enum" else PYTHON_TYPES[kind]: kind
        for kind in shape.kinds
    }


class StringPool:
    """The strings, or other coded values, that kernels have met, with their numbers.

    `depths[n]` is 0 for a string of the data; for a computed string it is one more than
    that of its input.

    >>> pool = StringPool()
    >>> pool.add("a"), pool.add("b"), pool.add("a")
    (0, 1, 0)
    """

    def __init__(self) -> None:
        self.strings: list[Any] = []
        self.depths: list[int] = []
        self._codes: dict[Any, int] = {}
        self._array: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.strings)

    def add(self, string: Any, depth: int = 0) -> int:
        """Return the number of a string, adding it if it is new."""
        code = self._codes.get(string)
        if code is None:
            code = self._codes[string] = len(self.strings)
            self.strings.append(string)
            self.depths.append(depth)
        elif depth < self.depths[code]:
            self.depths[code] = depth
        return code

    def array(self, kind: ColumnKind) -> pa.Array:
        """Return all strings as an array."""
        if self._array is None or len(self._array) != len(self.strings):
            self._array = texts_array(self.strings, kind)
        return self._array


class Pools:
    """The pools of a chain, one per kind of coded values."""

    def __init__(self) -> None:
        self._pools = {kind: StringPool() for kind in CODED}

    def __getitem__(self, kind: ColumnKind) -> StringPool:
        return self._pools[kind]

    def __len__(self) -> int:
        return sum(map(len, self._pools.values()))


def texts_array(texts: Sequence[Any], kind: ColumnKind = "str") -> pa.Array:
    """Return strings as an Arrow array."""
    try:
        encoded = [text.encode() for text in texts] if kind == "str" else list(texts)
    except UnicodeEncodeError as error:
        raise UnfitError(str(error)) from error
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(one) for one in encoded], out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        msg = "the strings are too long"
        raise UnfitError(msg)
    buffers = [
        None,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(b"".join(encoded)),
    ]
    return pa.Array.from_buffers(_ARROW[kind], len(encoded), buffers)


def numbers_array(numbers: Numpy, kind: ColumnKind) -> pa.Array:
    """Return a NumPy array as an Arrow array."""
    if kind == "bool":
        bits = np.packbits(numbers, bitorder="little")
        return pa.Array.from_buffers(
            pa.bool_(), len(numbers), [None, pa.py_buffer(bits)]
        )
    data = pa.py_buffer(np.ascontiguousarray(numbers, DTYPES[kind]))
    return pa.Array.from_buffers(_ARROW[kind], len(numbers), [None, data])


def to_numbers(values: Sequence[Any], kind: ColumnKind, pools: Pools) -> Numpy:
    """Return values of one kind as numbers; refuse those beyond 64 bits."""
    if kind in CODED:
        pool = pools[kind]
        codes = {value: pool.add(value) for value in dict.fromkeys(values)}
        return np.array(list(map(codes.__getitem__, values)), np.int64)
    if kind == "datetime" and any(v.tzinfo is not None or v.fold for v in values):
        msg = "a datetime has a zone, or is the second of its hour"
        raise UnfitError(msg)
    if kind in TIMES:
        values = list(map(count_time, values))
    try:
        return np.array(values, DTYPES[kind])
    except OverflowError as error:
        raise UnfitError(str(error)) from error


def to_values(numbers: Numpy, kind: ColumnKind, pools: Pools) -> list[Any]:
    """Return the values that numbers stand for."""
    found: list[Any] = numbers.tolist()
    if kind in CODED:
        return list(map(pools[kind].strings.__getitem__, found))
    if kind in TIMES:
        return [restore_time(number, kind) for number in found]
    return found


def check_types(values: Sequence[Any], shape: ColumnShape) -> dict[type, ColumnKind]:
    """Return the types that values may have; refuse values of others."""
    allowed = types_of(shape)
    if set(map(type, values)) - allowed.keys():
        msg = "a value has another type"
        raise UnfitError(msg)
    return allowed


def to_scalar_arrays(
    values: Sequence[Any], shape: ColumnShape, pools: Pools
) -> list[Numpy]:
    """Return values as a scalar's arrays; refuse those of another type.

    >>> shape = ColumnShape(("int", "none"))
    >>> [a.tolist() for a in to_scalar_arrays([7, None], shape, Pools())]
    [[0, 9], [7, 0]]
    """
    allowed = check_types(values, shape)
    if len(shape.kinds) == 1:
        if shape.kinds == ("none",):
            return []
        return [to_numbers(values, shape.kinds[0], pools)]
    kinds = [allowed[type(value)] for value in values]
    tags = np.array([COLUMN_KINDS.index(kind) for kind in kinds], np.int64)
    arrays = [tags]
    for kind in shape.arrays[1:]:
        rows = np.flatnonzero(tags == COLUMN_KINDS.index(kind))
        array = np.zeros(len(values), DTYPES[kind])
        array[rows] = to_numbers([values[row] for row in rows.tolist()], kind, pools)
        arrays.append(array)
    return arrays


def from_scalar_arrays(
    arrays: Sequence[Numpy], shape: ColumnShape, count: int, pools: Pools
) -> list[Any]:
    """Return the values in a scalar's arrays."""
    if shape.kinds == ("none",):
        return [None] * count
    if len(shape.kinds) == 1:
        return to_values(arrays[0], shape.kinds[0], pools)
    made: Numpy = np.empty(count, object)
    for kind, array in zip(shape.arrays[1:], arrays[1:], strict=True):
        rows = np.flatnonzero(arrays[0] == COLUMN_KINDS.index(kind))
        made[rows] = _objects(to_values(array[rows], kind, pools))
    return list(made)


def _objects(values: list[Any]) -> Numpy:
    made: Numpy = np.empty(len(values), object)
    made[:] = values
    return made


class BatchColumn:
    """One scalar of a batch's items."""

    def __init__(
        self,
        shape: ColumnShape,
        pools: Pools,
        *,
        arrow: pa.Array | None = None,
        arrays: list[Numpy] | None = None,
        listed: Sequence[Any] | None = None,
    ) -> None:
        """Take the values as one array or as those of their shape.

        Values that are `listed` may be of any type, as long as they are only passed on.
        """
        self.shape = shape
        self._pools = pools
        self._arrow = arrow
        self._arrays = arrays
        self._listed = listed
        self._encoded: tuple[list[Any], Numpy] | None = None
        self._is_in_order = True  # the words of `_encoded` occur, in their order

    def __len__(self) -> int:
        for found in (self._arrow, *(self._arrays or ())[:1], self._listed):
            if found is not None:
                return len(found)
        return 0

    @property
    def kind(self) -> ColumnKind | None:
        """Its kind besides None, if it is unique."""
        kinds = [kind for kind in self.shape.kinds if kind != "none"]
        return kinds[0] if len(kinds) == 1 else None

    @property
    def is_listed(self) -> bool:
        """Whether the values are objects, of any type."""
        return self._listed is not None

    @property
    def arrow(self) -> pa.Array:
        """The values as an Arrow array."""
        if self._arrow is None:
            if self.kind not in _ARROW:
                msg = "values have no column of Arrow"
                raise UnfitError(msg)
            if self._listed is not None and self.shape.kinds in (("str",), ("bytes",)):
                check_types(self._listed, self.shape)
                self._arrow = texts_array(self._listed, self.kind)
                return self._arrow
            *tags, numbers = self.arrays
            if self.kind in CODED:
                codes = numbers_array(numbers, "int")
                made = self._pools[self.kind].array(self.kind)
                missing = tags and (tags[0] == _NONE).any() and not len(made)
                made = pa.nulls(len(codes), made.type) if missing else made.take(codes)
            else:
                made = numbers_array(numbers, self.kind)
            if tags:
                made = _with_nulls(made, tags[0] == _NONE)
            self._arrow = made
        return self._arrow

    @property
    def arrays(self) -> list[Numpy]:
        """The values, or their codes, as NumPy arrays."""
        if self._arrays is None:
            if self._listed is not None:
                self._arrays = to_scalar_arrays(self._listed, self.shape, self._pools)
            else:
                self._arrays = self._arrays_of_arrow()
        return self._arrays

    def _arrays_of_arrow(self) -> list[Numpy]:
        array, kind = self._arrow, self.kind
        assert array is not None and kind is not None  # noqa: PT018, S101
        if len(self.shape.kinds) == 1:
            if array.null_count:
                msg = "there are values missing"
                raise UnfitError(msg)
            return [self._numbers_of(array, kind)]
        there = _is_there(array)
        tags = np.where(there, COLUMN_KINDS.index(kind), _NONE).astype(np.int64)
        if array.null_count:
            numbers = np.zeros(len(array), DTYPES[kind])
            numbers[there] = self._numbers_of(array.drop_null(), kind)
        else:
            numbers = self._numbers_of(array, kind)
        return [tags, numbers]

    def _numbers_of(self, array: pa.Array, kind: ColumnKind) -> Numpy:
        if kind in CODED:
            known = self._encoded if array is self._arrow else _encode(array)
            words, codes = known or self.encode()
            pool = self._pools[kind]
            numbers = np.array([pool.add(word) for word in words], np.int64)
            return numbers[codes] if len(numbers) else codes
        if kind == "bool":
            return _bits(array.buffers()[1], array.offset, len(array))
        return np.from_dlpack(array)

    def encode(self) -> tuple[list[Any], Numpy]:
        """Return the distinct values in order of occurrence, and their indices.

        For each item, the index of its value among the distinct ones.
        """
        if self._encoded is not None:
            if not self._is_in_order:
                self._encoded = encode_in_order(*self._encoded)
                self._is_in_order = True
            return self._encoded
        if self._arrow is not None and self.kind in ("int", "str", "bytes"):
            if self._arrow.null_count and "none" not in self.shape.kinds:
                msg = "there are values missing"
                raise UnfitError(msg)
            self._encoded = _encode(self._arrow)
        else:
            if self._listed is not None:
                check_types(self._listed, self.shape)
            values = self.list_values()
            places = {word: n for n, word in enumerate(dict.fromkeys(values))}
            found = np.array(list(map(places.__getitem__, values)), np.int64)
            self._encoded = list(places), found
        return self._encoded

    def list_values(self) -> list[Any]:
        """Return the values as Python objects; repeated strings share one object."""
        if self._listed is not None:
            return list(self._listed)
        if self._arrow is not None and self.kind in ("str", "bytes"):
            words, codes = _encode(self._arrow)
            found: list[Any] = _objects(words)[codes].tolist()
            return found
        return from_scalar_arrays(self.arrays, self.shape, len(self), self._pools)

    def join(self, other: BatchColumn) -> BatchColumn:
        """Concatenate with values of the same shape."""
        if self._listed is not None and other._listed is not None:
            listed = [*self._listed, *other._listed]
            return BatchColumn(self.shape, self._pools, listed=listed)
        if other._arrays is None and self.kind in _ARROW:
            first, then = self.arrow, other.arrow
            if then.type != first.type:  # one of them has string codes
                first, then = (
                    one.cast(getattr(one.type, "value_type", one.type))
                    for one in (first, then)
                )
            arrow = pa.concat_arrays([first, then])
            return BatchColumn(self.shape, self._pools, arrow=arrow)
        arrays = self.join_arrays(other)
        return BatchColumn(self.shape, self._pools, arrays=arrays)

    def join_arrays(self, other: BatchColumn) -> list[Numpy]:
        """Return `arrays` of both, one behind the other; codes are those of one pool."""
        pairs = zip(self.arrays, other.arrays, strict=True)
        return [np.concatenate(pair) for pair in pairs]

    def in_arrays(self) -> BatchColumn:
        """Return the values without objects, unless their types forbid it."""
        if self._listed is None:
            return self
        try:
            return BatchColumn(self.shape, self._pools, arrays=self.arrays)
        except UnfitError:
            return self

    def take(self, rows: Numpy) -> BatchColumn:
        """Return the values at some indices."""
        if self._listed is not None:
            listed = list(map(self._listed.__getitem__, rows.tolist()))
            made = BatchColumn(self.shape, self._pools, listed=listed)
            if self._arrays is not None:
                made._arrays = [array[rows] for array in self._arrays]
        elif self._arrays is not None and (
            self._arrow is None or self.kind not in ("str", "bytes")
        ):
            arrays = [array[rows] for array in self._arrays]
            made = BatchColumn(self.shape, self._pools, arrays=arrays)
        else:
            taken = self.arrow.take(numbers_array(rows, "int"))
            made = BatchColumn(self.shape, self._pools, arrow=taken)
        if self._encoded is not None:
            words, codes = self._encoded
            made._encoded, made._is_in_order = (words, codes[rows]), False
        return made


def encode_in_order(words: list[Any], codes: Numpy) -> tuple[list[Any], Numpy]:
    """Return the words that occur, in order of occurrence, and the index of each.

    >>> words, codes = encode_in_order(["a", "b", "c"], np.array([2, 0, 2]))
    >>> words, codes.tolist()
    (['c', 'a'], [0, 1, 0])
    """
    firsts = np.full(len(words), len(codes))
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    order = np.argsort(firsts, kind="stable")
    used = order[: np.count_nonzero(firsts < len(codes))]
    ranks = np.empty(len(words), np.int64)
    ranks[order] = np.arange(len(order))
    return [words[place] for place in used.tolist()], ranks[codes]


def _encode(array: pa.Array) -> tuple[list[Any], Numpy]:
    came_as_codes = pa.types.is_dictionary(array.type)
    if came_as_codes and (array.null_count or len(array.dictionary) > len(array)):
        array, came_as_codes = array.cast(array.type.value_type), False
    encoded = array if came_as_codes else array.dictionary_encode("encode")
    codes = np.from_dlpack(encoded.indices).astype(np.int64)
    words = encoded.dictionary.to_pylist()
    return encode_in_order(words, codes) if came_as_codes else (words, codes)


def _bits(buffer: pa.Buffer, offset: int, count: int) -> Numpy:
    wide = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return wide[offset : offset + count].astype(bool)


def _is_there(array: pa.Array) -> Numpy:
    """Return where an array is not null."""
    if not array.null_count:
        return np.ones(len(array), bool)
    return _bits(array.buffers()[0], array.offset, len(array))


def _with_nulls(array: pa.Array, missing: Numpy) -> pa.Array:
    """Return an array with nulls at some indices."""
    if not missing.any():
        return array
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(
        array.type, len(array), [valid, *array.buffers()[1:]], offset=array.offset
    )
