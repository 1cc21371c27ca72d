"""What is told of an epoch as soon as it is over, to whoever traces a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class EpochTrace:
    """An epoch: its number in this run, when it began, and how long its phases took.

    `began_s` is in seconds since 1970. The phases follow one another: "read" is what
    the driver does to find the rows, "run" the tasks of Spark, "commit" what makes them
    count.
    """

    number: int
    began_s: float
    phases: tuple[tuple[str, float], ...]
    items: int

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return sum(seconds for _, seconds in self.phases)


OnEpoch: TypeAlias = Callable[[EpochTrace], object]


def ignore(trace: EpochTrace) -> None:
    """Take no notice."""
