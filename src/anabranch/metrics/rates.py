"""Rates of items, arriving and processed, measured with their spread."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, variance
from typing import TypeAlias

import numpy as np

Series: TypeAlias = Sequence[float]  # items a second, one slice of time after another


@dataclass(frozen=True)
class Rates:
    """Items a second at the input of each operator (at the output of a source)."""

    at: Mapping[str, tuple[float, ...]]

    def __add__(self, other: Rates) -> Rates:
        """Return both series, one after the other.

        >>> (Rates({"a": (1.0,)}) + Rates({"a": (2.0,)})).at
        {'a': (1.0, 2.0)}
        """
        return Rates({name: one + other.at[name] for name, one in self.at.items()})


@dataclass(frozen=True)
class Gain:
    """The change of throughput: `ratio` of after to before, with its `margin`."""

    ratio: float
    margin: float

    def exceeds(self, least: float) -> bool:
        """Tell whether more than `least` was gained, beyond what chance explains.

        >>> Gain(ratio=1.2, margin=0.05).exceeds(0.03)
        True
        >>> Gain(ratio=1.2, margin=0.25).exceeds(0.03)
        False
        """
        return self.ratio - 1 > max(least, self.margin)

    def __str__(self) -> str:
        return f"{self.ratio:.2f}x \N{PLUS-MINUS SIGN}{self.margin:.2f}"


def gain(before: Series, after: Series, sureness: float = 2.0) -> Gain:
    """Compare two series; the margin is so many standard errors of their difference.

    >>> gain([100, 102, 98], [150, 152, 148]).ratio
    1.5
    """
    base = fmean(before)
    if base <= 0:
        return Gain(1.0, float("inf"))
    error = sum(
        variance(series) / len(series) for series in (before, after) if len(series) > 1
    )
    return Gain(fmean(after) / base, sureness * error**0.5 / base)


LOOKS = 20  # at what has arrived, in a control step
FEW_LOOKS = 2  # that are no alarm, and tell no load
STEP_PARTS = 4  # in which the load of a step is told


class StepArrivals:
    """Looks at what arrives within a control step, until it is over or too many wait.

    The load comes in equal parts of the step. A step that was alarmed tells the load of
    all of it, and that of its end: the highest from any look on, of two looks at least.

    >>> step = StepArrivals(most_waiting=9)
    >>> [step.look(*one) for one in ((0.0, 0, 0), (0.5, 5, 0), (1.0, 30, 0))]
    [True, True, True]
    >>> step.rates()
    (10.0, 10.0, 50.0, 50.0)
    >>> step.look(1.1, 45, waiting=12), step.alarmed, step.rates()
    (False, True, (40.9, 66.7))
    """

    def __init__(self, most_waiting: float = math.inf) -> None:
        self.alarmed = False
        self._most = most_waiting
        self._looks: list[tuple[float, int]] = []

    def look(self, at_s: float, arrived: int, waiting: float) -> bool:
        """Add a look; tell whether to go on."""
        self._looks.append((at_s, arrived))
        self.alarmed = len(self._looks) > FEW_LOOKS and waiting > self._most
        return len(self._looks) <= LOOKS and not self.alarmed

    def rates(self) -> tuple[float, ...]:
        """Return the load in items a second."""
        (first_s, first), (last_s, last) = self._looks[0], self._looks[-1]
        if last_s <= first_s:
            return (0.0,)
        if self.alarmed:
            early = self._looks[:-FEW_LOOKS]
            of_late = max((last - count) / (last_s - at_s) for at_s, count in early)
            return round((last - first) / (last_s - first_s), 1), round(of_late, 1)
        ends_s = np.linspace(first_s, last_s, STEP_PARTS + 1)
        at_s, counts = zip(*self._looks, strict=True)
        known = np.interp(ends_s, at_s, counts).tolist()
        part_s = (last_s - first_s) / STEP_PARTS
        return tuple((b - a) / part_s for a, b in pairwise(known))


RECENT_S = 2.0  # over which a load is measured
PARTS = 8


class RecentArrivals:
    """Remembers looks for as long as they tell about the load of late.

    >>> recent = RecentArrivals()
    >>> _ = recent.look(0.0, 0), recent.look(1.0, 100)
    >>> recent.look(2.0, 300)
    (100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0)
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now_s: float, arrived: int) -> tuple[float, ...]:
        """Add a look; return the load in equal parts of the time of late, oldest first."""
        looks = self._looks
        looks.append((now_s, arrived))
        while len(looks) > 2 and now_s - looks[1][0] >= RECENT_S:  # noqa: PLR2004
            looks.popleft()
        first_s = max(looks[0][0], now_s - RECENT_S)
        if now_s <= first_s:
            return (0.0,)
        at_s, counts = zip(*looks, strict=True)
        ends_s = np.linspace(first_s, now_s, PARTS + 1)
        known = np.interp(ends_s, at_s, counts).tolist()
        part_s = (now_s - first_s) / PARTS
        return tuple((after - before) / part_s for before, after in pairwise(known))
