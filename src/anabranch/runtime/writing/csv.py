r"""Comma-separated values, as `anabranch.runtime.reading.csv` reads them.

A float is written by `repr`, so that it reads back as itself; None as nothing; a bool
as true or false; bytes as the UTF-8 text that they are. Fields are quoted where they
must be; rows end with ``\n``.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from anabranch.errors import OutputError
from anabranch.runtime.writing.columns import Names, Rows, Values, plain

_AS_THEY_ARE = frozenset({int, float, str, type(None)})


def encode_csv(items: Iterable[Any], names: Names | None, *, header: bool) -> bytes:
    r"""Return items as CSV; without `names` the first item gives the columns.

    >>> encode_csv([("a", True), ("b", None)], None, header=True)
    b'value_1,value_2\na,true\nb,\n'
    """
    rows = Rows(names)
    values = rows.of_all(items)
    head = encode_rows([rows.names]) if header and rows.names else b""
    if not as_they_are(values):
        assert rows.names is not None  # noqa: S101 - there was an item
        values = [cells(row, rows.names) for row in values]
    return head + encode_rows(values)


def as_they_are(rows: Iterable[Values]) -> bool:
    """Tell whether `csv.writer` writes all values of rows as they must be written.

    >>> as_they_are([(1, "a")]), as_they_are([(1, "a"), (2, True)])
    (True, False)
    """
    return _AS_THEY_ARE.issuperset(map(type, itertools.chain.from_iterable(rows)))


def cells(values: Values, names: Names) -> Values:
    """Return the fields of a row, as `csv.writer` takes them.

    >>> cells((1, True), ("n", "ok"))
    [1, 'true']
    """
    if len(values) == len(names) and _AS_THEY_ARE.issuperset(map(type, values)):
        return values
    fields = []
    for name, value in zip(names, values, strict=True):
        if type(value) in _AS_THEY_ARE:
            fields.append(value)
            continue
        try:
            field = plain(value)
        except (TypeError, UnicodeDecodeError):
            msg = (
                f"column {name!r} must be a scalar to be written as CSV; got "
                f"{value!r}; map it to one, or write JSON lines"
            )
            raise OutputError(msg) from None
        fields.append(str(field).lower() if isinstance(field, bool) else field)
    return fields


def encode_rows(rows: Iterable[Sequence[Any]]) -> bytes:
    r"""Return rows of fields as CSV.

    >>> encode_rows([("a,b", 1.5), ("\r", None)])
    b'"a,b",1.5\n"\r",\n'
    """
    rows = list(rows)
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    text = buffer.getvalue()
    if "\r" in text:
        text = "".join(map(_with_returns_quoted, rows))
    return text.encode()


def _with_returns_quoted(row: Sequence[Any]) -> str:
    """Return one line; a carriage return is quoted if it is part of the line end."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow(row)
    return buffer.getvalue().removesuffix("\r\n") + "\n"
