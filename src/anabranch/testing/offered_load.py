"""Offered load: the due time of each item, and the source that offers them.

A load is defined before the program runs and does not depend on it. A slow program
never holds up its source: an item that is read late was due all the same, and its
latency counts from then.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from anabranch.connectors.base import Source

_GRID_S = 0.001  # resolution of a rate that keeps changing


@dataclass(frozen=True, eq=False)
class Load:
    """The due times of items, in seconds from the start, in order.

    >>> constant(4, seconds=1).due_s
    (0.0, 0.25, 0.5, 0.75)
    """

    due_s: tuple[float, ...]
    words: str

    def __len__(self) -> int:
        return len(self.due_s)

    @property
    def seconds(self) -> float:
        """The time until the last item is due."""
        return self.due_s[-1] if self.due_s else 0.0

    def __repr__(self) -> str:
        return f"<load: {self.words}; {len(self)} items>"


def constant(rate: float, seconds: float) -> Load:
    """Return a load of `rate` items per second.

    >>> constant(100, seconds=2)
    <load: 100 items a second for 2 s; 200 items>
    """
    words = f"{rate:g} items a second for {seconds:g} s"
    return Load(_steps([(rate, seconds)]), words)


def steps(*parts: tuple[float, float]) -> Load:
    """Return constant loads in sequence, each given as (rate, seconds).

    >>> steps((1, 2), (2, 1)).due_s
    (0.0, 1.0, 2.0, 2.5)
    """
    words = ", then ".join(f"{rate:g} a second for {s:g} s" for rate, s in parts)
    return Load(_steps(parts), words)


def burst(rate: float, seconds: float, *, of: float, at: float, lasting: float) -> Load:
    """Return a constant load with one burst `of` items per second.

    >>> burst(1, seconds=4, of=2, at=1, lasting=1).due_s
    (0.0, 1.0, 1.5, 2.0, 3.0)
    """
    parts = [(rate, at), (of, lasting), (rate, seconds - at - lasting)]
    words = f"{rate:g} a second with a burst of {of:g} for {lasting:g} s at {at:g} s"
    return Load(_steps(parts), words)


def periodic(least: float, most: float, *, period: float, seconds: float) -> Load:
    """Return a load that goes from `least` to `most` and back in each period.

    >>> load = periodic(10, 30, period=2, seconds=4)
    >>> len(load), len([t for t in load.due_s if 0.5 <= t < 1.5])
    (80, 27)
    """
    at_s = np.arange(0, seconds + _GRID_S, _GRID_S)
    wave = (1 - np.cos(2 * np.pi * at_s / period)) / 2
    due = np.concatenate(
        [[0.0], np.cumsum((least + (most - least) * wave)[:-1] * _GRID_S)]
    )
    whole = np.arange(0, np.floor(due[-1] + 1e-9))
    words = f"{least:g} to {most:g} a second and back in {period:g} s"
    return Load(tuple(np.interp(whole, due, at_s).tolist()), words)


def recorded(times: Iterable[float], *, speed: float = 1.0) -> Load:
    """Return a recorded load: times in seconds, from any origin, in order.

    >>> recorded([100.0, 100.5, 102.0], speed=2).due_s
    (0.0, 0.25, 1.0)
    """
    found = list(times)
    if any(later < earlier for earlier, later in pairwise(found)):
        msg = "recorded times must be in order; sort them first"
        raise ValueError(msg)
    first = found[0] if found else 0.0
    due = tuple((one - first) / speed for one in found)
    return Load(due, f"as recorded, {speed:g} times as fast")


def _steps(parts: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the due times of items: each where the integral of the rate is whole."""
    for rate, seconds in parts:
        if rate < 0 or seconds < 0:
            msg = (
                f"rates and times of a load must not be negative; got {rate}, {seconds}"
            )
            raise ValueError(msg)
    ends = [0.0, *accumulate(seconds for _, seconds in parts)]
    due = [0.0, *accumulate(rate * seconds for rate, seconds in parts)]
    whole = np.arange(0, np.ceil(due[-1] - 1e-9))
    if not len(whole):
        return ()
    # A part without items has no width in `due`; interpolation takes the later end.
    place = np.searchsorted(due, whole, side="right") - 1
    rates = np.array([rate for rate, _ in parts])
    starts, counts = np.array(ends[:-1]), np.array(due[:-1])
    place = np.minimum(place, len(parts) - 1)
    found: Any = starts[place] + (whole - counts[place]) / rates[place]
    return tuple(found.tolist())


class OfferedSource(Source):
    """Items that arrive when they are due, regardless of the program.

    They are those of `items`, repeated cyclically, or numbers from 0. The clock starts
    with the first read; a row is an item with the time when it was due, since 1970.
    """

    label = "offered"
    live = True

    def __init__(self, load: Load, items: Sequence[Any] | None = None) -> None:
        self._due_s = load.due_s
        self._items = items
        self._started_s: float | None = None  # since 1970
        self._taken = 0

    def __reduce__(self) -> Any:
        return OfferedSource, (Load((), ""),)  # a worker only decodes

    @property
    def started_s(self) -> float:
        """When the load began."""
        if self._started_s is None:
            self._started_s = time.time()
        return self._started_s

    def read(self, partition: str, position: Any) -> Iterator[tuple[Any, int]]:
        first, start_s = position or 0, self.started_s
        self._taken = first
        for number in range(first, self._count_due()):
            self._taken = number + 1
            yield (self._item(number), start_s + self._due_s[number]), number + 1

    def decode(self, rows: Sequence[Any]) -> Sequence[Any]:
        return [item for item, _ in rows]

    def born_s(self, row: Any) -> float:
        due_s: float = row[1]
        return due_s

    def has_ended(self) -> bool:
        return self._taken >= len(self._due_s)

    def wait(self, at_most_s: float) -> None:
        late_s = self.started_s + self._due_s[self._taken] - time.time()
        time.sleep(min(at_most_s, max(0.0, late_s)))

    def count_waiting(self, positions: Mapping[str, Any]) -> int:
        if self._started_s is None:  # the first read starts the clock
            return 0
        return max(0, self._count_due() - (positions.get("all") or 0))

    def close(self) -> None:  # another run has a clock of its own
        self._started_s, self._taken = None, 0

    def _count_due(self) -> int:
        return bisect_right(self._due_s, time.time() - self.started_s)

    def _item(self, number: int) -> Any:
        return number if self._items is None else self._items[number % len(self._items)]
