"""Comma-separated values through Arrow, where it writes what `csv.encode_rows` would.

Nothing here makes Arrow import Pandas, which takes as long as writing a hundred
thousand rows: `pa.array`, `pa.scalar` and `to_numpy` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from anabranch.runtime.writing.columns import Values

_MARKS = (b'"', b",", b"\r", b"\n")
_LEAST, _MOST = 1e-4, 1e10  # between them Arrow writes a float as Python does
_MOST_BYTES = 2**31 - 1  # of the texts of a column: offsets have 32 bits
_NUMBERS = {int: (np.int64, pa.int64()), float: (np.float64, pa.float64())}


def csv_of_rows(rows: Sequence[Values]) -> bytes | None:
    r"""Return rows as `encode_rows` would write them, or None if Arrow cannot.

    >>> csv_of_rows([("x", 1.0), ("y", 0.5)])
    b'x,1.0\ny,0.5\n'
    >>> csv_of_rows([("x", 1.0), ("y", 2)]) is None
    True
    """
    try:
        columns = [_array(values) for values in zip(*rows, strict=True)]
    except (ValueError, OverflowError):  # of different lengths; no UTF-8; over 64 bits
        return None
    if not columns or None in columns:
        return None
    names = [str(place) for place in range(len(columns))]
    return csv_of_table(pa.Table.from_arrays(columns, names=names))


def csv_of_table(table: pa.Table) -> bytes | None:
    r"""Return rows as `encode_rows` would write them, or None if Arrow cannot.

    >>> csv_of_table(pa.table({"a": ["x", "y"], "b": [1.0, 0.5]}))
    b'x,1.0\ny,0.5\n'
    >>> csv_of_table(pa.table({"a": ["x,y"]})) is None
    True
    """
    columns = []
    for column in table.columns:
        if column.null_count:
            return None
        if pa.types.is_floating(column.type):
            columns.append(_floats(column))
            continue
        if pa.types.is_string(column.type):
            if table.num_columns == 1 or _needs_quotes(column):
                return None
        elif not pa.types.is_integer(column.type):
            return None
        columns.append(column)
    sink = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    plain = pa.Table.from_arrays(columns, names=table.column_names)
    pyarrow.csv.write_csv(plain, sink, options)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _array(values: Sequence[Any]) -> pa.Array | None:
    """Return values of one type as Arrow holds them; None if they are not."""
    kinds = set(map(type, values))
    if kinds == {str}:
        data = "".join(values).encode()
        return _texts(data, _lengths(values)) if len(data) <= _MOST_BYTES else None
    kind = kinds.pop()
    if kinds or kind not in _NUMBERS:
        return None
    dtype, arrow = _NUMBERS[kind]
    numbers = np.array(values, dtype)
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(numbers)])


def _lengths(texts: Sequence[str]) -> list[int]:
    """Return how long texts are in UTF-8."""
    if all(map(str.isascii, texts)):
        return list(map(len, texts))
    return [len(text.encode()) for text in texts]


def _texts(data: bytes, lengths: Sequence[int] | npt.NDArray[Any]) -> pa.Array:
    """Return an array of texts that stand one behind the other."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def _needs_quotes(column: pa.ChunkedArray) -> bool:
    """Tell whether a text has a character that means something in a CSV file.

    All bytes of a chunk are looked at in one go, which a regular expression is not.
    """
    return any(
        mark in text for text in map(_bytes_of, column.chunks) for mark in _MARKS
    )


def _bytes_of(texts: pa.StringArray) -> bytes:
    _, offsets, data = texts.buffers()
    if data is None:  # nothing but empty texts
        return b""
    bounds = np.frombuffer(offsets, np.int32)[texts.offset :]
    start, end = int(bounds[0]), int(bounds[len(texts)])
    return data.slice(start, end - start).to_pybytes()  # type: ignore[no-any-return]


def _floats(column: pa.ChunkedArray) -> pa.Array:
    """Return floats as text, as `repr` writes them."""
    column = column.combine_chunks()
    texts = column.cast(pa.string())
    values = np.from_dlpack(column)
    size = np.abs(values)
    common = (size >= _LEAST) & (size < _MOST)
    whole = common & (values == np.floor(values))
    if whole.any():
        ends = _texts(b".0" * int(whole.sum()), 2 * whole.astype(np.int32))
        nothing = _texts(b"", np.zeros(len(values), np.int32))
        texts = pc.binary_join_element_wise(texts, ends, nothing)
    if not common.all():
        rare = list(map(repr, values[~common].tolist()))
        replaced = _texts("".join(rare).encode(), list(map(len, rare)))
        texts = pc.replace_with_mask(texts, _mask(~common), replaced)
    return texts


def _mask(chosen: npt.NDArray[np.bool_]) -> pa.Array:
    bits = np.packbits(chosen, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(chosen), [None, pa.py_buffer(bits)])
