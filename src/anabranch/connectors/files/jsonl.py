"""JSON lines: reading and writing.

Reading: one value per line; blank lines are not rows. An object is matched to the
attributes by name, and its other members are ignored; for a scalar type the line is the
value. A value must be of the attribute's type:

- int: written without a fraction, within 64 bits; true and false are no numbers
- float: any number; one that is written as an int becomes a float
- bool, str; bytes: a string, which stands for its UTF-8
- list, dict: as they are; `Any` takes everything
- T | None: null is None, and so is a member that is missing
- types that contain others, and those written as a string: see `nested`

Writing: an item with attributes becomes an object, a plain tuple a list. Numbers,
strings, booleans and None are written as JSON has them, bytes as their UTF-8 text,
dates in ISO format; tuples and dataclasses inside an item likewise.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from inspect import getattr_static
from json.encoder import (  # type: ignore[attr-defined]
    c_encode_basestring,
    c_make_encoder,
)
from types import MemberDescriptorType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from anabranch.connectors.files.arrow_items import Form, combine
from anabranch.connectors.files.columns import columns_of_item, plain
from anabranch.connectors.files.csv import bytes_of, spell_floats, texts_of
from anabranch.connectors.files.nested import (
    Convert,
    Misfit,
    as_floats,
    converter,
    holds_decimals,
)
from anabranch.connectors.files.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    RowParser,
    Unreadable,
    behind,
    lines_of,
)
from anabranch.connectors.files.values import (
    INT64_MAX,
    INT64_MIN,
    VALUE,
    attributes_of,
    maker,
)
from anabranch.errors import InputError, OutputError
from anabranch.graph.shapes import may_be_none, shape_of, why_not_json
from anabranch.graph.types import fields_of, optional_of, there_is, type_name


class _Missing:
    """Stands for a missing member of an object."""


_MISSING = _Missing()
_NOTHING = (type(None), _Missing)


@dataclass(frozen=True)
class _JsonType:
    """The Python types that JSON may give for an attribute, and their conversion."""

    name: str
    accepts: frozenset[type]
    convert: Callable[[list[Any]], list[Any]] = list


class JsonParser(RowParser):
    r"""Parses JSON lines into items of a type.

    >>> list(JsonParser(int, "n.jsonl").parse(b"1\n2\n", Position(1, 1), print))
    [(1, 1), (2, 2)]
    """

    def __init__(self, kind: Any, path: str) -> None:
        self._fields = None if fields_of(kind) is None else attributes_of(kind)
        self._make = maker(kind)
        self._columns = [
            _Column(name, annotation, path)
            for name, annotation in (self._fields or {VALUE: kind}).items()
        ]
        self._load: Callable[[bytes], Any] = json.loads
        if any(column.exact for column in self._columns):
            self._load = partial(json.loads, parse_float=Decimal)
            for column in self._columns:
                column.take_decimals()

    def at_once(self, data: bytes) -> list[Any] | None:
        try:
            return self._items([self._load(line) for line in lines_of(data) if line])
        except Exception:  # noqa: BLE001 - whatever it is, line by line it has a place
            return None

    def one_by_one(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        number = at.row
        for offset, line in enumerate(lines_of(data)):
            if not line:
                continue
            try:
                (item,) = self._items([_load(line, self._load)])
            except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                raw = line.decode("utf-8", "backslashreplace")
                refuse(BadRow(Position(number, at.line + offset), raw, error))
            else:
                yield item, number
            number += 1
        return behind(data, at, number - at.row)

    def _items(self, values: list[Any]) -> list[Any]:
        if self._fields is None:
            (column,) = self._columns
            return column.check(values)
        if not set(map(type, values)) <= {dict}:
            wrong = next(value for value in values if type(value) is not dict)
            members = ", ".join(self._fields)
            msg = f"must be an object with the members {members}; got {wrong!r}"
            raise Unreadable(msg)
        columns = [column.of_objects(values) for column in self._columns]
        return list(map(self._make, zip(*columns, strict=True)))


_TABLE_TYPES = frozenset({int, float, bool, str})
# What Arrow reads otherwise than Python: -0 in a column of floats, Inf for a number.
_OTHERWISE = re.compile(rb"-0(?![.0-9eE])|[:,\s]-?(?:Inf|NaN)")


def json_table(data: bytes, form: Form, rows: int) -> pa.Table | None:
    r"""Return lines of objects as a table; None if Arrow might read them otherwise.

    Each line must be one flat object with all that the type requires; the parser of rows
    reads the rest, and names what is wrong. So lines must begin with their only brace:
    Arrow takes several objects of a line for several rows. Lists are left to the parser
    because Python limits their depth.

    >>> from anabranch.connectors.files.arrow_items import form_of
    >>> json_table(b'{"value": 1}\n', form_of(int), 1)
    """
    if form.scalar or not _TABLE_TYPES.issuperset(form.types) or not rows:
        return None
    data = data.removesuffix(b"\n")
    lines = data.count(b"\n") + 1, data.count(b"\n{") + data.startswith(b"{")
    braces = data.count(b"{"), data.count(b"}")
    if {*lines, *braces} != {rows} or b"[" in data or b"\x00" in data:
        return None
    unusual = b"-0" in data or b"Inf" in data or b"NaN" in data
    if (unusual and _OTHERWISE.search(data)) or not _is_utf8(data):
        return None
    wanted = pa_json.ParseOptions(
        explicit_schema=pa.schema([field.with_nullable(True) for field in form.schema]),
        unexpected_field_behavior="ignore",
    )
    at_once = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        found = pa_json.read_json(pa.BufferReader(data), at_once, wanted)
    except pa.ArrowException:
        return None
    columns = [found.column(name) for name in form.names]
    if found.num_rows != rows or not all(map(_is_whole, columns, form.optional)):
        return None
    return pa.Table.from_arrays(columns, schema=form.schema).combine_chunks()


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_whole(column: pa.ChunkedArray, optional: bool) -> bool:
    """Tell whether a column lacks nothing; a number of too many digits is infinite."""
    if column.null_count and not optional:
        return False
    floats = pa.types.is_floating(column.type)
    return not floats or bool(pc.all(pc.is_finite(column)).as_py() in (None, True))


class _Column:
    """One attribute of the objects, or the scalar itself."""

    def __init__(self, name: str, annotation: Any, path: str) -> None:
        inner = optional_of(annotation)
        why = why_not_json(annotation)
        if why is not None:
            msg = (
                f"{path}: attribute {name!r} must be of a type that can be read from "
                f"JSON; it is {type_name(annotation)}, and {why}; read it as Any and "
                f"convert it in a map"
            )
            raise InputError(msg)
        self._name = name
        self._optional = inner is not None
        self._exact = False
        shape = shape_of(annotation if inner is None else inner)
        self.exact = holds_decimals([shape])
        self._convert: Convert | None = None
        self._known = _json_type(annotation if inner is None else inner)
        if self._known is None:
            self._convert = converter(shape)
            self._optional = may_be_none(shape_of(annotation))

    def take_decimals(self) -> None:
        """Expect decimals for JSON fractions: another column needs them."""
        self._exact = True

    def of_objects(self, objects: list[dict[str, Any]]) -> list[Any]:
        name = self._name
        try:
            return self.check([members.get(name, _MISSING) for members in objects])
        except _MissingMemberError:
            there = next(members for members in objects if name not in members)
            msg = (
                f"must have the member {name!r}; it is missing; "
                f"{there_is(name, there, 'member')}"
            )
            raise Unreadable(msg) from None

    def check(self, values: list[Any]) -> list[Any]:
        if self._exact and not self.exact:
            values = list(map(as_floats, values))
        if not self._optional:
            return self._refuse_nulls(values)
        present = [v for v in values if not isinstance(v, _NOTHING)]
        given = iter(self._refuse_nulls(present))
        return [None if isinstance(v, _NOTHING) else next(given) for v in values]

    def _refuse_nulls(self, values: list[Any]) -> list[Any]:
        types = set(map(type, values))
        if _Missing in types:
            raise _MissingMemberError
        if self._known is None:
            return self._convert_values(values)
        if self._known.accepts and not types <= self._known.accepts:
            self._refuse(next(v for v in values if type(v) not in self._known.accepts))
        if int in types and self._known is _INT:
            for extreme in (min(values), max(values)):
                if not INT64_MIN <= extreme <= INT64_MAX:
                    self._refuse(extreme)
        return self._known.convert(values)

    def _convert_values(self, values: list[Any]) -> list[Any]:
        assert self._convert is not None  # noqa: S101
        try:
            return list(map(self._convert, values))
        except Misfit as misfit:
            raise misfit.refusal(self._name) from None

    def _refuse(self, value: Any) -> None:
        assert self._known is not None  # noqa: S101
        also = " or null" if self._optional else ""
        msg = f"{self._name!r} must be {self._known.name}{also}; got {value!r}"
        raise Unreadable(msg)


class _MissingMemberError(Exception):
    """An object lacks a member that its type requires."""


def _load(line: bytes, load: Callable[[bytes], Any]) -> Any:
    try:
        return load(line)
    except ValueError as error:  # not UTF-8, or not JSON
        text = line.decode("utf-8", "backslashreplace")
        msg = f"must be JSON; {error}; got {text!r}"
        raise Unreadable(msg) from None


def _json_type(annotation: Any) -> _JsonType | None:
    if annotation is Any:
        return _ANYTHING
    return _JSON_TYPES.get(annotation) if isinstance(annotation, type) else None


_INT = _JsonType("an int of 64 bits", frozenset({int}))
_ANYTHING = _JsonType("anything", frozenset())
_JSON_TYPES: dict[Any, _JsonType] = {
    int: _INT,
    float: _JsonType(
        "a number", frozenset({int, float}), lambda values: list(map(float, values))
    ),
    bool: _JsonType("true or false", frozenset({bool})),
    str: _JsonType("a string", frozenset({str})),
    bytes: _JsonType(
        "a string", frozenset({str}), lambda values: [v.encode() for v in values]
    ),
    list: _JsonType("a list", frozenset({list})),
    dict: _JsonType("an object", frozenset({dict})),
}


_encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False)


def _make_encode() -> Callable[[Any], str]:
    """Return what `_encoder.encode` does, without making its C part for each value."""
    if c_make_encoder is None or c_encode_basestring is None:  # not CPython
        return _encoder.encode
    punctuation = _encoder.key_separator, _encoder.item_separator
    find_chunks = c_make_encoder(
        None,
        _encoder.default,
        c_encode_basestring,
        None,
        *punctuation,
        False,
        False,
        True,
    )
    return lambda value: "".join(find_chunks(value, 0))


_encode = _make_encode()
_SIMPLE = frozenset({int, float, str, bool, type(None)})


def encode_jsonl(items: Iterable[Any]) -> bytes:
    r"""Return items as JSON lines.

    >>> encode_jsonl([1, ("a", None)])
    b'1\n["a", null]\n'
    """
    return encode_lines(map(json_line, items))


def encode_lines(lines: Iterable[str]) -> bytes:
    r"""Return lines of JSON as bytes.

    Half of a surrogate pair, which UTF-8 cannot encode, is escaped: JSON can.

    >>> encode_lines([json_line(chr(0xD800))])
    b'"\\ud800"\n'
    """
    return "".join(lines).encode("utf-8", "backslashreplace")


def json_line(item: Any) -> str:
    """Return an item as one line, with its newline."""
    try:
        return _encode(_jsonable(item)) + "\n"
    except (TypeError, ValueError) as error:
        msg = (
            f"an item must be made of numbers, strings, lists and dicts to be written "
            f"as JSON; got {item!r} ({error}); map it first"
        )
        raise OutputError(msg) from None


def _jsonable(value: Any) -> Any:
    match value:
        case _ if type(value) in _SIMPLE:
            made = value
        case dict():
            made = {key: _jsonable(member) for key, member in value.items()}
        case _ if hasattr(value, "_fields") or _is_dataclass(value):
            names = columns_of_item(value)
            made = {name: _jsonable(getattr(value, name)) for name in names}
        case list() | tuple():
            made = list(map(_jsonable, value))
        case _:
            made = plain(value)
    return made


_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')


def json_of_table(table: pa.Table, form: Form, end: str = "") -> pa.Array | None:
    """Return each row as `json_line` writes its item, with another end of the line.

    None if it may be written otherwise.

    >>> from anabranch.connectors.files.arrow_items import form_of
    >>> json_of_table(pa.table({"value": [1.0, 0.5]}), form_of(float)).to_pylist()
    ['1.0', '0.5']
    """
    if form.names != tuple(table.column_names) or not _has_attributes(form.type):
        return None
    parts: list[Any] = []
    for name, column in zip(form.names, table.columns, strict=True):
        values = _spell_values(column)
        if values is None:
            return None
        parts += [_scalar(f"{', ' if parts else '{'}{_encode(name)}: "), values]
    parts = [parts[1], _scalar(end)] if form.scalar else [*parts, _scalar("}" + end)]
    return pc.binary_join_element_wise(*parts, _scalar(""))


@lru_cache(maxsize=256)
def _has_attributes(kind: Any) -> bool:
    """Tell whether no user code runs when an attribute of an item is read."""
    own = kind.__getattribute__ in (object.__getattribute__, tuple.__getattribute__)
    found = (getattr_static(kind, name, None) for name in fields_of(kind) or ())
    return fields_of(kind) is None or (
        own and all(type(one) in _STORED or not _is_called(one) for one in found)
    )


class _One(NamedTuple):
    value: int


_STORED = (type(vars(_One)["value"]), MemberDescriptorType)


def _is_called(attribute: Any) -> bool:
    return hasattr(type(attribute), "__get__")


def _scalar(text: str) -> pa.Scalar:
    """Return a text for Arrow, which would import pandas to make one itself."""
    data = text.encode()
    return texts_of(data, [len(data)])[0]


def _spell_values(column: pa.ChunkedArray) -> pa.Array | None:
    """Return values as JSON has them; None if a value may be written otherwise."""
    array = combine(column)
    if array is None or array.null_count or pa.types.is_binary(array.type):
        return None
    if pa.types.is_dictionary(array.type):
        words = _spell_texts(array.dictionary)
        return None if words is None else words.take(array.indices)
    if pa.types.is_string(array.type):
        return _spell_texts(array)
    if pa.types.is_floating(array.type):
        finite = pc.all(pc.is_finite(array)).as_py()
        return spell_floats(column) if finite else None
    return array.cast(pa.string())


def _spell_texts(texts: pa.Array) -> pa.Array | None:
    if texts.null_count:
        return None
    if _ESCAPED.search(bytes_of(texts)):
        spelled = list(map(_encode, texts.to_pylist()))
        return texts_of("".join(spelled).encode(), [len(s.encode()) for s in spelled])
    quote = _scalar('"')
    return pc.binary_join_element_wise(quote, texts, quote, _scalar(""))


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
