"""Rates of arriving and processed items, with their spread."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, variance
from typing import TypeAlias

import numpy as np

Series: TypeAlias = Sequence[float]  # items per second, one slice of time after another


@dataclass(frozen=True)
class Rates:
    """Items per second at the input of each operator (at the output of a source)."""

    at: Mapping[str, tuple[float, ...]]

    def __add__(self, other: Rates) -> Rates:
        """Concatenate both series.

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
        """Tell whether the gain is above `least`, beyond chance.

        >>> Gain(ratio=1.2, margin=0.05).exceeds(0.03)
        True
        >>> Gain(ratio=1.2, margin=0.25).exceeds(0.03)
        False
        """
        return self.ratio - 1 > max(least, self.margin)

    def __str__(self) -> str:
        return f"{self.ratio:.2f}x \N{PLUS-MINUS SIGN}{self.margin:.2f}"


def gain(before: Series, after: Series, sureness: float = 2.0) -> Gain:
    """Compare two series; the margin is `sureness` standard errors of their difference.

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


LOOKS = 20  # readings of arrivals in a control step
FEW_LOOKS = 2  # too few for an alarm or a load
STEP_PARTS = 4  # in which the load of a step is told


class StepArrivals:
    """Counts arrivals within a control step, until it is over or too many wait.

    The load is given in equal parts of the step. An alarmed step gives the load of all
    of it, and that of its end: the highest since any reading, over at least two.

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
        """Add a reading; tell whether to continue."""
        self._looks.append((at_s, arrived))
        self.alarmed = len(self._looks) > FEW_LOOKS and waiting > self._most
        return len(self._looks) <= LOOKS and not self.alarmed

    def rates(self) -> tuple[float, ...]:
        """Return the load in items per second."""
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
    """Keeps readings for as long as they describe the recent load.

    >>> recent = RecentArrivals()
    >>> _ = recent.look(0.0, 0), recent.look(1.0, 100)
    >>> recent.look(2.0, 300)
    (100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0)
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now_s: float, arrived: int) -> tuple[float, ...]:
        """Add a reading; return the recent load in equal parts, oldest first."""
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
