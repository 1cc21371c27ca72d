"""Nested conversion between values of a type and Arrow values.

Reading: a struct becomes a record, a map a dictionary. Arrow's own values (integers,
decimals, timestamps) must be of the type; strings are converted like those of JSON.
Whether a column fits its type is known from its schema, before a row is read.

Writing: records become structs, dicts maps, tuples of a fixed length structs with
numbered members, Enums their values; Decimals have 20 digits before the point and 18
after it. If the type leaves it open (a datetime may have a zone), Arrow infers the
column's type from its values.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from anabranch.graph.types import SCALARS

_UUID_BYTES = 16


class NoFitError(Exception):
    """A column that cannot hold values of a type."""


def same(value: Any) -> Any:
    """Return the value unchanged: it already has the type."""
    return value


def fit(shape: Shape, held: Any) -> Convert:
    """Return the converter from an Arrow type to a shape; `same` if there is nothing to
    do.

    >>> from anabranch.graph.shapes import shape_of
    >>> fit(shape_of(dict[str, float]), pa.map_(pa.string(), pa.int64()))([("a", 1)])
    {'a': 1.0}
    >>> fit(shape_of(int), pa.int32()) is same
    True
    """
    if pa.types.is_dictionary(held):
        held = held.value_type
    if shape == PlainShape(Any):
        return _take_any(held)
    if isinstance(shape, OneOf):
        return _one_of(shape, held)
    make = _FITS[type(shape)](shape, held)
    if make is None:
        raise NoFitError
    return make


def _take_any(held: Any) -> Convert:
    """Return the converter for an untyped value: Arrow gives a map as pairs.

    >>> _take_any(pa.list_(pa.map_(pa.string(), pa.int64())))([[("a", 1)], None])
    [{'a': 1}, None]
    """
    if pa.types.is_map(held):
        key, one = _take_any(held.key_type), _take_any(held.item_type)
        return _unless_null(lambda pairs: {key(k): one(v) for k, v in pairs})
    if pa.types.is_list(held) or pa.types.is_large_list(held):
        inner = _take_any(held.value_type)
        if inner is not same:
            return _unless_null(lambda values: [inner(value) for value in values])
    if pa.types.is_struct(held):
        inside = {field.name: _take_any(field.type) for field in held}
        if any(one is not same for one in inside.values()):
            return _unless_null(lambda row: {n: inside[n](v) for n, v in row.items()})
    return same


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _refuse_null(shape: Shape, held: Any) -> Convert:
    """Return the converter of a nested value, which refuses null."""
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
    """Return a converter for a value that may be of the type; each is checked."""
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


ARROW_TYPES: Mapping[Any, Any] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    Decimal: pa.decimal128(38, 18),  # as Spark takes them
}
_INSIDE: Mapping[Any, Any] = {  # of something; a column of these is inferred
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.timedelta: pa.duration("us"),
}


_NUMBERS = {PlainShape(int), PlainShape(float)}  # Arrow makes floats of both
_SOME_UUID = uuid.UUID(int=0)  # Arrow says what it makes of one


def arrow_type(shape: Shape, above: tuple[Shape, ...] = (), unknown: Any = None) -> Any:
    """Return the Arrow type of a shape's values; None if the shape does not determine
    it.

    With `unknown`, this stands for each part that the shape does not determine.

    >>> from anabranch.graph.shapes import shape_of
    >>> arrow_type(shape_of(dict[str, list[int]]))
    MapType(map<string, list<item: int64>>)
    >>> arrow_type(shape_of(int | str))
    >>> arrow_type(shape_of(tuple[dt.datetime, dt.date]), unknown=pa.null())
    StructType(struct<value_1: null, value_2: date32[day]>)
    """
    if shape in above:  # a type that contains itself
        return unknown
    above = (*above, shape)
    match shape:
        case PlainShape(kind):
            inside = _INSIDE.get(kind) if above[1:] or unknown is not None else None
            if kind is uuid.UUID and unknown is not None:
                inside = pa.array([_SOME_UUID]).type
            return ARROW_TYPES.get(kind, inside if inside is not None else unknown)
        case ChoiceShape(_, values):
            kinds = {type(value) for value, _ in values}
            return ARROW_TYPES.get(kinds.pop()) if len(kinds) == 1 else unknown
        case OneOf(members):
            others = [member for member in members if member != NOTHING]
            if set(others) == _NUMBERS:
                return pa.float64()
            one = others[0] if len(others) == 1 else None
            return unknown if one is None else arrow_type(one, above[:-1], unknown)
    return _find_inner_type(shape, above, unknown)


def _find_inner_type(shape: Shape, above: tuple[Shape, ...], unknown: Any) -> Any:
    match shape:
        case Many(_, element):
            inner = arrow_type(element, above, unknown)
            return None if inner is None else pa.list_(inner)
        case Table(key, value):
            pair = tuple(arrow_type(one, above, unknown) for one in (key, value))
            return None if None in pair else pa.map_(*pair)
        case Row(elements):
            named = {f"value_{n}": one for n, one in enumerate(elements, 1)}
        case RecordShape():
            named = dict(shape.fields)
        case _:
            return unknown
    fields = {name: arrow_type(one, above, unknown) for name, one in named.items()}
    if None in fields.values():
        return None
    return pa.struct(list(fields.items()))


def settle_type(held: Any) -> Any:
    """Return an inferred type in a form common to all values of its kind.

    >>> settle_type(pa.list_(pa.timestamp("us", "+05:30")))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    kinds = pa.types
    if kinds.is_decimal(held):
        return ARROW_TYPES[Decimal]
    if kinds.is_timestamp(held) and held.tz is not None:
        return pa.timestamp(held.unit, "UTC")
    if kinds.is_list(held):
        return pa.list_(settle_type(held.value_type))
    if kinds.is_struct(held):
        return pa.struct([(one.name, settle_type(one.type)) for one in held])
    return held


def join_types(one: Any, other: Any) -> Any:
    """Return the type that holds the values of both unchanged; None if none does.

    Only a column without values yet, such as one of None, can change its type.

    >>> join_types(pa.list_(pa.null()), pa.list_(pa.int64()))
    ListType(list<item: int64>)
    >>> join_types(pa.int64(), pa.float64())
    """
    kinds = pa.types
    if kinds.is_null(one) or kinds.is_null(other):
        return other if kinds.is_null(one) else one
    if kinds.is_list(one) and kinds.is_list(other):
        inner = join_types(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if kinds.is_struct(one) and kinds.is_struct(other):
        if [field.name for field in one] != [field.name for field in other]:
            return None
        pairs = zip(one, other, strict=True)
        fields = [(a.name, join_types(a.type, b.type)) for a, b in pairs]
        return None if None in dict(fields).values() else pa.struct(fields)
    return one if one == other else None


def fill_type(held: Any, known: Any) -> Any:
    """Return a type whose parts without values are as another one has them.

    >>> fill_type(pa.list_(pa.null()), pa.large_list(pa.int64()))
    ListType(list<item: int64>)
    """
    kinds = pa.types
    if kinds.is_null(held):
        return known
    if _is_list(held) and _is_list(known):
        return pa.list_(fill_type(held.value_type, known.value_type))
    if kinds.is_struct(held) and kinds.is_struct(known):
        there = {field.name: field.type for field in known}
        fields = [(f.name, fill_type(f.type, there.get(f.name, f.type))) for f in held]
        return pa.struct(fields)
    return held


def plain_type(held: Any) -> Any:
    """Return a type without extensions: a UUID is 16 bytes.

    >>> plain_type(pa.list_(pa.uuid()))
    ListType(list<item: fixed_size_binary[16]>)
    """
    if isinstance(held, pa.BaseExtensionType):
        return held.storage_type
    if pa.types.is_list(held):
        return pa.list_(plain_type(held.value_type))
    if pa.types.is_map(held):
        return pa.map_(plain_type(held.key_type), plain_type(held.item_type))
    if pa.types.is_struct(held):
        return pa.struct([(one.name, plain_type(one.type)) for one in held])
    return held


def list_parts(held: Any) -> list[Any]:
    """Return a type and those inside it.

    >>> list_parts(pa.list_(pa.null()))
    [ListType(list<item: null>), DataType(null)]
    """
    fields = [held.field(n).type for n in range(held.num_fields)]
    return [held, *(part for one in fields for part in list_parts(one))]


def to_arrow(value: Any, held: Any) -> Any:  # noqa: PLR0911 - one return per form
    """Return a value as Arrow takes it for a type; None if the type will be inferred.

    >>> to_arrow({"a": 1}, pa.map_(pa.string(), pa.int64()))
    [('a', 1)]
    """
    if value is None:
        return None
    if isinstance(value, enum.Enum):
        return to_arrow(value.value, held)
    if held is None:
        return _to_inferred(value)
    if pa.types.is_struct(held):
        return _to_struct(value, held)
    if pa.types.is_map(held):
        key, one = held.key_type, held.item_type
        return [(to_arrow(k, key), to_arrow(v, one)) for k, v in value.items()]
    if pa.types.is_list(held):
        return [to_arrow(one, held.value_type) for one in value]
    if isinstance(value, dt.time):
        return _without_zone(value)
    if pa.types.is_date(held) and isinstance(value, dt.datetime):
        msg = f"must be a date; got {value!r}, whose time would be lost"
        raise TypeError(msg)
    return value


def _to_struct(value: Any, held: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):  # a TypedDict
        return {
            one.name: to_arrow(value[one.name], one.type)
            for one in held
            if one.name in value
        }
    if isinstance(value, tuple):
        pairs = zip(held, value, strict=True)
        return {field.name: to_arrow(one, field.type) for field, one in pairs}
    return {one.name: to_arrow(getattr(value, one.name), one.type) for one in held}


def _to_inferred(value: Any) -> Any:  # noqa: PLR0911 - one return per form
    if isinstance(value, dt.time):
        return _without_zone(value)
    if isinstance(value, uuid.UUID | str | bytes):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = zip(value._fields, value, strict=True)
        return {name: to_arrow(one, None) for name, one in pairs}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: to_arrow(getattr(value, name), None) for name in names}
    if isinstance(value, dict):
        return {name: to_arrow(one, None) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_arrow(one, None) for one in value]
    return value


def _without_zone(value: dt.time) -> dt.time:
    if value.tzinfo is not None:
        msg = f"must be a time without a zone; got {value!r}, whose zone would be lost"
        raise TypeError(msg)
    return value


def find_mixed(values: Iterable[Any]) -> str | None:
    """Return the kinds of values in one place that Arrow would merge into one, or None.

    Arrow merges datetimes with and without a zone, dates and datetimes, text and bytes,
    ints and floats, and changes some of them; and it gives a dict the keys of the
    others.

    >>> find_mixed([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)])
    'date and datetime'
    >>> find_mixed([1, 2, None])
    """
    seen: dict[tuple[str, ...], set[str]] = {}
    for value in values:
        for path, kind in _find_kinds(value, ()):
            seen.setdefault(path, set()).add(kind)
    found = next((kinds for kinds in seen.values() if len(kinds) > 1), None)
    return None if found is None else " and ".join(sorted(found))


def refuse_mixed(values: Iterable[Any], held: Any) -> None:
    """Raise `TypeError` if type inference would merge several kinds into one."""
    mixed = find_mixed(values) if held is None else None
    if mixed is not None:
        raise TypeError(mixed)


def _find_kinds(
    value: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    if value is None:
        return
    kind = next(
        (one for one in SCALARS if isinstance(value, one)), type(value)
    ).__name__
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        kind = "datetime with a zone"
    if isinstance(value, dict):
        kind = f"dict of {', '.join(sorted(map(str, value)))}"
        for name, one in value.items():
            yield from _find_kinds(one, (*path, f".{name}"))
    if isinstance(value, list | tuple):
        kind = "list"
        for one in value:
            yield from _find_kinds(one, (*path, "[]"))
    yield path, kind
