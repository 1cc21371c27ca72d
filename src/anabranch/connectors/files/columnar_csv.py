"""Comma-separated values by compiled kernels: text to columns and back, exactly.

The kernels are several times as fast as Arrow, and strings are dictionary-encoded.
Small jobs never load them: they are compiled in the background once a process has read
or written a good many rows. Until then, and for whatever a kernel declines, there is
`arrow_csv`, and behind that the parsers and encoders of rows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.connectors.files.arrow_items import ARROW, CODES, Form, combine
from anabranch.connectors.files.csv import encode_rows
from anabranch.runtime.compiled.build import CompilationError, Fire, compile_functions
from anabranch.runtime.compiled.program import WHEN_VARIABLE

_HOT_ROWS = 200_000  # rows read and written by a process before kernels pay off
_TEXT = Path(__file__).with_name("csv_kernels.py")
_SIGNATURES = {
    "read_rows": "int64(int64, int64, int64, int64, int64, int64, int64)",
    "write_rows": "int64(int64, int64, int64, int64, int64, int64, int64)",
}
_INT, _FLOAT, _BOOL, _STRINGS, _CODES, _SKIPPED = range(6)  # as in the kernels
_IN_DOUBT = -1
_EXACT = 27  # the largest power of 5 that fits 64 bits
_READ = {int: (_INT, np.int64), float: (_FLOAT, np.float64), str: (_CODES, np.int32)}
_MOST_WORDS = 1 << 15  # in a column; with more, codes gain nothing
_MOST_LETTERS = 1 << 20
_ROOM_BYTES = 1 << 20  # of text made at a time: stays in the cache
BEHIND = 16  # bytes that a kernel may read after a text
_MARKS = (b'"', b",", b"\r", b"\n")


Text: TypeAlias = bytes | bytearray | memoryview


class CsvKernels(NamedTuple):
    """The compiled kernels and their number tables."""

    read: Fire
    write: Fire
    tables: tuple[npt.NDArray[Any], ...]  # tens, tens as floats, scales, powers

    def addresses(self, *tables: int) -> npt.NDArray[np.int64]:
        """Return the addresses of some tables, and of an output cell."""
        return np.array([*(self.tables[n].ctypes.data for n in tables), 0], np.int64)


class _Loading:
    """The kernels of this process, loaded on demand."""

    def __init__(self) -> None:
        self.kernels: CsvKernels | None = None
        self._rows = 0
        self._begun = False
        self._lock = threading.Lock()

    def ask(self, rows: int) -> CsvKernels | None:
        """Return the kernels if they are loaded; `rows` are to be read or written."""
        if self.kernels is not None or self._begun:
            return self.kernels
        when = os.environ.get(WHEN_VARIABLE, "hot").replace("_", " ")
        with self._lock:
            self._rows += rows
            due = when == "at once" or (when != "never" and self._rows > _HOT_ROWS)
            if not due or self._begun:
                return self.kernels
            self._begun = True
        if when == "at once":
            self._load()
        else:
            # Not a daemon: a process must not end in the middle of compiling.
            threading.Thread(target=self._load, name="compile").start()
        return self.kernels

    def _load(self) -> None:
        try:
            text = _TEXT.read_text(encoding="utf-8")
            read, write = compile_functions(text, _SIGNATURES)
        except (CompilationError, OSError):
            return
        tens = np.array([10**n for n in range(20)], np.uint64)
        exact = np.array([float(10**n) for n in range(23)])
        tables = tens, exact, make_scales(), make_powers()
        self.kernels = CsvKernels(read, write, tables)


_loading = _Loading()


def make_powers() -> npt.NDArray[np.uint64]:
    """Return 10**-292 to 10**324 in 128 bits each, rounded up, for Schubfach.

    >>> [hex(half) for half in make_powers()[2 * 292 : 2 * 294].tolist()]
    ['0x8000000000000000', '0x0', '0xa000000000000000', '0x0']
    """
    small = [_fit(1, 10**e, up=True) for e in range(292, 0, -1)]
    return _halves([*small, *(_fit(10**e, 1, up=True) for e in range(325))])


def make_scales() -> npt.NDArray[np.uint64]:
    """Return 5**-342 to 5**308 in 128 bits each, for Eisel and Lemire.

    Reciprocals of powers that fit 64 bits are rounded up, all others are truncated.
    """
    small = [_fit(1, 5**e, up=e <= _EXACT) for e in range(342, 0, -1)]
    return _halves([*small, *(_fit(5**e, 1, up=False) for e in range(309))])


def _fit(over: int, under: int, *, up: bool) -> int:
    """Return the first 128 bits of a fraction."""
    shift = 129 - over.bit_length() + under.bit_length()
    top, bottom = over << max(0, shift), under << max(0, -shift)
    while top >= bottom << 128:
        bottom <<= 1
    return -(-top // bottom) if up else top // bottom


def _halves(numbers: Iterable[int]) -> npt.NDArray[np.uint64]:
    low = (1 << 64) - 1
    return np.array([half for n in numbers for half in (n >> 64, n & low)], np.uint64)


class ColumnReader:
    """Reads rows of a file as columns, with dictionary-encoded strings."""

    def __init__(
        self, form: Form, columns: Sequence[str] | None, delimiter: str
    ) -> None:
        """Prepare for a file with these columns, or those of the form."""
        self._form = form
        self._delimiter = delimiter
        self._names = tuple(columns or form.names)
        self._types = dict(zip(form.names, form.types, strict=True))
        self._words: dict[str, _Words] = {}

    @property
    def fits(self) -> bool:
        """Whether kernels can read such rows."""
        return (
            self._delimiter.isascii()
            and not any(self._form.optional)
            and _READ.keys() >= set(self._types.values())
            and len(set(self._names)) == len(self._names)
            and self._types.keys() <= set(self._names)
        )

    def read(self, text: Text, size: int, rows: int) -> pa.Table | None:
        """Return the columns of whole rows, if they certainly equal the parser's.

        They are the first `size` bytes of a text with `BEHIND` more; there are at most
        about so many `rows`.
        """
        kernels = _loading.ask(rows) if self.fits else None
        if kernels is None:
            return None
        data = np.frombuffer(text, np.uint8)
        assert len(data) >= size + BEHIND  # noqa: S101 - else memory would be read that is not ours
        while True:
            columns, made = self._describe(rows)
            found = kernels.read(
                data.ctypes.data,
                size,
                ord(self._delimiter),
                columns.ctypes.data,
                len(columns),
                rows,
                kernels.addresses(0, 1, 2).ctypes.data,
            )
            for place, name in enumerate(self._names):
                if name in self._words:
                    self._words[name].count = int(columns[place, 3])
            if found >= 0:
                break
            if found == _IN_DOUBT:
                return None
            rows = 2 * rows + 64
        try:
            arrays = [self._array(name, made[name], found) for name in self._form.names]
        except UnicodeDecodeError:
            return None
        return self._form.table(arrays)

    def _describe(
        self, rows: int
    ) -> tuple[npt.NDArray[np.int64], dict[str, pa.Buffer]]:
        """Return fields as a kernel takes them, and buffers for the values of rows."""
        columns = np.zeros((len(self._names), 4), np.int64)
        made = {}
        for place, name in enumerate(self._names):
            columns[place, 0] = _SKIPPED
            if name in self._types:
                kind, dtype = _READ[self._types[name]]
                made[name] = pa.allocate_buffer(rows * np.dtype(dtype).itemsize)
                columns[place, :2] = kind, made[name].address
                if kind == _CODES:
                    words = self._words.setdefault(name, _Words())
                    columns[place, 2:] = words.address, words.count
        return columns, made

    def _array(self, name: str, values: pa.Buffer, rows: int) -> pa.Array:
        if name not in self._words:
            arrow = ARROW[self._types[name]]
            return pa.Array.from_buffers(arrow, rows, [None, values])
        codes = pa.Array.from_buffers(pa.int32(), rows, [None, values])
        return pa.DictionaryArray.from_arrays(codes, self._words[name].array())


class _Words:
    """The strings of a column with their codes, readable by a kernel."""

    def __init__(self) -> None:
        slots = np.full(4 * _MOST_WORDS, -1, np.int32)
        self._offsets = np.zeros(_MOST_WORDS + 1, np.int32)
        self._letters = np.empty(_MOST_LETTERS, np.uint8)
        arrays = slots, self._offsets, self._letters
        places = [array.ctypes.data for array in arrays]
        sizes = len(slots) - 1, _MOST_WORDS, len(self._letters)
        self._described = np.array([*places, *sizes], np.int64)
        self._slots = slots
        self._array: pa.Array | None = None
        self.count = 0

    @property
    def address(self) -> int:
        """The address of its description."""
        return self._described.ctypes.data

    def array(self) -> pa.Array:
        """Return the strings; raise `UnicodeDecodeError` if they are not UTF-8."""
        if self._array is None or len(self._array) != self.count:
            self._letters[: self._offsets[self.count]].tobytes().decode()
            buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._letters)]
            self._array = pa.Array.from_buffers(pa.string(), self.count, buffers)
        return self._array


def write_table(table: pa.Table) -> Iterator[memoryview] | None:
    """Yield the text of rows in parts, each valid until the next; None: not possible.

    It equals the result of `csv.encode_rows`.
    """
    kernels = _loading.ask(table.num_rows)
    if kernels is None:
        return None
    columns = []
    for column in table.columns:
        array = combine(column)
        written = None if array is None else _Written.of(array)
        if written is None:
            return None
        columns.append(written)
    return _write(kernels, columns, table.num_rows)


class _Written(NamedTuple):
    """A column as a kernel takes it: its kind, addresses, and the buffers behind
    them.
    """

    kind: int
    places: tuple[int, int, int]
    kept: Any

    @classmethod
    def of(cls, array: pa.Array) -> _Written | None:
        """Return the kernel's view of an array, if it has one."""
        kind = array.type
        if array.null_count or not len(array):
            return None
        if kind in (pa.int64(), pa.float64()):
            address = array.buffers()[1].address + 8 * array.offset
            return cls(_INT if kind == pa.int64() else _FLOAT, (address, 0, 0), array)
        if kind == pa.bool_():
            bits = np.frombuffer(array.buffers()[1], np.uint8)
            wide = np.unpackbits(bits, bitorder="little")[array.offset :]
            return cls(_BOOL, (wide.ctypes.data, 0, 0), wide)
        if kind == pa.string():
            return cls(_STRINGS, (0, *_places(array)), array)
        if kind == CODES:
            words = _spell(array.dictionary)
            codes = array.indices
            address = codes.buffers()[1].address + 4 * codes.offset
            return cls(_CODES, (address, *_places(words)), (codes, words))
        return None


def _places(texts: pa.Array) -> tuple[int, int]:
    _, offsets, data = texts.buffers()
    return offsets.address + 4 * texts.offset, 0 if data is None else data.address


def _spell(words: pa.Array) -> pa.Array:
    """Return words as written in a file, quoted where necessary."""
    _, offsets, data = words.buffers()
    bounds = np.frombuffer(offsets, np.int32)[
        words.offset : words.offset + len(words) + 1
    ]
    first, last = int(bounds[0]), int(bounds[-1])
    letters = b"" if data is None else data.slice(first, last - first).to_pybytes()
    if any(mark in letters for mark in _MARKS):
        # With a second field, since an empty one alone would be quoted.
        texts = [encode_rows([(word, "")])[:-2] for word in words.to_pylist()]
        bounds = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        letters, first = b"".join(texts), 0
    elif data is not None and last + BEHIND <= data.size:
        return words
    own = [None, pa.py_buffer(bounds - first), pa.py_buffer(letters + bytes(BEHIND))]
    return pa.Array.from_buffers(pa.string(), len(words), own)


def _write(
    kernels: CsvKernels, columns: Sequence[_Written], rows: int
) -> Iterator[memoryview]:
    room = np.empty(_ROOM_BYTES, np.uint8)
    described = np.array([(c.kind, *c.places) for c in columns], np.int64)
    numbers = kernels.addresses(3, 0)
    row = 0
    while row < rows:
        after = kernels.write(
            row,
            rows,
            described.ctypes.data,
            len(columns),
            numbers.ctypes.data,
            room.ctypes.data,
            len(room),
        )
        if after == row:  # not even one row fits
            room = np.empty(2 * len(room), np.uint8)
            continue
        row = after
        yield room[: int(numbers[-1])].data
