"""Keys: a canonical form, their order, and the balance of their buckets.

Python's own `hash` differs between processes, so routing and storage use bytes that
depend on the value alone. Values that Python considers equal (1, 1.0, True) have the
same bytes, since a dictionary of states would not distinguish them either.

Keys are divided among buckets by hash, and buckets among replicas. Some keys carry much
more load than others, and so may a replica. Then some of its buckets move to others, as
few as possible, since their states move too. A single key cannot be divided: if it
alone exceeds a replica's share, it is reported.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import numbers
import uuid
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import xxhash

from anabranch.errors import OperatorError
from anabranch.runtime.reprs import shorten

_INFINITE = (math.inf, -math.inf)
_LONG = 1 << 1100  # beyond all floats


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
            # Longer ones equal no float; Python refuses to write very many digits.
            return b"i%d;" % key if -_LONG < key < _LONG else b"x%x;" % key
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


def _exact_bytes(key: Any) -> bytes:  # noqa: PLR0911 - as above
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
    if near == key:
        return key_bytes(near)
    short = max(abs(above), below) < _LONG
    return (b"q%d/%d;" if short else b"y%x/%x;") % (above, below)


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
        case int() | float():
            return b"\x01" + _number_bytes(key)
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


STANDS_OUT = 1.15  # times the mean load of a replica
WORTH = 0.05  # gain required, as a share of the busiest replica's load
EVEN = 0.02  # of the mean load: smaller differences do not count


class Rebalance(NamedTuple):
    """A better table, the buckets that move, and the busiest replica's share of the
    load.
    """

    table: tuple[int, ...]
    moved: tuple[int, ...]
    before: float
    after: float

    def describe(self, region: str) -> tuple[str, str, str]:
        """Return what was done, why, and the expected gain.

        >>> Rebalance((1,), (0,), 0.9, 0.5).describe("r1")[0]
        'r1: 1 bucket of keys goes to another replica'
        """
        one = len(self.moved) == 1
        count = (
            "1 bucket of keys goes" if one else f"{len(self.moved)} buckets of keys go"
        )
        return (
            f"{region}: {count} to {'another replica' if one else 'other replicas'}",
            f"one replica had {self.before:.0%} of the load of all {max(self.table) + 1}",
            f"{self.after:.0%} of the same load with this table",
        )


class HotKey(NamedTuple):
    """A key whose load exceeds a replica's share."""

    key: Any
    share: float

    def describe(self, region: str, replicas: int) -> tuple[str, str, str]:
        """Return that nothing more can be done, and why.

        >>> HotKey("AAPL", 0.62).describe("r1", 2)[1]
        "the key 'AAPL' has 62% of its items, more than the share of one of 2 replicas, 50%"
        """
        why = (
            f"the key {shorten(self.key)} has {self.share:.0%} of its items, more than "
            f"the share of one of {replicas} replicas, {1 / replicas:.0%}"
        )
        return (
            f"{region} stays uneven",
            why,
            f"its items cannot be divided; give {region} a finer key if it has one",
        )


def add_up(loads: Sequence[float], table: Sequence[int], replicas: int) -> list[float]:
    """Return the load of each replica.

    >>> add_up([5.0, 1.0, 2.0], (0, 1, 0), 2)
    [7.0, 1.0]
    """
    found = [0.0] * replicas
    for load, replica in zip(loads, table, strict=True):
        found[replica] += load
    return found


def is_uneven(loads: Sequence[float], table: Sequence[int], replicas: int) -> bool:
    """Tell whether one replica carries clearly more load than the others.

    >>> is_uneven([5.0, 1.0], (0, 1), 2), is_uneven([1.1, 1.0], (0, 1), 2)
    (True, False)
    """
    of_replicas = add_up(loads, table, replicas)
    return max(of_replicas) > STANDS_OUT * sum(of_replicas) / replicas


def rebalance(
    loads: Sequence[float], table: Sequence[int], replicas: int
) -> Rebalance | None:
    """Return a table under which the busiest replica has clearly less load, or None.

    >>> rebalance([4.0, 4.0, 1.0, 1.0], (0, 0, 1, 1), 2)
    Rebalance(table=(1, 0, 0, 1), moved=(0, 2), before=0.8, after=0.5)
    >>> rebalance([9.0, 1.0], (0, 1), 2) is None
    True
    """
    total = sum(loads)
    if replicas < 2 or not total or not is_uneven(loads, table, replicas):  # noqa: PLR2004
        return None
    new = list(table)
    of_replicas = add_up(loads, table, replicas)
    before = max(of_replicas)
    while (found := _find_move(loads, new, of_replicas)) is not None:
        bucket, target = found
        of_replicas[new[bucket]] -= loads[bucket]
        of_replicas[target] += loads[bucket]
        new[bucket] = target
    after = max(of_replicas)
    if before - after < WORTH * before:
        return None
    moved = tuple(
        b for b, (old, now) in enumerate(zip(table, new, strict=True)) if old != now
    )
    return Rebalance(tuple(new), moved, before / total, after / total)


def _find_move(
    loads: Sequence[float], table: Sequence[int], of_replicas: Sequence[float]
) -> tuple[int, int] | None:
    """Return a bucket of the busiest replica and its best destination, or None.

    The best bucket carries half the difference of the two; each move reduces the higher
    load of the pair, so the search terminates.
    """
    replicas = range(len(of_replicas))
    busiest = max(replicas, key=of_replicas.__getitem__)
    idlest = min(replicas, key=of_replicas.__getitem__)
    gap = of_replicas[busiest] - of_replicas[idlest]
    if gap <= EVEN * sum(of_replicas) / len(of_replicas):
        return None
    fitting = [
        bucket
        for bucket, replica in enumerate(table)
        if replica == busiest and 0 < loads[bucket] < gap
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda bucket: abs(loads[bucket] - gap / 2))
    if max(loads[best], gap - loads[best]) > gap * (1 - EVEN):
        return None  # it would only swap the two
    return best, idlest


def find_hot_key(counts: Mapping[Any, int], total: int, replicas: int) -> HotKey | None:
    """Return the key whose load exceeds a replica's share, if there is one.

    >>> find_hot_key({"a": 6, "b": 1}, 10, 2)
    HotKey(key='a', share=0.6)
    >>> find_hot_key({"a": 4, "b": 4}, 10, 2) is None
    True
    """
    if not counts or not total:
        return None
    key = max(counts, key=counts.__getitem__)
    share = counts[key] / total
    return HotKey(key, share) if share * replicas > 1 else None
