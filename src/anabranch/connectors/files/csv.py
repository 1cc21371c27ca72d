r"""Comma-separated values: reading and writing, in Python and through Arrow.

- UTF-8, with or without a byte order mark; rows end with ``\n`` or ``\r\n``.
- Quoting as in RFC 4180: a field that begins with a double quote runs to the closing
  quote and may hold delimiters and newlines; a doubled quote stands for one. A quote
  within an unquoted field is an ordinary character.
- Blank lines are not rows. Every row has as many fields as the header, or, without a
  header, as the type has attributes.
- Columns are matched to attributes by name, without a header by position. Other
  columns are ignored. `values.py` says how a field becomes a value; only the empty
  field of a `T | None` is None, whether quoted or not.
- A row is bad if it has another number of fields, a field that is no value of its type,
  text that is not UTF-8, a carriage return in the middle of an unquoted field, or a
  quote at the start of a field that no other closes at the end of one. Such a quote
  hides nothing: the next line is a row again. Arrow and `csv` accept some of these: they
  take text behind a closing quote as part of the field, and the lines before it too.

A piece of whole rows is parsed column by column. If anything in it is bad, it is parsed
again row by row, to find the fault and to lose nothing around it.

Written values are read back unchanged. A float is written by `repr`; None as an empty
field; a bool as true or false; bytes as their UTF-8 text. Fields are quoted where
necessary; rows end with ``
``.

Arrow is several times as fast as any parser in Python, but it does not count rows and
has its own rules for numbers. `csv_table` returns a table only if every value is
certainly what `CsvParser` would read; everything else is left to that parser, which
reports exactly what is wrong, and where. `csv_of_rows` and `csv_of_table` write through
Arrow only what `encode_rows` would write. Nothing here makes Arrow import pandas, which
takes as long as writing a hundred thousand rows: `pa.array`, `pa.scalar` and `to_numpy`
would.
"""

from __future__ import annotations

import csv
import io
import itertools
import operator
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from anabranch.connectors.files.arrow_items import ARROW, Form
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
from anabranch.connectors.files.splits import RowFormat, find_row_ends
from anabranch.connectors.files.values import TextType, attributes_of, maker, text_type
from anabranch.errors import InputError, OutputError
from anabranch.graph.types import there_is, type_name

_END = "\0"  # two fields of it follow the last row, unless a quote is still open
_LONGEST_FIELD = 2**31 - 1
_OPEN_QUOTE = (
    "must close its quotes, each before a delimiter or the end of the line; one is not"
)
_STRAY_RETURN = (
    r"must end with \n or \r\n, and hold no other \r outside of quotes; it holds one "
    r"(do all rows end with \r, as on old Macs?)"
)


@dataclass(frozen=True)
class Header:
    """The columns of a file, and the offset of its first row."""

    columns: tuple[str, ...]
    end: int  # offset in bytes, after a byte order mark if there is one
    lines: int


def header_of(data: bytes, delimiter: str = ",") -> Header | None:
    r"""Return the header at the start of `data`; None if it is empty.

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
    """Return a reader of lines, with a sentinel row that reveals an open quote."""
    csv.field_size_limit(_LONGEST_FIELD)  # the default would truncate long fields
    end = (f"{_END}{delimiter}{_END}",)
    return csv.reader(itertools.chain(lines, end), delimiter=delimiter)


def _parse_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the fields of all rows; raise `csv.Error` at unclosed quotes."""
    csv.field_size_limit(_LONGEST_FIELD)  # the default would truncate long fields
    return list(csv.reader(_lines(text), delimiter=delimiter, strict=True))


def _describe_quoting(error: csv.Error) -> Unreadable:
    return Unreadable(_STRAY_RETURN if "new-line" in str(error) else _OPEN_QUOTE)


class CsvParser(RowParser):
    r"""Parses rows of a file into items of a type.

    >>> parser = CsvParser(int, ("name", "value"), ",", "numbers.csv")
    >>> list(parser.parse(b"a,1\nb,2\n", Position(1, 2), print))
    [(1, 1), (2, 2)]
    """

    def __init__(
        self, kind: Any, header: Sequence[str] | None, delimiter: str, path: str
    ) -> None:
        """Match columns to attributes; `header` is None if there is none."""
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
        rows = _parse_rows(text, self._delimiter)
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
        number, line, begin = at.row, at.line, 0
        layout = RowFormat(quoted=True, delimiter=self._delimiter)
        for end in find_row_ends(data, layout).tolist():
            text = data[begin : end + 1].decode("utf-8", "surrogateescape")
            blank = len(text) - len(text.lstrip("\r\n"))  # lines that are not rows
            lines = text.count("\n", 0, blank)
            place = Position(number, line + lines)
            try:
                (fields,) = _parse_rows(text[blank:], self._delimiter)
                item = self._item(fields)
            except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                why = (
                    _describe_quoting(error) if isinstance(error, csv.Error) else error
                )
                refuse(BadRow(place, text[blank:].rstrip("\r\n"), why))
            else:
                yield item, number
            number += 1
            line += text.count("\n")
            begin = end + 1
        return behind(data, at, number - at.row)

    def _item(self, fields: list[str]) -> Any:
        if len(fields) != self._width:
            msg = f"must have {self._width} fields; has {len(fields)}"
            raise Unreadable(msg)
        columns = zip(self._names, self._types, self._places, strict=True)
        return self._make(tuple(_value(n, t, fields[p]) for n, t, p in columns))


def _value(name: str, known: TextType, field: str) -> Any:
    try:
        field.encode()  # text that is not UTF-8 was accepted up to here
        return known.one(field)
    except ValueError as error:
        utf8 = isinstance(error, UnicodeEncodeError)
        needed = "UTF-8 text" if utf8 else known.name
        msg = f"column {name!r} must be {needed}; got {field!r}"
        raise Unreadable(msg) from None


def _place(name: str, columns: tuple[str, ...], path: str) -> int:
    """Return the index of an attribute's field in a row."""
    if columns.count(name) == 1:
        return columns.index(name)
    if name in columns:
        msg = (
            f"{path}: a column must have one name; {name!r} is there twice; rename one"
        )
    elif (other := _find_delimiter(name, columns)) is not None:
        msg = (
            f"{path}: there must be a column {name!r}; there is only "
            f"{columns[0]!r}, whose names are separated by {other!r}; say "
            f"delimiter={other!r}"
        )
    else:
        msg = (
            f"{path}: there must be a column {name!r}; there is none; "
            f"{there_is(name, columns, 'column')}"
        )
    raise InputError(msg)


def _find_delimiter(name: str, columns: tuple[str, ...]) -> str | None:
    """Return the delimiter by which a header of one column would have a name.

    >>> _find_delimiter("price", ("symbol;price",)), _find_delimiter("p", ("a", "b"))
    (';', None)
    """
    if len(columns) != 1:
        return None
    return next((one for one in ";\t|," if name in columns[0].split(one)), None)


def _lines(text: str) -> io.StringIO:
    r"""Return the lines of a text, ended by newlines only."""
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
    """Tell whether `csv.writer` writes all values of rows correctly.

    >>> as_they_are([(1, "a")]), as_they_are([(1, "a"), (2, True)])
    (True, False)
    """
    return _AS_THEY_ARE.issuperset(map(type, itertools.chain.from_iterable(rows)))


def cells(values: Values, names: Names) -> Values:
    """Return the fields of a row in the form that `csv.writer` takes.

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
        except UnicodeDecodeError:
            msg = (
                f"bytes in column {name!r} must be text in UTF-8 to be written as CSV; "
                f"got {value!r}; map them to text, for example value.hex(), or write "
                f"Parquet"
            )
            raise OutputError(msg) from None
        except TypeError:
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
    """Return one line; a carriage return before the line end is quoted."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow(row)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


# Arrow accepts hexadecimal numbers, nan(...) and blanks around a number; `CsvParser`
# does not.
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
    r"""Return the columns of a form, if they certainly equal those of `CsvParser`.

    `rows` is the number of rows; `columns` are those of the file, if they differ from
    the form's.

    >>> from anabranch.connectors.files.arrow_items import form_of
    >>> csv_table(b"1\n2\n", form_of(int), 2).column("value").to_pylist()
    [1, 2]
    >>> csv_table(b"1\n0x2\n", form_of(int), 2) is None
    True
    """
    if not is_arrows(form) or b"\r" in data or b'"' in data:
        return None
    if data.startswith(BOM_UTF8):  # which is text here; Arrow would skip it
        return None
    named = list(columns or form.names)
    table = _table(data, form, named, delimiter, ARROW)
    if table is None or table.num_rows != rows:
        return None
    if any(byte in data for byte in _LENIENT):  # perhaps only inside strings
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
_LEAST, _MOST = 1e-4, 1e10  # in this range Arrow writes a float as Python does
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
    except (ValueError, OverflowError):  # of different lengths; not UTF-8; over 64 bits
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
            columns.append(spell_floats(column))
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
    """Return values of one type as an Arrow array; None if they are mixed."""
    kinds = set(map(type, values))
    if kinds == {str}:
        data = "".join(values).encode()
        return texts_of(data, _lengths(values)) if len(data) <= _MOST_BYTES else None
    kind = kinds.pop()
    if kinds or kind not in _NUMBERS:
        return None
    dtype, arrow = _NUMBERS[kind]
    numbers = np.array(values, dtype)
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(numbers)])


def _lengths(texts: Sequence[str]) -> list[int]:
    """Return the lengths of texts in UTF-8."""
    if all(map(str.isascii, texts)):
        return list(map(len, texts))
    return [len(text.encode()) for text in texts]


def texts_of(data: bytes, lengths: Sequence[int] | npt.NDArray[Any]) -> pa.Array:
    """Return an array of concatenated texts."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def _needs_quotes(column: pa.ChunkedArray) -> bool:
    """Tell whether a text has a character that is special in CSV.

    All bytes of a chunk are checked at once, which a regular expression does not do.
    """
    return any(mark in text for text in map(bytes_of, column.chunks) for mark in _MARKS)


def bytes_of(texts: pa.StringArray) -> bytes:
    """Return the texts of an array, one after another."""
    _, offsets, data = texts.buffers()
    if data is None:  # nothing but empty texts
        return b""
    bounds = np.frombuffer(offsets, np.int32)[texts.offset :]
    start, end = int(bounds[0]), int(bounds[len(texts)])
    return data.slice(start, end - start).to_pybytes()  # type: ignore[no-any-return]


def spell_floats(column: pa.ChunkedArray) -> pa.Array:
    """Return floats as text, as `repr` writes them."""
    column = column.combine_chunks()
    texts = column.cast(pa.string())
    values = np.from_dlpack(column)
    size = np.abs(values)
    common = (size >= _LEAST) & (size < _MOST)
    whole = common & (values == np.floor(values))
    if whole.any():
        ends = texts_of(b".0" * int(whole.sum()), 2 * whole.astype(np.int32))
        nothing = texts_of(b"", np.zeros(len(values), np.int32))
        texts = pc.binary_join_element_wise(texts, ends, nothing)
    if not common.all():
        rare = list(map(repr, values[~common].tolist()))
        replaced = texts_of("".join(rare).encode(), list(map(len, rare)))
        texts = pc.replace_with_mask(texts, _mask(~common), replaced)
    return texts


def _mask(chosen: npt.NDArray[np.bool_]) -> pa.Array:
    bits = np.packbits(chosen, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(chosen), [None, pa.py_buffer(bits)])
