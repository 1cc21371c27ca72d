r"""JSON lines: one value a line; lines of nothing are not rows.

An object is matched to the attributes by name and its other members are ignored; for a
scalar type the line is the value. A value must be of the attribute's type:

- int: written without a fraction, within 64 bits; true and false are no numbers
- float: any number; one that is written as an int becomes a float
- bool, str; bytes: a string, which stands for its UTF-8
- list, dict: as they stand, unchecked inside; `Any` takes everything
- T | None: null is None, and so is a member that is missing
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_origin

from anabranch.errors import InputError
from anabranch.graph.attributes import there_is
from anabranch.graph.types import fields_of, optional_of, type_name
from anabranch.runtime.reading.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    RowParser,
    Unreadable,
    behind,
)
from anabranch.runtime.reading.text import lines_of
from anabranch.runtime.reading.values import INT64_MAX, INT64_MIN, VALUE, maker


class _Missing:
    """Stands for a member that an object does not have."""


_MISSING = _Missing()
_NOTHING = (type(None), _Missing)


@dataclass(frozen=True)
class _JsonType:
    """Which Python types JSON may give for an attribute, and what is made of them."""

    name: str
    accepts: frozenset[type]
    convert: Callable[[list[Any]], list[Any]] = list


class JsonParser(RowParser):
    r"""Parses JSON lines into items of a type.

    >>> list(JsonParser(int, "n.jsonl").parse(b"1\n2\n", Position(1, 1), print))
    [(1, 1), (2, 2)]
    """

    def __init__(self, kind: Any, path: str) -> None:
        self._fields = fields_of(kind)
        self._make = maker(kind)
        self._columns = [
            _Column(name, annotation, path)
            for name, annotation in (self._fields or {VALUE: kind}).items()
        ]

    def at_once(self, data: bytes) -> list[Any] | None:
        try:
            return self._items([json.loads(line) for line in lines_of(data) if line])
        except Exception:  # noqa: BLE001 - whatever it is, line by line it has a place
            return None

    def one_by_one(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        number = at.row
        for offset, line in enumerate(lines_of(data)):
            if not line:
                continue
            try:
                (item,) = self._items([_loaded(line)])
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
            return column.checked(values)
        if not set(map(type, values)) <= {dict}:
            wrong = next(value for value in values if type(value) is not dict)
            members = ", ".join(self._fields)
            msg = f"must be an object with the members {members}; got {wrong!r}"
            raise Unreadable(msg)
        columns = [column.of_objects(values) for column in self._columns]
        return list(map(self._make, zip(*columns, strict=True)))


class _Column:
    """One attribute of the objects, or the scalar itself."""

    def __init__(self, name: str, annotation: Any, path: str) -> None:
        inner = optional_of(annotation)
        known = _json_type(annotation if inner is None else inner)
        if known is None:
            msg = (
                f"{path}: attribute {name!r} must be an int, float, bool, str, bytes, "
                f"list or dict, or one of these | None, to be read from JSON; it is "
                f"{type_name(annotation)}; read it as Any and convert it in a map"
            )
            raise InputError(msg)
        self._name = name
        self._known = known
        self._optional = inner is not None

    def of_objects(self, objects: list[dict[str, Any]]) -> list[Any]:
        name = self._name
        try:
            return self.checked([members.get(name, _MISSING) for members in objects])
        except _MissingMemberError:
            there = next(members for members in objects if name not in members)
            msg = (
                f"must have the member {name!r}; it is missing; "
                f"{there_is(name, there, 'member')}"
            )
            raise Unreadable(msg) from None

    def checked(self, values: list[Any]) -> list[Any]:
        if not self._optional:
            return self._required(values)
        present = [v for v in values if not isinstance(v, _NOTHING)]
        given = iter(self._required(present))
        return [None if isinstance(v, _NOTHING) else next(given) for v in values]

    def _required(self, values: list[Any]) -> list[Any]:
        types = set(map(type, values))
        if _Missing in types:
            raise _MissingMemberError
        if self._known.accepts and not types <= self._known.accepts:
            self._refuse(next(v for v in values if type(v) not in self._known.accepts))
        if int in types and self._known is _INT:
            for extreme in (min(values), max(values)):
                if not INT64_MIN <= extreme <= INT64_MAX:
                    self._refuse(extreme)
        return self._known.convert(values)

    def _refuse(self, value: Any) -> None:
        also = " or null" if self._optional else ""
        msg = f"{self._name!r} must be {self._known.name}{also}; got {value!r}"
        raise Unreadable(msg)


class _MissingMemberError(Exception):
    """An object lacks a member that its type needs."""


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:  # not UTF-8, or not JSON
        text = line.decode("utf-8", "backslashreplace")
        msg = f"must be JSON; {error}; got {text!r}"
        raise Unreadable(msg) from None


def _json_type(annotation: Any) -> _JsonType | None:
    if annotation is Any:
        return _ANYTHING
    origin = get_origin(annotation) or annotation
    return _JSON_TYPES.get(origin) if isinstance(origin, type) else None


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
