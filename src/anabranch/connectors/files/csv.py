r"""Comma-separated values: how they are read and written.

Comma-separated values, by rules that Arrow's reader can be made to share.

- UTF-8, with or without a byte order mark; rows end with ``\n`` or ``\r\n``.
- Quoting as in RFC 4180: a field that begins with a double quote runs to the closing
  quote and may hold delimiters and newlines; a doubled quote stands for one. A quote
  within an unquoted field is an ordinary character, and so is what follows a closing
  quote. (Python's `csv` module and Arrow agree on this; a test holds it.)
- Blank lines are not rows. Every row has as many fields as the header, or, without a
  header, as the type has attributes.
- Columns are matched to attributes by name, without a header by position. Other
  columns are ignored. `values.py` says how a field becomes a value; nothing but the
  empty field of a `T | None` is ever None, whether quoted or not.
- Bad is a row with another number of fields, a field that is no value of its type,
  text that is not UTF-8, a carriage return in the middle of an unquoted field, and a
  quoted field that never ends (it takes in the rest of the file). Arrow passes over
  the last two: it ends a row at a stray return, and closes an open quote in silence.

A piece of whole rows is parsed column by column. Where anything in it is bad, it is
parsed again row by row, to find what, and to lose nothing around it.

Written values are read back as themselves. A float is written by `repr`, so that it reads back as itself; None as nothing; a bool
as true or false; bytes as the UTF-8 text that they are. Fields are quoted where they
must be; rows end with ``\n``.
"""

from __future__ import annotations

import csv
import io
import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.files.columns import (
    Names,
    RowValues,
    Values,
    plain,
    refuse_unwritable_text,
)
from anabranch.connectors.files.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    RowParser,
    Unreadable,
    behind,
)
from anabranch.connectors.files.values import TextType, attributes_of, maker, text_type
from anabranch.errors import InputError, OutputError
from anabranch.graph.types import there_is, type_name

_END = "\0"  # two fields of it follow the last row, unless a quote is still open
_LONGEST_FIELD = 2**31 - 1
_OPEN_QUOTE = "must close its quotes; a quoted field runs to the end of the file"
_STRAY_RETURN = (
    r"must end with \n or \r\n, and hold no other \r outside of quotes; it holds one "
    r"(do all rows end with \r, as on old Macs?)"
)


@dataclass(frozen=True)
class Header:
    """The columns of a file, and where its first row begins."""

    columns: tuple[str, ...]
    end: int  # offset in bytes, behind a byte order mark if there is one
    lines: int


def header_of(data: bytes, delimiter: str = ",") -> Header | None:
    r"""Return the header that `data` begins with; None if there is nothing.

    >>> header_of(b"symbol,volume\nA,1\n")
    Header(columns=('symbol', 'volume'), end=14, lines=1)
    """
    lines = io.BytesIO(data)
    rows = _rows((line.decode() for line in lines), delimiter)
    try:
        for row in rows:
            if not row:
                continue
            if rows.line_num <= data.count(b"\n", 0, lines.tell()) + _cut_off(data):
                return Header(tuple(row), lines.tell(), rows.line_num)
            if row != [_END, _END]:
                raise Unreadable(_OPEN_QUOTE)
    except csv.Error:
        raise Unreadable(_STRAY_RETURN) from None
    return None


def _cut_off(data: bytes) -> bool:
    return data != b"" and not data.endswith(b"\n")


def _rows(lines: Iterable[str], delimiter: str) -> Any:
    """Return the reader of lines; a last row follows that tells an open quote."""
    csv.field_size_limit(_LONGEST_FIELD)  # the default would cut off long fields
    end = (f"{_END}{delimiter}{_END}",)
    return csv.reader(itertools.chain(lines, end), delimiter=delimiter)


class CsvParser(RowParser):
    r"""Parses rows of a file into items of a type.

    >>> parser = CsvParser(int, ("name", "value"), ",", "numbers.csv")
    >>> list(parser.parse(b"a,1\nb,2\n", Position(1, 2), print))
    [(1, 1), (2, 2)]
    """

    def __init__(
        self, kind: Any, header: Sequence[str] | None, delimiter: str, path: str
    ) -> None:
        """Match columns to attributes; `header` is None where there is none."""
        attributes = attributes_of(kind)
        columns = tuple(attributes) if header is None else tuple(header)
        self._names = list(attributes)
        self._places = [_place(name, columns, path) for name in attributes]
        self._types = []
        for name, annotation in attributes.items():
            if (known := text_type(annotation)) is None:
                msg = (
                    f"{path}: attribute {name!r} of {type_name(kind)} must be a "
                    f"number, a str, bytes, a date or time, a UUID, an Enum or a "
                    f"Literal, or one of these | None, to be read from text; it is {type_name(annotation)}; read it as str and "
                    f"convert it in a map"
                )
                raise InputError(msg)
            self._types.append(known)
        self._width = len(columns)
        self._delimiter = delimiter
        self._make = maker(kind)

    def at_once(self, data: bytes) -> list[Any] | None:
        try:
            return self._items(data.decode())
        except Exception:  # noqa: BLE001 - whatever it is, row by row it has a place
            return None

    def _items(self, text: str) -> list[Any]:
        rows = list(_rows(_lines(text), self._delimiter))
        if rows.pop() != [_END, _END]:
            raise ValueError
        if [] in rows:
            rows = [row for row in rows if row]
        if not set(map(len, rows)) <= {self._width}:
            raise ValueError
        columns = [
            known.column(list(map(operator.itemgetter(place), rows)))
            for place, known in zip(self._places, self._types, strict=True)
        ]
        return list(map(self._make, zip(*columns, strict=True)))

    def one_by_one(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        lines = list(_lines(data.decode("utf-8", "surrogateescape")))
        rows = _rows(lines, self._delimiter)
        number = at.row
        while (begin := rows.line_num) < len(lines):
            place = Position(number, at.line + begin)
            try:
                fields = next(rows)
                if not fields:
                    continue
                if rows.line_num > len(lines):
                    raise Unreadable(_OPEN_QUOTE)  # noqa: TRY301
                item = self._item(fields)
            except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                raw = "".join(lines[begin : rows.line_num]).rstrip("\r\n")
                stray = isinstance(error, csv.Error)  # nothing else is one
                why = Unreadable(_STRAY_RETURN) if stray else error
                refuse(BadRow(place, raw, why))
            else:
                yield item, number
            number += 1
        return behind(data, at, number - at.row)

    def _item(self, fields: list[str]) -> Any:
        if len(fields) != self._width:
            msg = f"must have {self._width} fields; has {len(fields)}"
            raise Unreadable(msg)
        columns = zip(self._names, self._types, self._places, strict=True)
        return self._make(tuple(_value(n, t, fields[p]) for n, t, p in columns))


def _value(name: str, known: TextType, field: str) -> Any:
    try:
        field.encode()  # text that is not UTF-8 was let through up to here
        return known.one(field)
    except ValueError as error:
        utf8 = isinstance(error, UnicodeEncodeError)
        needed = "UTF-8 text" if utf8 else known.name
        msg = f"column {name!r} must be {needed}; got {field!r}"
        raise Unreadable(msg) from None


def _place(name: str, columns: tuple[str, ...], path: str) -> int:
    """Return which field of a row holds an attribute."""
    if columns.count(name) == 1:
        return columns.index(name)
    if name in columns:
        msg = (
            f"{path}: a column must have one name; {name!r} is there twice; rename one"
        )
    else:
        msg = (
            f"{path}: there must be a column {name!r}; there is none; "
            f"{there_is(name, columns, 'column')}"
        )
    raise InputError(msg)


def _lines(text: str) -> io.StringIO:
    r"""Return the lines of a text, which end with a newline and with nothing else."""
    return io.StringIO(text, newline="\n")


_AS_THEY_ARE = frozenset({int, float, str, type(None)})


def encode_csv(items: Iterable[Any], names: Names | None, *, header: bool) -> bytes:
    r"""Return items as CSV; without `names` the first item gives the columns.

    >>> encode_csv([("a", True), ("b", None)], None, header=True)
    b'value_1,value_2\na,true\nb,\n'
    """
    rows = RowValues(names)
    values = rows.of_all(items)
    head = encode_rows([rows.names]) if header and rows.names else b""
    if not as_they_are(values):
        assert rows.names is not None  # noqa: S101 - there was an item
        values = [cells(row, rows.names) for row in values]
    try:
        return head + encode_rows(values)
    except UnicodeEncodeError:
        for row in values:
            refuse_unwritable_text(row, rows.names or ())
        raise


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
