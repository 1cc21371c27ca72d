"""From the text of a field to a value, and from values to an item.

Each type has two converters that agree: `one` for a value, which says what is wrong,
and `column` for many at once, which is several times as fast and only says that
something is. No white space is taken off and nothing is guessed:

- int: an optional sign and digits, within 64 bits
- float: what `float()` takes, without white space, underscores or other digits than 0-9
- bool: true, false, True, False, 1, 0
- str as it stands; bytes: the text in UTF-8
- T | None: an empty field is None
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from anabranch.graph.types import constructor_fields, fields_of, optional_of

Make: TypeAlias = Callable[[tuple[Any, ...]], Any]  # from values in order to an item

VALUE = "value"  # the column of a scalar
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INTEGERS = re.compile(r"[-+0-9]*+")
_FLOATS = re.compile(r"[-+.0-9eEinfatyINFATY]*+")
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
    """How fields of one type are read; both converters raise `ValueError`."""

    name: str
    one: Callable[[str], Any]
    column: Callable[[Sequence[str]], Sequence[Any]]


def text_type(annotation: Any) -> TextType | None:
    """Return how fields of an annotated type are read from text; None: not at all.

    >>> text_type(int | None).column(["1", ""])
    [1, None]
    """
    inner = optional_of(annotation)
    if inner is None:
        return _TEXT_TYPES.get(annotation)
    required = _TEXT_TYPES.get(inner)
    return None if required is None else _optional(required)


def attributes_of(kind: Any) -> dict[str, Any]:
    """Return the columns that items of a type are made of, with their types.

    A field that the constructor does not take is none of them.

    >>> attributes_of(int)
    {'value': <class 'int'>}
    """
    if fields_of(kind) is None:
        return {VALUE: kind}
    return dict(constructor_fields(kind))


def plain_tuple(kind: Any) -> bool:
    """Tell whether items of a type are made by `tuple` alone, by no code of the user's.

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
    """Tell whether no code of the user's has a say in what becomes of values.

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
    """Tell whether the constructor of a dataclass takes its fields one after the other.

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
}
