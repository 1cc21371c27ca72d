"""Avro values: schemas of types, encoding and decoding, and a schema registry.

With a registry each value begins with a zero byte and the id of its schema, as
Confluent's tools write it; a value is read with its writer's schema. Without one,
values are bare, and both sides must have the same schema.

The schema of a type has a field per attribute. A value without an Avro type, such as a
Decimal of any precision, is a string, written as in JSON lines.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import functools
import io
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from anabranch.connectors.base import Malformed, require
from anabranch.connectors.files.columns import plain
from anabranch.connectors.files.nested import Misfit, converter
from anabranch.connectors.files.rows import Unreadable
from anabranch.errors import AnabranchError, ArgumentError, InputError, OutputError
from anabranch.graph.shapes import (
    ChoiceShape,
    Many,
    OneOf,
    PlainShape,
    RecordShape,
    Shape,
    Table,
    describe_shape,
    shape_of,
)

_PLAIN: dict[Any, Any] = {
    int: "long",
    float: "double",
    bool: "boolean",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    dt.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    dt.date: {"type": "int", "logicalType": "date"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_AS_THEY_ARE = (bool, int, float, str, bytes, type(None), dt.date, uuid.UUID)
_VALUE = "value"  # in errors
_MAGIC = b"\x00"
_HEAD = struct.Struct(">bI")
_ANSWER_S = 30.0
_JSON = "application/vnd.schemaregistry.v1+json"


def schema_of(annotation: Any) -> Any:
    """Return the Avro schema of a type; refuse one that has none.

    >>> schema_of(list[int] | None)
    [{'type': 'array', 'items': 'long'}, 'null']
    """
    if annotation is None:
        msg = (
            "items in Avro must have a type, from which their schema follows; the type "
            "is not known; annotate the function that makes them, or give a schema"
        )
        raise ArgumentError(msg)
    return _schema(shape_of(annotation), set())


def find_schema_faults(type: Any) -> Iterator[tuple[str, str]]:
    """Yield why a type has no Avro schema, if so, with what to do about it.

    >>> list(find_schema_faults(int)), len(list(find_schema_faults(dict[int, str])))
    ([], 1)
    """
    try:
        schema_of(type)
    except ArgumentError as error:
        what, _, advice = error.args[0].rpartition("; ")
        yield what, advice


def _schema(shape: Shape, named: set[str]) -> Any:  # noqa: PLR0911 - one return per form
    match shape:
        case PlainShape(kind) if kind is not Any:
            return _PLAIN.get(kind, "string")
        case ChoiceShape(_, values):
            kinds = {type(written) for written, _ in values}
            if len(kinds) == 1 and kinds <= {int, float, bool, str}:
                return _PLAIN[kinds.pop()]
        case Many(_, element):
            return {"type": "array", "items": _schema(element, named)}
        case Table(PlainShape(key), value) if key is str:
            return {"type": "map", "values": _schema(value, named)}
        case OneOf(members):
            return [_schema(one, named) for one in members]
        case RecordShape(kind):
            name = kind.__name__
            if name in named:  # by name from the second use on
                return name
            named.add(name)
            fields = [
                {"name": field, "type": _schema(one, named)}
                for field, one in shape.fields.items()
            ]
            return {"type": "record", "name": name, "fields": fields}
    msg = (
        f"a type must have an Avro schema; {describe_shape(shape)} has none; use lists, "
        f"dicts with str keys and tuples with named attributes"
    )
    raise ArgumentError(msg)


def prepare(value: Any) -> Any:  # noqa: PLR0911 - one return per form
    """Return a value in the form that `fastavro` takes: records are dicts.

    >>> prepare((1, {"a": dt.timedelta(seconds=90)}))
    [1, {'a': 'PT90S'}]
    """
    match value:
        case dt.datetime():
            if value.tzinfo is None:
                msg = f"a datetime in Avro must have a zone; got {value!r}"
                raise OutputError(msg)
            return value
        case _ if type(value) in _AS_THEY_ARE:
            return value
        case dict():
            return {key: prepare(one) for key, one in value.items()}
        case _ if hasattr(value, "_fields"):
            return {name: prepare(getattr(value, name)) for name in value._fields}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return {name: prepare(getattr(value, name)) for name in names}
        case list() | tuple() | set() | frozenset():
            return list(map(prepare, value))
    return plain(value)


@functools.lru_cache(maxsize=256)
def _parse_schema(text: str) -> Any:
    avro = require("fastavro", "avro")
    try:
        return avro.parse_schema(json.loads(text))
    except Exception as error:
        msg = f"an Avro schema must be valid; {error}; got {text[:200]}"
        raise ArgumentError(msg) from error


@functools.lru_cache(maxsize=256)
def fetch_schema(registry: str, number: int) -> str:
    """Return a schema by its id in a registry."""
    return str(_ask(registry, f"schemas/ids/{number}", None, InputError)["schema"])


@functools.lru_cache(maxsize=256)
def register_schema(registry: str, subject: str, schema: str) -> int:
    """Register a schema, and return its id."""
    place = f"subjects/{urllib.parse.quote(subject, safe='')}/versions"
    return int(_ask(registry, place, {"schema": schema}, OutputError)["id"])


def _ask(
    registry: str, place: str, data: Any, error_type: type[AnabranchError]
) -> Mapping[str, Any]:
    """Send a request to a registry, whose URL may contain user and password."""
    split = urllib.parse.urlsplit(registry)
    bare = split._replace(netloc=split.netloc.rpartition("@")[2]).geturl().rstrip("/")
    headers = {"Accept": _JSON, "Content-Type": _JSON}
    if split.username is not None:
        pair = f"{urllib.parse.unquote(split.username)}:"
        pair += urllib.parse.unquote(split.password or "")
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(f"{bare}/{place}", body, headers)  # noqa: S310 - http
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310 - http
            found: Mapping[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        told = ""
        if isinstance(error, urllib.error.HTTPError):
            told = f" ({error.read(500).decode(errors='replace').strip()})"
        msg = (
            f"must reach the schema registry at {bare}; {place}: {error}{told}; check "
            f"that it runs and has the schema"
        )
        raise error_type(msg) from error
    return found


class AvroDecoder:
    """Decodes values into items."""

    def __init__(self, type: Any, schema: str | None, registry: str | None) -> None:
        self._avro = require("fastavro", "avro")
        self._convert = converter(shape_of(type))
        self._registry = registry
        self._schema = schema or (None if registry else json.dumps(schema_of(type)))

    def decode(
        self, rows: Sequence[bytes | None], where: Callable[[int], str]
    ) -> list[Any]:
        """Return the item of each row, or a `Malformed` for a bad one."""
        found: list[Any] = []
        for index, row in enumerate(rows):
            try:
                found.append(self._decode_one(row))
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001 - of foreign bytes or the user's type
                found.append(
                    Malformed(row, error, where(index), "correct what is sent")
                )
        return found

    def _decode_one(self, row: bytes | None) -> Any:
        if row is None:
            msg = "must have a value; it is empty"
            raise Unreadable(msg)
        schema, file = self._schema, io.BytesIO(row)
        if self._registry is not None:
            if len(row) < _HEAD.size or row[:1] != _MAGIC:
                msg = "must begin with a zero byte and the number of its schema"
                raise Unreadable(msg)
            schema = fetch_schema(
                self._registry, _HEAD.unpack(file.read(_HEAD.size))[1]
            )
        assert schema is not None  # noqa: S101 - see above
        try:
            value = self._avro.schemaless_reader(file, _parse_schema(schema), None)
        except Exception as error:
            msg = f"must be Avro of its schema; {type(error).__name__}: {error}"
            raise Unreadable(msg) from error
        if file.read(1):
            msg = "must be Avro of its schema; there are bytes behind it"
            raise Unreadable(msg)
        try:
            return self._convert(value)
        except Misfit as misfit:
            raise misfit.refusal(_VALUE) from None


class AvroEncoder:
    """Encodes items as values."""

    def __init__(
        self, type: Any, schema: str | None, registry: str | None, topic: str
    ) -> None:
        self._avro = require("fastavro", "avro")
        self._schema = schema or json.dumps(schema_of(type))
        self._parsed = _parse_schema(self._schema)
        self._registry, self._subject = registry, f"{topic}-value"

    def encode_all(
        self, items: Sequence[Any]
    ) -> tuple[list[tuple[Any, bytes]], list[Malformed]]:
        """Return the items that fit the schema, each with its value, and the others."""
        head = b""
        if self._registry is not None:
            number = register_schema(self._registry, self._subject, self._schema)
            head = _HEAD.pack(0, number)
        found, refused = [], []
        for item in items:
            held = io.BytesIO()
            try:
                self._avro.schemaless_writer(held, self._parsed, prepare(item))
            except Exception as error:  # noqa: BLE001 - it says what does not fit
                told = f"must fit its Avro schema; {type(error).__name__}: {error}"
                refused.append(Malformed(item, OutputError(told)))
            else:
                found.append((item, head + held.getvalue()))
        return found, refused
