"""Comma-separated values through Arrow, where that is exact.

Comma-separated values through Arrow: whole columns at once, where that is exact.

Arrow is several times as fast as any parser in Python, but knows nothing of row
numbers and has its own idea of what a number looks like. `csv_table` returns a table
only where every value is sure to be what `CsvParser` would read. Whatever else there
is, is left to that parser, which says exactly what is wrong, and where.

Comma-separated values through Arrow, where it writes what `csv.encode_rows` would.

Nothing here makes Arrow import Pandas, which takes as long as writing a hundred
thousand rows: `pa.array`, `pa.scalar` and `to_numpy` do.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from anabranch.connectors.files.arrow_items import ARROW, Form
from anabranch.connectors.files.columns import Values

# Arrow takes hexadecimal numbers, nan(...) and blanks around a number; `CsvParser` does
# not.
_LENIENT = (b" ", b"\t", b"\v", b"\f", b"x", b"X", b"(")
_LENIENT_TEXT = r"[\sxX(]"


def is_arrows(form: Form | None) -> bool:
    """Tell whether Arrow reads all columns of a form as `CsvParser` does.

    >>> from anabranch.connectors.files.arrow_items import form_of
    >>> is_arrows(form_of(int)), is_arrows(form_of(bool))
    (True, False)
    """
    if form is None or any(form.optional):
        return False
    return not {bool, bytes}.intersection(form.types)


def csv_table(
    data: bytes,
    form: Form,
    rows: int,
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
) -> pa.Table | None:
    r"""Return the columns of a form, if they are sure to be what `CsvParser` reads.

    `rows` is how many rows there are; `columns` are those of the file, where they are
    not just those of the form.

    >>> from anabranch.connectors.files.arrow_items import form_of
    >>> csv_table(b"1\n2\n", form_of(int), 2).column("value").to_pylist()
    [1, 2]
    >>> csv_table(b"1\n0x2\n", form_of(int), 2) is None
    True
    """
    if not is_arrows(form) or b"\r" in data or b'"' in data:
        return None
    if data.startswith(BOM_UTF8):  # which is text here; Arrow would leave it out
        return None
    named = list(columns or form.names)
    table = _table(data, form, named, delimiter, ARROW)
    if table is None or table.num_rows != rows:
        return None
    if any(byte in data for byte in _LENIENT):  # perhaps only within strings
        strings = dict.fromkeys(ARROW, pa.string())
        texts = _table(data, form, named, delimiter, strings)
        numbers = [
            name
            for name, kind in zip(form.names, form.types, strict=True)
            if kind is not str
        ]
        if texts is None or any(_lenient(texts.column(name)) for name in numbers):
            return None
    return table


def _lenient(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, _LENIENT_TEXT)).as_py())


def _table(
    data: bytes,
    form: Form,
    columns: list[str],
    delimiter: str,
    types: Mapping[type, pa.DataType],
) -> pa.Table | None:
    read = pyarrow.csv.ReadOptions(
        column_names=columns, use_threads=False, block_size=max(1, len(data))
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=False)
    attributes = zip(form.names, form.types, strict=True)
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: types[attribute] for name, attribute in attributes},
        include_columns=list(form.names),
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        return pyarrow.csv.read_csv(pa.BufferReader(data), read, parse, convert)
    except pa.ArrowException:
        return None


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
