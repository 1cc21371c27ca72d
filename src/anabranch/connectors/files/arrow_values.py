"""From values as Arrow gives them to values of a type, with all that is in them.

A struct becomes a record, a map a dictionary. What Arrow has of its own (integers,
decimals, timestamps) must be of the type; strings are converted as those of JSON are.
Whether a column fits its type is known from its schema, before a row is read.
"""

from __future__ import annotations

import datetime as dt
import typing
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from anabranch.connectors.files.nested import Convert, Misfit, converter, optional_names
from anabranch.connectors.files.values import maker
from anabranch.graph.shapes import (
    NOTHING,
    ChoiceShape,
    Many,
    OneOf,
    Other,
    PlainShape,
    RecordShape,
    Row,
    Shape,
    Table,
    describe_shape,
    may_be_none,
)

_UUID_BYTES = 16


class NoFitError(Exception):
    """A column that cannot hold values of a type."""


def same(value: Any) -> Any:
    """Return the value: it is of the type already."""
    return value


def fit(shape: Shape, held: Any) -> Convert:
    """Return what makes values of a shape of those of an Arrow type; `same`: nothing.

    >>> from anabranch.graph.shapes import shape_of
    >>> fit(shape_of(dict[str, float]), pa.map_(pa.string(), pa.int64()))([("a", 1)])
    {'a': 1.0}
    >>> fit(shape_of(int), pa.int32()) is same
    True
    """
    if pa.types.is_dictionary(held):
        held = held.value_type
    if shape == PlainShape(Any):
        return same
    if isinstance(shape, OneOf):
        return _one_of(shape, held)
    make = _FITS[type(shape)](shape, held)
    if make is None:
        raise NoFitError
    return make


def _refuse_null(shape: Shape, held: Any) -> Convert:
    """Return the converter of what is inside of something: a null there is refused."""
    nothing = pa.types.is_null(held)  # an empty list, where a type was inferred
    convert = same if nothing else fit(shape, held)
    if may_be_none(shape) or (isinstance(shape, OneOf) and not nothing):
        return convert

    def convert_present(value: Any) -> Any:
        if value is None:
            must = f"be {describe_shape(shape)}; got null"
            raise Misfit(must)
        return value if convert is same else convert(value)

    return convert_present


def _one_of(shape: OneOf, held: Any) -> Convert:
    optional = NOTHING in shape.members
    for member in shape.members:
        if member == NOTHING:
            continue
        try:
            convert = _refuse_null(member, held)
        except NoFitError:
            continue
        return lambda value: None if value is None and optional else convert(value)
    if optional and pa.types.is_null(held):
        return same
    raise NoFitError


def _plain(shape: PlainShape, held: Any) -> Convert | None:
    kind, natural = shape.type, natural_type(held)
    if natural is kind:
        return same
    if kind is float and natural is int:
        return float
    if kind is Decimal and natural is int:
        return Decimal
    if kind is uuid.UUID and natural is bytes:
        return _uuid
    if natural is str and kind in (Decimal, dt.datetime, dt.date, dt.time, uuid.UUID):
        return converter(shape)
    return None


def _uuid(value: bytes) -> uuid.UUID:
    if len(value) != _UUID_BYTES:
        must = f"be a UUID; got {value!r}"
        raise Misfit(must, value)
    return uuid.UUID(bytes=value)


def _choice(shape: ChoiceShape, held: Any) -> Convert | None:
    written = {type(value) for value, _ in shape.values}
    return converter(shape) if natural_type(held) in written else None


def _many(shape: Many, held: Any) -> Convert | None:
    if not _is_list(held):
        return None
    make, element = shape.make, _refuse_null(shape.element, held.value_type)
    if element is same:
        return same if make is list else _collect(make)

    def convert(value: Any) -> Any:
        return make(_at(f"[{n}]", element, one) for n, one in enumerate(value))

    return convert


def _collect(make: Any) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return make(value)
        except TypeError as error:
            must = f"be made of values that can be in a {make.__name__}; {error}"
            raise Misfit(must, value) from None

    return convert


def _row(shape: Row, held: Any) -> Convert | None:
    count = len(shape.elements)
    if pa.types.is_struct(held):
        if held.num_fields != count:
            return None
        kinds = [held.field(number).type for number in range(count)]
        take: Callable[[Any], Any] = lambda value: list(value.values())  # noqa: E731
    elif _is_list(held):
        kinds, take = [held.value_type] * count, same
    else:
        return None
    pairs = zip(shape.elements, kinds, strict=True)
    elements = [_refuse_null(element, kind) for element, kind in pairs]

    def convert(value: Any) -> Any:
        values = take(value)
        if len(values) != count:
            must = f"be {describe_shape(shape)}; got {value!r}"
            raise Misfit(must, value)
        numbered = enumerate(zip(elements, values, strict=True))
        return tuple(_at(f"[{n}]", element, one) for n, (element, one) in numbered)

    return convert


def _table(shape: Table, held: Any) -> Convert | None:
    if pa.types.is_map(held):
        key = _refuse_null(shape.key, held.key_type)
        element = _refuse_null(shape.value, held.item_type)

        def convert_pairs(value: Any) -> Any:
            return {
                _at(f"[{name!r}]", key, name): _at(f"[{name!r}]", element, one)
                for name, one in value
            }

        return convert_pairs
    if not pa.types.is_struct(held) or shape.key not in (
        PlainShape(str),
        PlainShape(Any),
    ):
        return None
    members = {field.name: _refuse_null(shape.value, field.type) for field in held}

    def convert(value: Any) -> Any:
        return {name: _at(f"[{name!r}]", members[name], value[name]) for name in value}

    return convert


def _record(shape: RecordShape, held: Any) -> Convert | None:
    if not pa.types.is_struct(held):
        return None
    free = optional_names(shape)
    there = {field.name: field.type for field in held}
    is_dict = typing.is_typeddict(shape.type)
    left_out = shape.type.__optional_keys__ if is_dict else free
    if not set(shape.fields) - set(left_out) <= set(there):
        return None
    members: Mapping[str, Convert] = {
        name: _refuse_null(one, there[name])
        for name, one in shape.fields.items()
        if name in there
    }
    make = None if is_dict else maker(shape.type)

    def convert(value: Any) -> Any:
        made = {
            name: _at(f".{name}", member, value[name])
            for name, member in members.items()
        }
        if make is None:
            return made
        return make(tuple(made.get(name) for name in shape.fields))

    return convert


def _other(shape: Other, held: Any) -> Convert | None:
    """Take what Arrow gives where it may be of the type; each value is looked at."""
    kind, natural = shape.annotation, natural_type(held)
    if not isinstance(kind, type) or natural is None:
        return None
    if not (issubclass(kind, natural) or issubclass(natural, kind)):
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            must = f"be {describe_shape(shape)}; got {value!r}"
            raise Misfit(must, value)
        return value

    return convert


def _at(step: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except Misfit as misfit:
        raise misfit.inside(step) from None


def _is_list(held: Any) -> bool:
    return bool(
        pa.types.is_list(held)
        or pa.types.is_large_list(held)
        or pa.types.is_fixed_size_list(held)
    )


def natural_type(held: Any) -> type | None:
    """Return the Python type of the values of an Arrow type.

    >>> natural_type(pa.int8()), natural_type(pa.date32())
    (<class 'int'>, <class 'datetime.date'>)
    """
    return next((kind for test, kind in _NATURAL if test(held)), None)


_NATURAL: tuple[tuple[Callable[[Any], bool], type], ...] = (
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_boolean, bool),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_fixed_size_binary, bytes),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_timestamp, dt.datetime),
    (pa.types.is_date, dt.date),
    (pa.types.is_time, dt.time),
    (pa.types.is_duration, dt.timedelta),
    (pa.types.is_null, type(None)),
    (lambda held: str(held) == "extension<arrow.uuid>", uuid.UUID),
)

_FITS: dict[Any, Callable[[Any, Any], Convert | None]] = {
    PlainShape: _plain,
    ChoiceShape: _choice,
    Many: _many,
    Row: _row,
    Table: _table,
    RecordShape: _record,
    Other: _other,
}
