"""How fast items go by, measured several times over so that the spread is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import TypeAlias

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
    """How throughput changed: `ratio` of after to before, known to within `margin`."""

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
