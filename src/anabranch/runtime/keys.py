"""Keys: a form of them that is the same everywhere, and their order.

Python's own `hash` differs from process to process, so routing and storage use bytes
that depend on the value alone. Values that Python calls equal (1, 1.0, True) have the
same bytes, since a dictionary of states would not tell them apart either.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Iterable
from typing import Any

import xxhash

from anabranch.errors import OperatorError


def key_bytes(key: Any) -> bytes:  # noqa: C901, PLR0911 - one case per type
    """Return the canonical bytes of a key.

    >>> key_bytes("A"), key_bytes(1) == key_bytes(1.0) == key_bytes(True)
    (b's1:A', True)
    """
    match key:
        case str():
            raw = key.encode("utf-8", "surrogatepass")
            return b"s%d:%s" % (len(raw), raw)
        case bool() | int():
            return b"i%d;" % key
        case float():
            if key != key:  # noqa: PLR0124 - the test for NaN
                break_ = "a key must equal itself; got NaN; filter such items out first"
                raise OperatorError(break_)
            return b"i%d;" % int(key) if key.is_integer() else f"f{key!r};".encode()
        case bytes():
            return b"b%d:%s" % (len(key), key)
        case None:
            return b"n"
        case tuple():
            return b"(" + b"".join(map(key_bytes, key)) + b")"
        case dt.date() | dt.time():
            return b"d" + key_bytes(_instant(key))
        case uuid.UUID():
            return b"u" + key.bytes
        case enum.Enum():  # last: an IntEnum equals its number
            kind = type(key)
            return b"e" + key_bytes((kind.__module__, kind.__qualname__, key.name))
    msg = (
        f"a key must be made of numbers, strings, bytes, dates, enums or tuples of "
        f"these; got {key!r} of type {type(key).__name__}; key by an attribute of it"
    )
    raise OperatorError(msg)


def key_hash(key: Any) -> int:
    """Return a stable 64-bit hash of a key.

    >>> key_hash("A") == key_hash("A"), key_hash(1) == key_hash(1.0)
    (True, True)
    """
    return xxhash.xxh3_64_intdigest(key_bytes(key))


def in_key_order(keys: Iterable[Any]) -> list[Any]:
    """Return keys in the order in which they finish: by type, then by value.

    >>> in_key_order(["b", 2, None, "a", 1.5])
    [None, 1.5, 2, 'a', 'b']
    """
    return sorted(keys, key=key_rank)


def key_rank(key: Any) -> tuple[Any, ...]:
    """Return by what keys are put in order.

    >>> key_rank(None) < key_rank(7) < key_rank("a")
    True
    """
    match key:
        case None:
            return (0,)
        case bool() | int() | float():
            return (1, key)
        case str():
            return (2, key)
        case bytes():
            return (3, key)
        case tuple():
            return (4, tuple(map(key_rank, key)))
    return (5, key_bytes(key))


def _instant(key: dt.date | dt.time) -> tuple[str, str]:
    """Return a date or time as text that is the same for all that are equal."""
    if isinstance(key, dt.datetime):
        if key.utcoffset() is not None:
            return "instant", key.astimezone(dt.UTC).isoformat()
        return "datetime", key.isoformat()
    if isinstance(key, dt.date):
        return "date", key.isoformat()
    offset = key.utcoffset()
    if offset is None:
        return "time", key.isoformat()
    since_midnight = dt.timedelta(
        hours=key.hour,
        minutes=key.minute,
        seconds=key.second,
        microseconds=key.microsecond,
    )
    return "instant of a day", str(since_midnight - offset)
