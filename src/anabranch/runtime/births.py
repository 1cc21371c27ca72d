"""When items came into being: the two ends of a batch, by the clock that engines use.

A source stamps what it reads. Nothing is kept for an item: a batch has the birth of its
oldest and of its youngest item, and those between them are taken to be spread evenly.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple


class Births(NamedTuple):
    """The births of some items, in seconds of one clock."""

    oldest_s: float
    youngest_s: float


def births_of(times_s: Collection[float]) -> Births | None:
    """Return the births of items from those of each; None where there are none.

    >>> births_of([3.0, 1.0, 2.0])
    Births(oldest_s=1.0, youngest_s=3.0)
    """
    return Births(min(times_s), max(times_s)) if times_s else None


def since_1970(births: Births) -> Births:
    """Return births by `time.perf_counter` as seconds since 1970, as hosts share them."""
    ahead_s = time.time() - time.perf_counter()
    return Births(births.oldest_s + ahead_s, births.youngest_s + ahead_s)


def on_this_clock(births: Births) -> Births:
    """Return births in seconds since 1970 by `time.perf_counter`.

    A clock elsewhere may be ahead of ours: nothing is younger than now.

    >>> births = on_this_clock(Births(0.0, time.time() + 60))
    >>> births.oldest_s < births.youngest_s <= time.perf_counter()
    True
    """
    now_s = time.perf_counter()
    ahead_s = now_s - time.time()
    oldest_s, youngest_s = (min(now_s, ahead_s + one) for one in births)
    return Births(oldest_s, youngest_s)
