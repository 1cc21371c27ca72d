"""The Arrow type of a shape, and values in the form in which Arrow takes them.

Records become structs, dicts maps, tuples of a fixed length structs with numbered
members, Enums their values. Where the type does not tell all (a datetime has a zone or
none, a Decimal any precision), Arrow infers the type of the column from its values.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from anabranch.graph.shapes import (
    NOTHING,
    ChoiceShape,
    Many,
    OneOf,
    PlainShape,
    RecordShape,
    Row,
    Shape,
    Table,
)

ARROW_TYPES: Mapping[Any, Any] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}
_INSIDE: Mapping[Any, Any] = {  # of something; a column of these is inferred
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.timedelta: pa.duration("us"),
}


def arrow_type(shape: Shape, above: tuple[Shape, ...] = ()) -> Any:
    """Return the Arrow type of the values of a shape; None if it does not tell.

    >>> from anabranch.graph.shapes import shape_of
    >>> arrow_type(shape_of(dict[str, list[int]]))
    MapType(map<string, list<item: int64>>)
    >>> arrow_type(shape_of(int | str))
    """
    if shape in above:  # a type that contains itself
        return None
    above = (*above, shape)
    match shape:
        case PlainShape(kind):
            inside = _INSIDE.get(kind) if above[1:] else None
            return ARROW_TYPES.get(kind, inside)
        case ChoiceShape(_, values):
            kinds = {type(value) for value, _ in values}
            return ARROW_TYPES.get(kinds.pop()) if len(kinds) == 1 else None
        case OneOf(members):
            others = [member for member in members if member != NOTHING]
            return arrow_type(others[0], above[:-1]) if len(others) == 1 else None
    return _find_inner_type(shape, above)


def _find_inner_type(shape: Shape, above: tuple[Shape, ...]) -> Any:
    match shape:
        case Many(_, element):
            inner = arrow_type(element, above)
            return None if inner is None else pa.list_(inner)
        case Table(key, value):
            pair = arrow_type(key, above), arrow_type(value, above)
            return None if None in pair else pa.map_(*pair)
        case Row(elements):
            named = {f"value_{n}": one for n, one in enumerate(elements, 1)}
        case RecordShape():
            named = dict(shape.fields)
        case _:
            return None
    fields = {name: arrow_type(one, above) for name, one in named.items()}
    if None in fields.values():
        return None
    return pa.struct(list(fields.items()))


def to_arrow(value: Any, held: Any) -> Any:  # noqa: PLR0911 - one return per form
    """Return a value as Arrow takes it for a type; None: the type will be inferred.

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
    if isinstance(value, list):
        return [to_arrow(one, None) for one in value]
    return value


def _without_zone(value: dt.time) -> dt.time:
    if value.tzinfo is not None:
        msg = f"must be a time without a zone; got {value!r}, whose zone would be lost"
        raise TypeError(msg)
    return value


def find_mixed(values: Iterable[Any]) -> str | None:
    """Return which kinds of values stand in one place that Arrow would make one of.

    It takes datetimes with a zone and without, dates and datetimes, texts and bytes for
    the same, and changes some of them; and it gives a dict the keys of the others.

    >>> find_mixed([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)])
    'date and datetime'
    >>> find_mixed([1, 2.5, None])
    """
    seen: dict[tuple[str, ...], set[str]] = {}
    for value in values:
        for path, kind in _find_kinds(value, ()):
            seen.setdefault(path, set()).add(kind)
    mixed = (kinds for kinds in seen.values() if len(kinds) > 1)
    found = next((kinds for kinds in mixed if kinds != {"int", "float"}), None)
    return None if found is None else " and ".join(sorted(found))


def refuse_mixed(values: Iterable[Any], held: Any) -> None:
    """Raise `TypeError` if Arrow, to infer a type, would make one kind of several."""
    mixed = find_mixed(values) if held is None else None
    if mixed is not None:
        raise TypeError(mixed)


def _find_kinds(
    value: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    if value is None:
        return
    kind = type(value).__name__
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
