"""Birth times of items: the oldest and the youngest of a batch, by the engines' clock.

A source stamps what it reads. Nothing is stored per item: a batch has the birth of its
oldest and of its youngest item, and the others are assumed to be spread evenly between
them.
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
    """Return the births of items from their times; None if there are none.

    >>> births_of([3.0, 1.0, 2.0])
    Births(oldest_s=1.0, youngest_s=3.0)
    """
    return Births(min(times_s), max(times_s)) if times_s else None


def since_1970(births: Births) -> Births:
    """Convert births from `time.perf_counter` to seconds since 1970, which hosts
    share.
    """
    ahead_s = time.time() - time.perf_counter()
    return Births(births.oldest_s + ahead_s, births.youngest_s + ahead_s)


def on_this_clock(births: Births) -> Births:
    """Convert births from seconds since 1970 to `time.perf_counter`.

    Another host's clock may be ahead of ours: no birth is later than now.

    >>> births = on_this_clock(Births(0.0, time.time() + 60))
    >>> births.oldest_s < births.youngest_s <= time.perf_counter()
    True
    """
    now_s = time.perf_counter()
    ahead_s = now_s - time.time()
    oldest_s, youngest_s = (min(now_s, ahead_s + one) for one in births)
    return Births(oldest_s, youngest_s)
