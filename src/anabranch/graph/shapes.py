"""The structure of the values of a type, so that data can be read into it.

A *shape* is the type as plain data: scalars, choices among values, and containers.
Sources convert what they read by the shape of each attribute; a type that a source
cannot produce is refused before anything runs.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import types
import typing
import uuid
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from anabranch.graph.types import (
    SCALARS,
    constructor_fields,
    fields_of,
    members_of,
    type_name,
)

TEXTS: tuple[type, ...] = (
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    uuid.UUID,
)
_MANY: dict[Any, Any] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Set: frozenset,
    collections.abc.MutableSequence: list,
    collections.abc.MutableSet: set,
}
_TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@dataclass(frozen=True)
class PlainShape:
    """A value without parts: a scalar, a date, a Decimal, a UUID, None; or anything."""

    type: Any


@dataclass(frozen=True)
class ChoiceShape:
    """One of some values, each with its written form: an Enum or a Literal."""

    annotation: Any
    values: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Many:
    """Any number of values of one shape, collected by `make`."""

    make: Any
    element: Shape


@dataclass(frozen=True)
class Row:
    """A tuple of a fixed number of values."""

    elements: tuple[Shape, ...]


@dataclass(frozen=True)
class Table:
    """A dictionary."""

    key: Shape
    value: Shape


@dataclass(frozen=True)
class RecordShape:
    """A value with attributes; those of a `TypedDict` are its members."""

    type: Any

    @cached_property
    def fields(self) -> Mapping[str, Shape]:
        """The shape of each attribute that the constructor takes."""
        members = members_of(self.type)
        taken = constructor_fields(self.type) if members is None else members
        return {name: shape_of(annotation) for name, annotation in taken.items()}


@dataclass(frozen=True)
class OneOf:
    """A value of any of some shapes."""

    members: tuple[Shape, ...]


@dataclass(frozen=True)
class Other:
    """A type of which nothing is known."""

    annotation: Any


Shape: TypeAlias = (
    PlainShape | ChoiceShape | Many | Row | Table | RecordShape | OneOf | Other
)
ANYTHING = PlainShape(Any)
NOTHING = PlainShape(type(None))


def shape_of(annotation: Any) -> Shape:  # noqa: C901, PLR0911, PLR0912 - one case per form of a type
    """Return the shape of a type.

    >>> shape_of(list[int])
    Many(make=<class 'list'>, element=PlainShape(type=<class 'int'>))
    >>> shape_of(complex)
    Other(annotation=<class 'complex'>)
    """
    if not isinstance(annotation, Hashable):
        return Other(annotation)
    if annotation in (Any, object) or isinstance(annotation, typing.TypeVar):
        return ANYTHING
    if annotation in (None, type(None)):
        return NOTHING
    if annotation in (*SCALARS, *TEXTS, Decimal):
        return PlainShape(annotation)
    if isinstance(annotation, typing.NewType):
        return shape_of(annotation.__supertype__)
    if hasattr(annotation, "__value__"):  # `type X = ...`
        return shape_of(annotation.__value__)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin in (typing.Required, typing.NotRequired):
        return shape_of(args[0])
    if origin is Literal:
        return ChoiceShape(annotation, tuple((value, value) for value in args))
    if origin in (typing.Union, types.UnionType):
        return _union(annotation, [shape_of(arg) for arg in args])
    known = origin or annotation
    if known is tuple:
        if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - tuple[T, ...]
            return Many(tuple, shape_of(args[0]))
        return Row(tuple(map(shape_of, args))) if args else Many(tuple, ANYTHING)
    if known in _MANY:
        return Many(_MANY[known], shape_of(args[0]) if args else ANYTHING)
    if known in _TABLES:
        key, value = args or (Any, Any)
        return Table(shape_of(key), shape_of(value))
    if typing.is_typeddict(annotation) or fields_of(annotation) is not None:
        return RecordShape(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ChoiceShape(annotation, tuple((one.value, one) for one in annotation))
    return Other(annotation)


def _union(annotation: Any, members: list[Shape]) -> Shape:
    if ANYTHING in members:
        return ANYTHING
    if all(isinstance(member, ChoiceShape) for member in members):
        values = (
            member.values for member in members if isinstance(member, ChoiceShape)
        )
        return ChoiceShape(annotation, tuple(pair for some in values for pair in some))
    return OneOf(tuple(members))


def may_be_none(shape: Shape) -> bool:
    """Tell whether None is a value of a shape.

    >>> may_be_none(shape_of(int | None)), may_be_none(shape_of(list[None]))
    (True, False)
    """
    match shape:
        case PlainShape(kind):
            return kind is Any or kind is type(None)
        case ChoiceShape(_, values):
            return any(value is None for value, _ in values)
        case OneOf(members):
            return any(map(may_be_none, members))
    return False


def parts_of(shape: Shape) -> tuple[Shape, ...]:
    """Return the direct parts of a shape."""
    match shape:
        case Many(_, element):
            return (element,)
        case Row(elements):
            return elements
        case Table(key, value):
            return key, value
        case RecordShape():
            return tuple(shape.fields.values())
        case OneOf(members):
            return members
    return ()


def all_parts(shape: Shape) -> Iterator[Shape]:
    """Yield a shape and all its parts, each once; types may be recursive.

    >>> list(all_parts(shape_of(list[int])))[1:]
    [PlainShape(type=<class 'int'>)]
    """
    seen: list[Shape] = []
    waiting = [shape]
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.append(part)
            yield part
            waiting += parts_of(part)


def why_not_json(annotation: Any) -> str | None:
    """Return why values of a type cannot be read from JSON, or None.

    >>> why_not_json(dict[str, list[float]])
    >>> why_not_json(list[complex])
    'nothing in JSON is a complex'
    """
    return next(filter(None, map(_why_not_json, all_parts(shape_of(annotation)))), None)


def _why_not_json(shape: Shape) -> str | None:
    match shape:
        case Other(annotation):
            shown = repr(annotation) if isinstance(annotation, str) else None
            return f"nothing in JSON is a {shown or type_name(annotation)}"
        case ChoiceShape(annotation, values) if None in [
            _json_kind(v) for v, _ in values
        ]:
            return f"the values of {type_name(annotation)} are not all JSON"
        case Table(key, _) if not _is_written_as_text(key):
            return f"a key in JSON is a string, and no {describe_shape(key)}"
        case OneOf(members):
            return _why_not_told_apart(members)
    return None


def why_not_column(annotation: Any) -> str | None:
    """Return why the values of a type cannot all be in one column, or None.

    >>> why_not_column(list[int | None]), why_not_column(int | float)
    (None, None)
    >>> why_not_column(list[int | str])
    'int and str have no type in common'
    """
    found = map(_why_not_column, all_parts(shape_of(annotation)))
    return next(filter(None, found), None)


def _why_not_column(shape: Shape) -> str | None:
    if not isinstance(shape, OneOf | ChoiceShape):
        return None
    kinds = dict.fromkeys(kind for kind in _column_kinds(shape) if kind != NOTHING)
    if len(kinds) < 2 or set(kinds) == {PlainShape(int), PlainShape(float)}:  # noqa: PLR2004
        return None
    return f"{' and '.join(map(describe_shape, kinds))} have no type in common"


def _column_kinds(shape: Shape) -> Iterator[Shape]:
    """Yield the alternatives of a shape; an Enum or a Literal is its values."""
    match shape:
        case ChoiceShape(_, values):
            yield from (shape_of(type(value)) for value, _ in values)
        case OneOf(members):
            for member in members:
                yield from _column_kinds(member)
        case _:
            yield shape


def _why_not_told_apart(members: tuple[Shape, ...]) -> str | None:
    seen: dict[str, Shape] = {}
    for member in members:
        for kind in sorted(json_kinds(member, members)):
            if kind in seen:
                return (
                    f"{describe_shape(seen[kind])} and {describe_shape(member)} cannot be "
                    f"told apart in JSON"
                )
            seen[kind] = member
    return None


def json_kinds(  # noqa: PLR0911 - one return per form
    shape: Shape, among: tuple[Shape, ...] = ()
) -> frozenset[str]:
    """Return the kinds of JSON for a shape, `among` the members of a union.

    >>> sorted(json_kinds(shape_of(float)))
    ['fraction', 'integer']
    >>> sorted(json_kinds(shape_of(float), (shape_of(int), shape_of(float))))
    ['fraction']
    """
    match shape:
        case PlainShape(kind) if kind is float or kind is Decimal:
            numbers = (
                {"fraction"} if PlainShape(int) in among else {"integer", "fraction"}
            )
            return frozenset(numbers | ({"string"} if kind is Decimal else set()))
        case PlainShape(kind):
            return frozenset(
                {"string"} if kind not in _JSON_KINDS else {_JSON_KINDS[kind]}
            )
        case ChoiceShape(_, values):
            return frozenset(kind for v, _ in values if (kind := _json_kind(v)))
        case Many() | Row():
            return frozenset({"list"})
        case Table() | RecordShape():
            return frozenset({"object"})
        case OneOf(members):
            return frozenset().union(*(json_kinds(one, members) for one in members))
    return frozenset()


_JSON_KINDS: dict[Any, str] = {
    int: "integer",
    float: "fraction",
    bool: "boolean",
    str: "string",
    type(None): "null",
}


def _json_kind(value: Any) -> str | None:
    return _JSON_KINDS.get(type(value))


def _is_written_as_text(shape: Shape) -> bool:
    match shape:
        case PlainShape(kind):
            return kind is not type(None) and kind is not bool
        case ChoiceShape(_, values):
            return all(isinstance(value, str) for value, _ in values)
    return False


def describe_shape(shape: Shape) -> str:  # noqa: PLR0911 - one return per form
    """Return a shape as written in messages.

    >>> describe_shape(shape_of(list[int] | None))
    'list[int] | None'
    """
    match shape:
        case PlainShape(kind):
            return "None" if kind is type(None) else type_name(kind)
        case ChoiceShape(annotation) | Other(annotation):
            return type_name(annotation)
        case RecordShape(kind):
            return type_name(kind)
        case Many(make, element):
            rest = ", ..." if make is tuple else ""
            return f"{make.__name__}[{describe_shape(element)}{rest}]"
        case Row(elements):
            return f"tuple[{', '.join(map(describe_shape, elements))}]"
        case Table(key, value):
            return f"dict[{describe_shape(key)}, {describe_shape(value)}]"
        case OneOf(members):
            return " | ".join(map(describe_shape, members))
