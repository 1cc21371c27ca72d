"""Conversion of JSON values to values of a type, with their contents.

Nothing is guessed: a value that does not match its type exactly is refused, with the
path inside the item.

- int, float, bool, str, bytes, None: as in `jsonl`
- Decimal: a number, taken as it is written, or a string
- datetime, date, time, timedelta: a string in ISO format; UUID: a string
- an Enum: the value of a member; a Literal: one of its values
- list, tuple, set, frozenset: a list; dict: an object, its keys converted from strings
- NamedTuple, dataclass, TypedDict: an object, matched by name
- a union: the member that the value can be of; members that look alike are refused
"""

from __future__ import annotations

import datetime as dt
import enum
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from anabranch.connectors.files.rows import Unreadable
from anabranch.connectors.files.values import (
    INT64_MAX,
    INT64_MIN,
    maker,
    parse_duration,
    text_type,
)
from anabranch.graph.shapes import (
    ChoiceShape,
    Many,
    OneOf,
    Other,
    PlainShape,
    RecordShape,
    Row,
    Shape,
    Table,
    all_parts,
    describe_shape,
    json_kinds,
    may_be_none,
)
from anabranch.graph.types import there_is

Convert: TypeAlias = Callable[[Any], Any]  # raises Misfit

_KINDS: dict[type, str] = {
    int: "integer",
    float: "fraction",
    Decimal: "fraction",
    bool: "boolean",
    str: "string",
    type(None): "null",
    list: "list",
    tuple: "list",
    dict: "object",
}
_NAMES: dict[Any, str] = {
    int: "an int of 64 bits",
    float: "a number",
    bool: "true or false",
    str: "a string",
    bytes: "a string",
    type(None): "null",
    Decimal: "a decimal number",
    dt.datetime: "a date and time in ISO format",
    dt.date: "a date in ISO format",
    dt.time: "a time in ISO format",
    dt.timedelta: "a duration in ISO format",
    uuid.UUID: "a UUID",
}


_LIST, _OBJECT = "a list", "an object"


class Misfit(Exception):  # noqa: N818 - the row becomes the error
    """A value that is not of its type; `path` leads to it from the attribute."""

    def __init__(self, must: str, got: Any = None, path: str = "") -> None:
        super().__init__(must, got, path)
        self.must = must
        self.got = got
        self.path = path

    def inside(self, step: str) -> Misfit:
        """Return the misfit as seen from one level further out."""
        return Misfit(self.must, self.got, step + self.path)

    def refusal(self, name: str) -> Unreadable:
        """Return the error of the row, for the attribute `name`."""
        return Unreadable(f"{name + self.path!r} must {self.must}")


def converter(shape: Shape) -> Convert:
    """Return the converter from JSON values to values of a shape.

    >>> from anabranch.graph.shapes import shape_of
    >>> converter(shape_of(dict[int, tuple[str, ...]]))({"7": ["a", "b"]})
    {7: ('a', 'b')}
    """
    return _Builder().build(shape)


def holds_decimals(shapes: Iterable[Shape]) -> bool:
    """Tell whether fractions have to be kept as decimals."""
    return any(PlainShape(Decimal) in all_parts(shape) for shape in shapes)


def as_floats(value: Any) -> Any:
    """Return a value with floats in place of decimals, recursively.

    >>> as_floats([Decimal("0.5"), {"a": Decimal("1e3")}])
    [0.5, {'a': 1000.0}]
    """
    if type(value) is Decimal:
        return float(value)
    if type(value) is list:
        return [as_floats(one) for one in value]
    if type(value) is dict:
        return {name: as_floats(one) for name, one in value.items()}
    return value


class _Builder:
    """Makes the converters of a type, one per record: types may be recursive."""

    def __init__(self) -> None:
        self._records: dict[int, Convert] = {}

    def build(self, shape: Shape) -> Convert:  # noqa: PLR0911 - one return per form
        match shape:
            case PlainShape(kind):
                return _plain(kind)
            case ChoiceShape(_, values):
                return _choice(shape, values)
            case Many(make, element):
                return _many(make, self.build(element))
            case Row(elements):
                return _row(shape, [self.build(one) for one in elements])
            case Table(key, value):
                return _table(key_converter(key), self.build(value))
            case RecordShape():
                return self._record(shape)
            case OneOf(members):
                return self._one_of(shape, members)
        return _other(shape)

    def _record(self, shape: RecordShape) -> Convert:
        known = id(shape.type)
        if known not in self._records:
            self._records[known] = lambda value: made(value)  # noqa: PLW0108 - not yet
            made = _record(shape, self._members(shape))
        return self._records[known]

    def _members(self, shape: RecordShape) -> dict[str, Convert]:
        return {name: self.build(one) for name, one in shape.fields.items()}

    def _one_of(self, shape: Shape, members: tuple[Shape, ...]) -> Convert:
        by_kind: dict[str, Convert] = {}
        by_type: dict[Any, Convert] = {}
        for member in members:
            convert = self.build(member)
            for kind in json_kinds(member, members):
                by_kind.setdefault(kind, convert)
            if isinstance(member, PlainShape):  # Avro has times and bytes of its own
                by_type[member.type] = convert

        def convert_one(value: Any) -> Any:
            kind = type(value)
            found = by_kind.get(_KINDS.get(kind, "")) or by_type.get(kind)
            if found is None:
                raise _misfit(shape, value)
            return found(value)

        return convert_one


def _plain(kind: Any) -> Convert:
    if kind is Any:
        return as_floats
    convert = _PLAIN[kind]
    name = _NAMES[kind]

    def convert_plain(value: Any) -> Any:
        if type(value) is kind and kind is not int:
            return value
        try:
            return convert(value)
        except (ValueError, TypeError, InvalidOperation, OverflowError):
            raise _not(name, value) from None

    return convert_plain


def _int(value: Any) -> int:
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        raise ValueError
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float, Decimal):
        raise ValueError
    return float(value)


def _exactly(kind: type) -> Convert:
    def same(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError
        return value

    return same


def _text_to(make: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise ValueError
        return make(value)

    return convert


def _decimal(value: Any) -> Decimal:
    if type(value) is str and ("_" in value or value != value.strip()):
        raise ValueError
    if type(value) is float:  # NaN or Infinity, or already parsed as a float
        return Decimal(repr(value))
    if type(value) not in (str, int):
        raise ValueError
    return Decimal(value)


_PLAIN: dict[Any, Convert] = {
    int: _int,
    float: _float,
    bool: _exactly(bool),
    str: _exactly(str),
    type(None): _exactly(type(None)),
    bytes: _text_to(str.encode),
    Decimal: _decimal,
    dt.datetime: _text_to(dt.datetime.fromisoformat),
    dt.date: _text_to(dt.date.fromisoformat),
    dt.time: _text_to(dt.time.fromisoformat),
    dt.timedelta: _text_to(parse_duration),
    uuid.UUID: _text_to(uuid.UUID),
}


def _choice(shape: ChoiceShape, values: tuple[tuple[Any, Any], ...]) -> Convert:
    meanings = {(type(written), written): meant for written, meant in values}
    kind = shape.annotation
    flags = isinstance(kind, type) and issubclass(kind, enum.Flag)

    def convert(value: Any) -> Any:
        try:
            if flags and type(value) is int:
                return kind(value)
            return meanings[type(value), value]
        except (KeyError, TypeError, ValueError):
            shown = ", ".join(repr(written) for written, _ in values)
            must = f"be one of {shown}; got {value!r}"
            raise Misfit(must, value) from None

    return convert


def _many(make: Any, element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _not(_LIST, value)
        try:
            made = list(map(element, value))
        except Misfit:
            for number, one in enumerate(value):
                _inside(f"[{number}]", element, one)
            raise
        if make is list:
            return made
        try:
            return make(made)
        except TypeError as error:  # unhashable
            must = f"be made of values that can be in a {make.__name__}; {error}"
            raise Misfit(must, value) from None

    return convert


def _row(shape: Row, elements: list[Convert]) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not list or len(value) != len(elements):
            raise _misfit(shape, value)
        pairs = enumerate(zip(elements, value, strict=True))
        return tuple(_inside(f"[{n}]", element, one) for n, (element, one) in pairs)

    return convert


def _table(key: Convert, element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _not(_OBJECT, value)
        return {
            _inside(f"[{name!r}]", key, name): _inside(f"[{name!r}]", element, one)
            for name, one in value.items()
        }

    return convert


def _record(shape: RecordShape, members: Mapping[str, Convert]) -> Convert:
    is_dict = typing.is_typeddict(shape.type)
    make = None if is_dict else maker(shape.type)
    free = optional_names(shape)
    left_out = shape.type.__optional_keys__ if is_dict else frozenset()
    wanted = f"{_OBJECT} with the members {', '.join(members)}"

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _not(wanted, value)
        made = {}
        for name, member in members.items():
            if name in value:
                made[name] = _inside(f".{name}", member, value[name])
            elif name in free:
                made[name] = None
            elif name not in left_out:
                there = there_is(name, value, "member")
                must = f"have the member {name!r}; it is missing; {there}"
                raise Misfit(must, value)
        return made if make is None else make(tuple(made.values()))

    return convert


def optional_names(shape: RecordShape) -> frozenset[str]:
    """Return the attributes of a record that may be None."""
    return frozenset(
        name
        for name, one in shape.fields.items()
        if may_be_none(one) and one != PlainShape(Any)
    )


def key_converter(shape: Shape) -> Convert:
    """Return the converter from JSON strings to dictionary keys."""
    if isinstance(shape, PlainShape) and shape.type in (int, float):
        known = text_type(shape.type)
        assert known is not None  # noqa: S101

        def convert(text: Any) -> Any:
            try:
                return known.one(text)
            except ValueError:
                raise _not(known.name, text) from None

        return convert
    return converter(shape)


def _other(shape: Shape) -> Convert:
    assert isinstance(shape, Other)  # noqa: S101

    def convert(value: Any) -> Any:
        if isinstance(shape.annotation, type) and isinstance(value, shape.annotation):
            return value
        raise _misfit(shape, value)

    return convert


def _inside(step: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except Misfit as misfit:
        raise misfit.inside(step) from None


def _misfit(shape: Shape, value: Any) -> Misfit:
    return _not(describe_shape(shape), value)


def _not(name: str, value: Any) -> Misfit:
    return Misfit(f"be {name}; got {'null' if value is None else repr(value)}", value)
