"""Balance the buckets of keys among the replicas of a region by measured load.

Keys are divided among buckets by hash, and buckets among replicas. Some keys carry much
more load than others, and so may a replica. Then some of its buckets move to others, as
few as possible, since their states move too. A single key cannot be divided: if it
alone exceeds a replica's share, it is reported.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
            f"the key {reprlib.repr(self.key)} has {self.share:.0%} of its items, more than "
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
