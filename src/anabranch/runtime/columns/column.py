"""A column of a batch: Arrow's array, NumPy's, or codes of strings, made when needed.

Nothing here makes Arrow import Pandas, as `pa.array` and `to_numpy` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.plan.column_kernels import ColumnKind

Numpy = npt.NDArray[Any]

DTYPES: dict[ColumnKind, Any] = {
    "int": np.int64,
    "float": np.float64,
    "bool": np.bool_,
    "str": np.int64,
}
_ARROW: dict[ColumnKind, Any] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
}


PYTHON_TYPES: dict[ColumnKind, type] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
}


class UnfitError(Exception):
    """A batch does not fit what kernels take; Python runs it."""


class StringPool:
    """The strings that kernels have met, each with its number.

    `depths[n]` is 0 for a string of the data, and one more than that of the string it
    was computed from for any other.

    >>> pool = StringPool()
    >>> pool.add("a"), pool.add("b"), pool.add("a")
    (0, 1, 0)
    """

    def __init__(self) -> None:
        self.strings: list[str] = []
        self.depths: list[int] = []
        self._codes: dict[str, int] = {}
        self._array: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.strings)

    def add(self, string: str, depth: int = 0) -> int:
        """Return the number of a string."""
        code = self._codes.get(string)
        if code is None:
            code = self._codes[string] = len(self.strings)
            self.strings.append(string)
            self.depths.append(depth)
        elif depth < self.depths[code]:
            self.depths[code] = depth
        return code

    def array(self) -> pa.Array:
        """Return all strings as an array."""
        if self._array is None or len(self._array) != len(self.strings):
            self._array = texts_array(self.strings)
        return self._array


def texts_array(texts: Sequence[str]) -> pa.Array:
    """Return strings as Arrow holds them."""
    try:
        encoded = [text.encode() for text in texts]
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
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def numbers_array(numbers: Numpy, kind: ColumnKind) -> pa.Array:
    """Return an array of NumPy's as one of Arrow's."""
    if kind == "bool":
        bits = np.packbits(numbers, bitorder="little")
        return pa.Array.from_buffers(
            pa.bool_(), len(numbers), [None, pa.py_buffer(bits)]
        )
    data = pa.py_buffer(np.ascontiguousarray(numbers, DTYPES[kind]))
    return pa.Array.from_buffers(_ARROW[kind], len(numbers), [None, data])


def numbers_of(values: Sequence[Any], kind: ColumnKind) -> Numpy:
    """Return numbers of one kind as an array; refuse those beyond 64 bits."""
    try:
        return np.array(values, DTYPES[kind])
    except OverflowError as error:
        raise UnfitError(str(error)) from error


def values_array(values: Sequence[Any], kind: ColumnKind) -> pa.Array:
    """Return values of one kind as an array of Arrow's."""
    if kind == "str":
        return texts_array(values)
    return numbers_array(numbers_of(values, kind), kind)


class BatchColumn:
    """One attribute of the items of a batch."""

    def __init__(
        self,
        kind: ColumnKind,
        pool: StringPool,
        *,
        arrow: pa.Array | None = None,
        numbers: Numpy | None = None,
        listed: Sequence[Any] | None = None,
    ) -> None:
        """Take values, or for strings their numbers in the pool.

        Those that are `listed` may be of any type, as long as they are only passed on.
        """
        self.kind = kind
        self._pool = pool
        self._arrow = arrow
        self._numbers = numbers
        self._listed = listed
        self._encoded: tuple[list[Any], Numpy] | None = None

    def __len__(self) -> int:
        for found in (self._arrow, self._numbers, self._listed):
            if found is not None:
                return len(found)
        return 0

    def _check_values(self) -> Sequence[Any]:
        """Return listed values; refuse those of another type."""
        assert self._listed is not None  # noqa: S101
        if set(map(type, self._listed)) - {PYTHON_TYPES[self.kind]}:
            msg = "a value has another type"
            raise UnfitError(msg)
        return self._listed

    @property
    def arrow(self) -> pa.Array:
        """The values as Arrow holds them."""
        if self._arrow is None and self._numbers is None:
            self._arrow = values_array(self._check_values(), self.kind)
        if self._arrow is None:
            assert self._numbers is not None  # noqa: S101
            if self.kind == "str":
                self._arrow = self._pool.array().take(
                    numbers_array(self._numbers, "int")
                )
            else:
                self._arrow = numbers_array(self._numbers, self.kind)
        return self._arrow

    @property
    def numbers(self) -> Numpy:
        """The values, or the numbers of strings, as NumPy holds them."""
        if self._numbers is None and self._listed is not None:
            values = self._check_values()
            if self.kind == "str":
                words, codes = self.encode()
                numbers = np.array([self._pool.add(word) for word in words], np.int64)
                self._numbers = numbers[codes] if len(numbers) else codes
            else:
                self._numbers = numbers_of(values, self.kind)
        if self._numbers is None:
            array = self._arrow
            assert array is not None  # noqa: S101
            if array.null_count:
                msg = "there are values missing"
                raise UnfitError(msg)
            if self.kind == "str":
                words, codes = self.encode()
                numbers = np.array([self._pool.add(word) for word in words], np.int64)
                self._numbers = numbers[codes] if len(numbers) else codes
            elif self.kind == "bool":
                bits = np.frombuffer(array.buffers()[1], np.uint8)
                wide = np.unpackbits(bits, bitorder="little")
                self._numbers = wide[array.offset : array.offset + len(array)].astype(
                    bool
                )
            else:
                self._numbers = np.from_dlpack(array)
        return self._numbers

    def encode(self) -> tuple[list[Any], Numpy]:
        """Return the distinct values, and for each place which of them is there."""
        if self._encoded is None and self._listed is not None:
            values = self._check_values()
            places = {word: n for n, word in enumerate(dict.fromkeys(values))}
            found = np.array(list(map(places.__getitem__, values)), np.int64)
            self._encoded = list(places), found
        if self._encoded is None:
            if self.arrow.null_count:
                msg = "there are values missing"
                raise UnfitError(msg)
            encoded = self.arrow.dictionary_encode()
            codes = np.from_dlpack(encoded.indices).astype(np.int64)
            words = encoded.dictionary.to_pylist()
            if pa.types.is_dictionary(self.arrow.type):
                words, codes = _as_they_come(words, codes)
            self._encoded = words, codes
        return self._encoded

    def list_values(self) -> list[Any]:
        """Return the values as Python has them; a string that repeats is one object."""
        if self._listed is not None:
            return list(self._listed)
        if self.kind != "str":
            values: list[Any] = self.numbers.tolist()
            return values
        words, codes = self.encode()
        found: list[Any] = np.array([*words, None], dtype=object)[codes].tolist()
        return found

    def take(self, rows: Numpy) -> BatchColumn:
        """Return the values at some places."""
        if self._listed is not None:
            listed = list(map(self._listed.__getitem__, rows.tolist()))
            made = BatchColumn(self.kind, self._pool, listed=listed)
            if self._numbers is not None:
                made._numbers = self._numbers[rows]
        elif self._numbers is not None and (self.kind != "str" or self._arrow is None):
            made = BatchColumn(self.kind, self._pool, numbers=self._numbers[rows])
        else:
            taken = self.arrow.take(numbers_array(rows, "int"))
            made = BatchColumn(self.kind, self._pool, arrow=taken)
        if self._encoded is not None:
            words, codes = self._encoded
            made._encoded = words, codes[rows]
        return made


def _as_they_come(words: list[Any], codes: Numpy) -> tuple[list[Any], Numpy]:
    """Return the words that occur, in the order in which they do, and which are where.

    >>> words, codes = _as_they_come(["a", "b", "c"], np.array([2, 0, 2]))
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
