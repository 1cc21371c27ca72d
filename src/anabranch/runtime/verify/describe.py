"""Objects as plain values, so that they can be compared without running user code."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import uuid
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from anabranch.runtime.verify.fingerprint import attributes_of, is_users

Outcome: TypeAlias = tuple[Any, ...]  # the outputs for an item, as plain values

_EXACT: frozenset[type] = frozenset(
    [
        *(int, bool, str, bytes, type(None), dt.date, dt.datetime, dt.time),
        *(dt.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID),
    ]
)
_BY_TEXT: frozenset[type] = frozenset([float, complex, range, slice])
_SEQUENCES: tuple[Any, ...] = (list, tuple, deque)
_VIEWS = frozenset([type({}.keys()), type({}.values()), type({}.items())])
_USED_UP = (
    dict,
    set,
    frozenset,
    Iterator,
    BaseException,
)  # or with more than one order
_MOST_PARTS = 300  # parts of an item; larger ones are skipped
_DEEPEST = 20
RAISED = "raised"


class OpaqueError(Exception):
    """Raised for an object that cannot be inspected without consuming it."""


def describe_value(value: Any) -> Outcome:
    """Return an object as plain values, without running user code.

    >>> describe_value({"a": [1.0]}) == describe_value({"a": [1]})
    False
    """
    return _describe(value, [0], 0)


def _describe(value: Any, parts: list[int], depth: int) -> Outcome:
    kind = type(value)
    name = kind.__qualname__
    parts[0] += 1
    if parts[0] > _MOST_PARTS or depth > _DEEPEST:
        raise OpaqueError
    if kind in _EXACT:
        return (name, value)
    if kind in _BY_TEXT:
        return (name, repr(value))
    if isinstance(value, enum.Enum) and not kind.__module__.startswith("anabranch."):
        return (name, value.name)
    if isinstance(value, np.generic) or kind is np.ndarray:
        return _describe_array(value)
    if kind in (set, frozenset):
        found = [_describe(each, parts, depth + 1) for each in value]
        return (name, *sorted(found, key=repr))
    inside = _parts_of(kind, value)
    return (name, *(_describe(each, parts, depth + 1) for each in inside))


def _parts_of(kind: Any, value: Any) -> Iterable[Any]:
    """Return an object's parts, in an order that depends on it alone."""
    if kind is dict:
        return (each for pair in dict.items(value) for each in pair)
    if kind in _SEQUENCES or kind in _VIEWS:
        return list(kind.__iter__(value))
    if not is_users(kind) or issubclass(kind, _USED_UP):
        raise OpaqueError
    base = next((each for each in _SEQUENCES if issubclass(kind, each)), None)
    own = (each for pair in sorted(attributes_of(value).items()) for each in pair)
    return own if base is None else [*base.__iter__(value), *own]


def _describe_array(value: Any) -> Outcome:
    if value.dtype.hasobject:
        raise OpaqueError
    data = np.ascontiguousarray(value).tobytes()
    return (value.dtype.str, value.shape, zlib.crc32(data), len(data))


def outcome_of(outputs: Sequence[Any]) -> Outcome:
    """Return outputs as plain values."""
    return ("gave", *map(describe_value, outputs))


def show(value: Any) -> str:
    """Return an object in words."""
    try:
        return show_outcome(describe_value(value))
    except OpaqueError:
        return f"a {type(value).__name__}"


def show_outcome(outcome: Outcome) -> str:
    """Return an outcome in words.

    >>> show_outcome(("gave", ("list", ("int", 1), ("str", "a"))))
    "[1, 'a']"
    """
    name, *rest = outcome
    if name == "gave":
        return ", ".join(map(show_outcome, rest)) or "nothing"
    if name == RAISED:
        return f"{rest[0]} raised"
    if name in ("list", "tuple", "set", "dict", "frozenset", "deque"):
        text = f"[{', '.join(map(show_outcome, rest))}]"
    elif len(rest) == 1 and not isinstance(rest[0], tuple):
        text = rest[0] if name in ("float", "complex") else repr(rest[0])
    else:
        text = f"a {name}"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004
