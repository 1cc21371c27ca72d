"""Conversion of field text to values, and of values to items.

Each type has two converters that agree: `one` for a value, which reports what is wrong,
and `column` for many at once, which is several times as fast and only reports that
something is. No white space is stripped and nothing is guessed:

- int: an optional sign and digits, within 64 bits
- float: what `float()` takes, without white space, underscores or other digits than 0-9
- bool: true, false, True, False, 1, 0
- str as it stands; bytes: the text in UTF-8
- datetime, date, time: ISO format; timedelta: an ISO duration such as PT1.5S
- Decimal, UUID: as `str` writes them
- Enum, Literal: one of the values, as they would be written
- T | None: an empty field is None
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, TypeAlias

from anabranch.graph.shapes import ChoiceShape, shape_of, why_not_json
from anabranch.graph.types import constructor_fields, fields_of, optional_of, type_name

Make: TypeAlias = Callable[[tuple[Any, ...]], Any]  # from values in order to an item

VALUE = "value"  # the column of a scalar
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INTEGERS = re.compile(r"[-+0-9]*+")
_FLOATS = re.compile(r"[-+.0-9eEinfatyINFATY]*+")
_DECIMAL = re.compile(r"[-+.0-9eEinfatysqINFATYSQ]+")
_DURATION = re.compile(
    r"([+-]?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?",
    re.ASCII,
)
_BOOLS = {
    "true": True,
    "false": False,
    "True": True,
    "False": False,
    "1": True,
    "0": False,
}


@dataclass(frozen=True)
class TextType:
    """The converters for fields of one type; both raise `ValueError`."""

    name: str
    one: Callable[[str], Any]
    column: Callable[[Sequence[str]], Sequence[Any]]


def text_type(annotation: Any) -> TextType | None:
    """Return the converters for fields of an annotated type; None if there are none.

    >>> text_type(int | None).column(["1", ""])
    [1, None]
    """
    inner = optional_of(annotation)
    if inner is not None:
        required = text_type(inner)
        return None if required is None else _optional(required)
    if isinstance(annotation, Hashable) and annotation in _TEXT_TYPES:
        return _TEXT_TYPES[annotation]
    shape = shape_of(annotation)
    return _choice(shape) if isinstance(shape, ChoiceShape) else None


def _choice(shape: ChoiceShape) -> TextType | None:
    """Return the converters for one of some values; None if their texts are
    ambiguous.
    """
    members = {_write(written): value for written, value in shape.values}
    if len(members) < len(shape.values) or None in members or "" in members:
        return None

    def one(text: str) -> Any:
        if text not in members:
            raise ValueError(text)
        return members[text]

    name = f"one of {', '.join(map(str, members))}"
    return TextType(name, one, lambda texts: list(map(one, texts)))


def _write(value: Any) -> str | None:
    """Return the CSV text of a member's value, if it is a text or a number."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def attributes_of(kind: Any) -> dict[str, Any]:
    """Return the columns of a type's items, with their types.

    Fields that the constructor does not take are excluded.

    >>> attributes_of(int)
    {'value': <class 'int'>}
    """
    if fields_of(kind) is None:
        return {VALUE: kind}
    return dict(constructor_fields(kind))


def plain_tuple(kind: Any) -> bool:
    """Tell whether items of a type are made by `tuple` alone, without user code.

    >>> from typing import NamedTuple
    >>> plain_tuple(NamedTuple("Point", [("x", int), ("y", int)]))
    True
    >>> plain_tuple(int)
    False
    """
    if not (isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple):
        return False
    bases = (one for one in kind.__mro__ if one.__bases__[:1] == (tuple,))
    base: Any = next(bases, None)
    if base is None:
        return False
    return kind.__new__ is base.__new__ and kind.__init__ is tuple.__init__


def is_made_plainly(kind: Any) -> bool:
    """Tell whether no user code affects the values of an item.

    >>> is_made_plainly(int)
    True
    >>> @dataclass
    ... class Checked:
    ...     x: int
    ...     def __post_init__(self): ...
    >>> is_made_plainly(Checked)
    False
    """
    if fields_of(kind) is None:
        return True
    if not dataclasses.is_dataclass(kind):
        return plain_tuple(kind)
    parameters = vars(kind).get("__dataclass_params__")  # not those of a base
    return (
        parameters is not None
        and parameters.init
        and not hasattr(kind, "__post_init__")
        and kind.__new__ is object.__new__
        and (parameters.frozen or kind.__setattr__ is object.__setattr__)
        and all(field.init for field in dataclasses.fields(kind))
    )


def takes_values_in_order(kind: Any) -> bool:
    """Tell whether a dataclass's constructor takes its fields in order.

    >>> @dataclass(kw_only=True)
    ... class Named:
    ...     x: int
    >>> takes_values_in_order(Named)
    False
    """
    return all(field.init and not field.kw_only for field in dataclasses.fields(kind))


def maker(kind: Any) -> Make:
    """Return the fastest function from a tuple of values to an item of a type.

    >>> maker(int)((7,))
    7
    """
    if fields_of(kind) is None:
        return lambda values: values[0]
    if dataclasses.is_dataclass(kind):
        return _dataclass_maker(kind)
    if plain_tuple(kind):
        return partial(tuple.__new__, kind)
    return lambda values: kind(*values)


def _dataclass_maker(kind: Any) -> Make:
    if takes_values_in_order(kind):
        return lambda values: kind(*values)
    names = list(attributes_of(kind))
    return lambda values: kind(**dict(zip(names, values, strict=True)))


def _int(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    value = int(text)
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(text)
    return value


def _ints(texts: Sequence[str]) -> list[int]:
    if _INTEGERS.fullmatch("".join(texts)) is None:
        raise ValueError
    values = list(map(int, texts))
    if values and (min(values) < INT64_MIN or max(values) > INT64_MAX):
        raise ValueError
    return values


def _float(text: str) -> float:
    if _FLOATS.fullmatch(text) is None:
        raise ValueError(text)
    return float(text)


def _floats(texts: Sequence[str]) -> list[float]:
    if _FLOATS.fullmatch("".join(texts)) is None:
        raise ValueError
    return list(map(float, texts))


def _bool(text: str) -> bool:
    if text not in _BOOLS:
        raise ValueError(text)
    return _BOOLS[text]


def format_duration(duration: dt.timedelta) -> str:
    """Return a duration in ISO format, exactly.

    >>> format_duration(dt.timedelta(days=-1, microseconds=5))
    '-PT86399.999995S'
    """
    whole = duration // dt.timedelta(microseconds=1)
    seconds, micros = divmod(abs(whole), 1_000_000)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{'-' if whole < 0 else ''}PT{seconds}{fraction}S"


def parse_duration(text: str) -> dt.timedelta:
    """Return the duration of an ISO text of days, hours, minutes and seconds.

    >>> parse_duration("P1DT2H"), parse_duration("-PT0.000001S")
    (datetime.timedelta(days=1, seconds=7200), datetime.timedelta(days=-1, seconds=86399, microseconds=999999))
    """
    found = _DURATION.fullmatch(text)
    if found is None or text[-1] in "PT":
        raise ValueError(text)
    sign, days, hours, minutes, seconds, micros = found.groups()
    try:
        made = dt.timedelta(
            days=int(days or 0),
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=int(seconds or 0),
            microseconds=int((micros or "").ljust(6, "0")),
        )
    except OverflowError:
        raise ValueError(text) from None
    return -made if sign == "-" else made


def _decimal(text: str) -> Decimal:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _each(name: str, one: Callable[[str], Any]) -> TextType:
    return TextType(name, one, lambda texts: list(map(one, texts)))


def _optional(required: TextType) -> TextType:
    def one(text: str) -> Any:
        return required.one(text) if text else None

    def column(texts: Sequence[str]) -> list[Any]:
        present = iter(required.column([text for text in texts if text]))
        return [next(present) if text else None for text in texts]

    return TextType(f"{required.name} or empty", one, column)


_TEXT_TYPES = {
    int: TextType("an int of 64 bits", _int, _ints),
    float: TextType("a float", _float, _floats),
    bool: TextType("a bool (true or false)", _bool, lambda ts: [_bool(t) for t in ts]),
    str: TextType("a str", str, lambda texts: texts),
    bytes: TextType("bytes", str.encode, lambda ts: [t.encode() for t in ts]),
    dt.datetime: _each("a date and time in ISO format", dt.datetime.fromisoformat),
    dt.date: _each("a date in ISO format", dt.date.fromisoformat),
    dt.time: _each("a time in ISO format", dt.time.fromisoformat),
    dt.timedelta: _each("a duration in ISO format", parse_duration),
    Decimal: _each("a decimal number", _decimal),
    uuid.UUID: _each("a UUID", uuid.UUID),
}


def find_row_faults(
    row_format: str, item_type: Any, delimiter: str = ","
) -> Iterator[tuple[str, str]]:
    """Yield why rows of text cannot become items of a type, each with what to do.

    >>> [what for what, _ in find_row_faults("csv", int, ";;")]
    ["delimiter must be one ASCII character and no quote or line end; got ';;'"]
    """
    if row_format == "csv":
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            yield (
                (
                    f"delimiter must be one ASCII character and no quote or line end; got "
                    f"{delimiter!r}"
                ),
                "give for instance delimiter=';'",
            )
        for name, annotation in constructor_fields(item_type).items():
            if text_type(annotation) is None:
                yield (
                    (
                        f"a CSV field is a number, a str, bytes, a date or time, a UUID, an "
                        f"Enum or a Literal, or one of these | None; {name!r} of "
                        f"{type_name(item_type)} is {type_name(annotation)}"
                    ),
                    "read it as str and convert it in a map",
                )
    elif row_format == "jsonl":
        attributes = {"value": item_type} if fields_of(item_type) is None else None
        for name, annotation in (attributes or constructor_fields(item_type)).items():
            why = why_not_json(annotation)
            if why is not None:
                yield (
                    (
                        f"an attribute must be of a type that can be read from JSON; "
                        f"{name!r} of {type_name(item_type)} is {type_name(annotation)}, "
                        f"and {why}"
                    ),
                    "read it as Any and convert it in a map",
                )
