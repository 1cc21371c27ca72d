"""Keys: a canonical form, the same in every process, and their order.

Python's own `hash` differs between processes, so routing and storage use bytes that
depend on the value alone. Values that Python considers equal (1, 1.0, True) have the
same bytes, since a dictionary of states would not distinguish them either.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import numbers
import uuid
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import xxhash

from anabranch.errors import OperatorError

_INFINITE = (math.inf, -math.inf)


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
        case numbers.Number():  # it may equal an int or a float
            return _exact_bytes(key)
        case enum.Enum():  # last: an IntEnum equals its number
            kind = type(key)
            return b"e" + key_bytes((kind.__module__, kind.__qualname__, key.name))
    msg = (
        f"a key must be made of numbers, strings, bytes, dates, enums or tuples of "
        f"these; got {key!r} of type {type(key).__name__}; key by an attribute of it"
    )
    raise OperatorError(msg)


def _exact_bytes(key: Any) -> bytes:
    """Return the bytes of a Decimal, a Fraction, a complex or a NumPy number.

    >>> _exact_bytes(Fraction(1, 2)) == _exact_bytes(0.5 + 0j) == key_bytes(0.5)
    True
    >>> _exact_bytes(Fraction(1, 10))
    b'q1/10;'
    """
    if key != key:  # noqa: PLR0124 - as above
        return key_bytes(math.nan)
    if isinstance(key, numbers.Integral):
        return key_bytes(int(key))
    if _is_complex(key):
        real, imaginary = float(key.real), float(key.imag)
        pair = b"c" + key_bytes(real) + key_bytes(imaginary)
        return pair if imaginary else key_bytes(real)
    if key in _INFINITE:
        return key_bytes(float(key))
    above, below = key.as_integer_ratio()
    if below == 1:
        return key_bytes(above)
    try:
        near = above / below
    except OverflowError:  # beyond all floats
        near = math.nan
    return key_bytes(near) if near == key else b"q%d/%d;" % (above, below)


def _is_complex(key: Any) -> bool:
    return isinstance(key, numbers.Complex) and not isinstance(key, numbers.Real)


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


def key_rank(key: Any) -> tuple[Any, ...]:  # noqa: PLR0911 - one case per type
    """Return the sort key of a key.

    >>> key_rank(None) < key_rank(7) < key_rank("a")
    True
    """
    match key:
        case None:
            return (0,)
        case bool() | int() | float():
            return (1, key)
        case numbers.Number() if not _is_complex(key):  # some are incomparable
            return (1, _comparable(key))
        case numbers.Complex() if not key.imag:
            return (1, float(key.real))
        case str():
            return (2, key)
        case bytes():
            return (3, key)
        case tuple():
            return (4, tuple(map(key_rank, key)))
    return (5, key_bytes(key))


def _comparable(key: Any) -> float | Fraction:
    """Return a number in a form comparable with all others."""
    if isinstance(key, numbers.Integral):
        return Fraction(int(key))
    return float(key) if key in _INFINITE else Fraction(*key.as_integer_ratio())


def rank_bytes(key: Any) -> bytes:  # noqa: PLR0911 - one case per type
    r"""Return bytes that sort like keys; a tuple may also contain times.

    No key's bytes are a prefix of another's, so that more may follow them.

    >>> keys = [None, -7, 0.5, 7, 7.5, "a", "a\0", "ab", b"a", ("a", 1), ("a", 1, 0)]
    >>> sorted(reversed(keys), key=rank_bytes) == keys
    True
    >>> rank_bytes(1) == rank_bytes(1.0) == rank_bytes(True)
    True
    """
    match key:
        case None:
            return b"\x00"
        case str():
            return b"\x02" + _delimit(key.encode("utf-8", "surrogatepass"))
        case bytes():
            return b"\x03" + _delimit(key)
        case tuple():
            return join_ranks(map(rank_bytes, key))
        case numbers.Complex() if _is_complex(key):
            own = b"\x05" + _delimit(key_bytes(key))
            return own if key.imag else rank_bytes(float(key.real))
        case numbers.Number():
            return b"\x01" + _number_bytes(key)
    return b"\x05" + _delimit(key_bytes(key))


def join_ranks(parts: Iterable[bytes]) -> bytes:
    """Return the `rank_bytes` of a tuple, given those of its parts.

    >>> join_ranks([rank_bytes(7), rank_bytes("a")]) == rank_bytes((7, "a"))
    True
    """
    return b"\x04" + b"".join([b"\x01" + part for part in parts]) + b"\x00"


def _delimit(raw: bytes) -> bytes:
    """Return bytes with a terminator that sorts before any continuation."""
    return raw.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


@lru_cache(maxsize=4096)
def _number_bytes(number: Any) -> bytes:
    """Return bytes that sort like numbers: sign, exponent, digits to base 128.

    The last bit of a digit tells whether another follows.
    """
    if number == 0:
        return b"\x02"
    if number in _INFINITE:
        return b"\x04" if number > 0 else b"\x00"
    whole, scale = _in_binary(abs(number))
    exponent = whole.bit_length() - scale
    whole >>= (whole & -whole).bit_length() - 1
    whole <<= -whole.bit_length() % 7
    shifts = range(whole.bit_length() - 7, -1, -7)
    digits = bytes([whole >> shift << 1 & 0xFF | (shift > 0) for shift in shifts])
    made = (exponent + (1 << 31)).to_bytes(4, "big") + digits
    if number > 0:
        return b"\x03" + made
    return b"\x01" + bytes([0xFF - byte for byte in made])


def _in_binary(number: Any) -> tuple[int, int]:
    """Return a number as an integer and the power of two that divides it.

    Numbers without a finite binary form (a third, a tenth as a Decimal) are truncated
    far beyond any difference between two times.
    """
    if isinstance(number, numbers.Integral):
        return int(number), 0
    above, below = number.as_integer_ratio()
    scale = int(below).bit_length() - 1
    if below != 1 << scale:
        scale = _BINARY_PLACES + scale
        above = max(1, (above << scale) // below)
    return int(above), scale


_BINARY_PLACES = 256


def _instant(key: dt.date | dt.time) -> tuple[str, str]:
    """Return a date or time as text that is the same for all equal ones."""
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
