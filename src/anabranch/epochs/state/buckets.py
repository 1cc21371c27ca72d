"""Buckets of keys: their ranges, their stores, and the version that each is in.

A bucket is what moves between replicas. There are many, so nothing has a file of its
own for each: neighbours share a *store* on a host, and a snapshot in the checkpoint; and
buckets with the same version are described together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Ranges: TypeAlias = tuple[
    tuple[int, int], ...
]  # the first, and the one behind the last

PREFIX_BYTES = 2  # of a bucket, before the keys of its states
_STORES = 16  # of a unit, unless it has very many buckets
_IN_STORE = 64  # buckets of a store, at most


class Stamp(NamedTuple):
    """The name of a version: its epoch, turn and attempt."""

    epoch: int
    turn: int
    attempt: int = 0


EMPTY = Stamp(0, 0)


@lru_cache(maxsize=1 << 15)
def prefix_of_bucket(bucket: int) -> bytes:
    r"""Return the first bytes of the keys of a bucket's states.

    >>> prefix_of_bucket(258)
    b'\x01\x02'
    """
    return bucket.to_bytes(PREFIX_BYTES, "big")


def bucket_of_entry(key: bytes) -> int:
    """Return the bucket of a state, by the key under which it is stored.

    >>> bucket_of_entry(prefix_of_bucket(258) + b"0000/")
    258
    """
    return int.from_bytes(key[:PREFIX_BYTES], "big")


def count_in_store(buckets: int) -> int:
    """Return how many of `buckets` buckets share a store.

    >>> [count_in_store(n) for n in (1, 16, 1024, 16384)]
    [1, 1, 64, 64]
    """
    return max(1, min(_IN_STORE, buckets // _STORES))


def by_store(numbers: Iterable[int], buckets: int) -> dict[int, list[int]]:
    """Return some of `buckets` buckets by their stores.

    >>> by_store([0, 1, 4, 9], 64)
    {0: [0, 1], 1: [4], 2: [9]}
    """
    each = count_in_store(buckets)
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(number // each, []).append(number)
    return found


def stores_of(ranges: Ranges, buckets: int) -> dict[int, int]:
    """Return how many buckets of some ranges are in each store.

    >>> stores_of(((0, 6), (9, 10)), 64)
    {0: 4, 1: 2, 2: 1}
    """
    each = count_in_store(buckets)
    found: dict[int, int] = {}
    for first, end in ranges:
        for store in range(first // each, (end - 1) // each + 1):
            count = min(end, (store + 1) * each) - max(first, store * each)
            found[store] = found.get(store, 0) + count
    return found


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """Return the ranges of some buckets.

    >>> to_ranges([3, 4, 5, 9])
    ((3, 6), (9, 10))
    """
    chosen = sorted(numbers)
    if not chosen:
        return ()
    if chosen[-1] - chosen[0] == len(chosen) - 1:
        return ((chosen[0], chosen[-1] + 1),)
    gaps = [(low, high) for low, high in pairwise(chosen) if high > low + 1]
    firsts = [chosen[0], *(high for _, high in gaps)]
    ends = [*(low + 1 for low, _ in gaps), chosen[-1] + 1]
    return tuple(zip(firsts, ends, strict=True))


def in_ranges(ranges: Ranges) -> Iterator[int]:
    """Yield the buckets of some ranges.

    >>> list(in_ranges(((3, 6), (9, 10))))
    [3, 4, 5, 9]
    """
    for first, end in ranges:
        yield from range(first, end)


def is_within(bucket: int, ranges: Ranges) -> bool:
    """Tell whether a bucket is in one of some ranges."""
    return any(first <= bucket < end for first, end in ranges)


def divide_ranges(ranges: Ranges, fewer: int, buckets: int) -> Ranges:
    """Return the ranges of `fewer` buckets by their numbers among `buckets`.

    Bucket b of n is divided into the buckets b and b + n of 2n. A single bucket is that
    of an unkeyed state, and never divided.

    >>> divide_ranges(((3, 5),), 16, 64)
    ((3, 5), (19, 21), (35, 37), (51, 53))
    """
    if fewer in (1, buckets):
        return ranges
    return tuple(
        (first + more, end + more)
        for more in range(0, buckets, fewer)
        for first, end in ranges
    )


class Versions:
    """The version of each bucket of a unit; `EMPTY` if it has never changed.

    >>> versions = Versions.none(16).with_new([(((0, 4),), Stamp(3, 7, 9))])
    >>> versions.of([3, 4])
    {3: Stamp(epoch=3, turn=7, attempt=9), 4: Stamp(epoch=0, turn=0, attempt=0)}
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Any) -> None:
        self._rows = rows  # epoch, turn and attempt of each bucket

    @classmethod
    def none(cls, buckets: int) -> Versions:
        """Return the versions of buckets without states."""
        return cls(np.zeros((buckets, 3), np.int64))

    def of(self, buckets: Sequence[int]) -> dict[int, Stamp]:
        """Return the versions of some buckets, in this order."""
        rows = self._rows[buckets]
        if (rows == rows[0]).all():
            return dict.fromkeys(buckets, Stamp(*rows[0].tolist()))
        return {b: Stamp(*row) for b, row in zip(buckets, rows.tolist(), strict=True)}

    def with_new(self, made: Iterable[tuple[Ranges, Stamp]]) -> Versions:
        """Return these versions, with those that an epoch has made."""
        runs = ((*one, *stamp) for ranges, stamp in made for one in ranges)
        flat = itertools.chain.from_iterable(runs)
        found = np.fromiter(flat, np.int64).reshape(-1, 5)
        counts = found[:, 1] - found[:, 0]
        before = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(found[:, 0] - before, counts)
        rows = self._rows.copy()
        rows[places] = np.repeat(found[:, 2:], counts, axis=0)
        return Versions(rows)

    def with_latest(self, held: Iterable[tuple[Ranges, Stamp]]) -> Versions:
        """Return the later of these versions and others."""
        known = [Stamp(*row) for row in self._rows.tolist()]
        for ranges, stamp in held:
            for bucket in in_ranges(ranges):
                known[bucket] = max(known[bucket], stamp)
        return Versions(np.array(known, np.int64).reshape(-1, 3))

    def divide(self, buckets: int) -> Versions:
        """Return the versions of more buckets: a part has that of its whole."""
        more = buckets // len(self._rows)
        return self if more <= 1 else Versions(np.tile(self._rows, (more, 1)))

    @property
    def has_any(self) -> bool:
        """Whether any bucket has ever changed."""
        return bool(self._rows.any())

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Versions) and np.array_equal(self._rows, other._rows)

    def __hash__(self) -> int:
        return hash(self._rows.tobytes())

    def __repr__(self) -> str:
        return f"Versions({self.of(range(len(self._rows)))})"

    def __reduce__(self) -> Any:
        """Return each run of equal versions once."""
        rows = self._rows
        ends = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
        firsts = [0, *ends.tolist()]
        return _load_versions, (len(rows), firsts, rows[firsts].tobytes())


def _load_versions(count: int, firsts: list[int], packed: bytes) -> Versions:
    runs = np.frombuffer(packed, np.int64).reshape(-1, 3)
    return Versions(np.repeat(runs, np.diff([*firsts, count]), axis=0))


VersionsOf: TypeAlias = Mapping[str, Versions]  # by unit
