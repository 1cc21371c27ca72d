"""Comma-separated values through Arrow: whole columns at once, where that is exact.

Arrow is several times as fast as any parser in Python, but knows nothing of row
numbers and has its own idea of what a number looks like. `csv_table` returns a table
only where every value is sure to be what `CsvParser` would read. Whatever else there
is, is left to that parser, which says exactly what is wrong, and where.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from anabranch.runtime.columns import ARROW, Form

# Arrow takes hexadecimal numbers, nan(...) and blanks around a number; `CsvParser` does
# not.
_LENIENT = (b" ", b"\t", b"\v", b"\f", b"x", b"X", b"(")
_LENIENT_TEXT = r"[\sxX(]"


def is_arrows(form: Form | None) -> bool:
    """Tell whether Arrow reads all columns of a form as `CsvParser` does.

    >>> from anabranch.runtime.columns import form_of
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

    >>> from anabranch.runtime.columns import form_of
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
