"""What an epoch costs, as its tasks have told: what is fixed, and what items add."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from anabranch.metrics.observed import Epoch

FEW = 2  # epochs that say nothing yet


@dataclass(frozen=True)
class Costs:
    """What an epoch takes: `fixed_s`, and so much for each item.

    Of that `item_s` is divided among the replicas; `alone_s` is not: stages that are not
    replicated, and what the busiest replica has to do beyond its part.
    """

    fixed_s: float
    item_s: float
    alone_s: float = 0.0

    def each_s(self, degree: int) -> float:
        """Return by how much an item makes an epoch longer."""
        return self.alone_s + self.item_s / degree

    def epoch_s(self, items: float, degree: int) -> float:
        """Return how long an epoch takes.

        >>> Costs(0.2, 0.001).epoch_s(400, degree=2)
        0.4
        """
        return self.fixed_s + self.each_s(degree) * items

    def steady_s(self, rate: float, degree: int) -> float:
        """Return how long an epoch takes that admits what arrives in one.

        >>> Costs(0.2, 0.001).steady_s(rate=500, degree=1)
        0.4
        """
        busy = self.each_s(degree) * rate
        return math.inf if busy >= 1 else self.fixed_s / (1 - busy)


def costs_of(epochs: Sequence[Epoch]) -> Costs | None:
    """Return what epochs cost; None if too few ran.

    >>> costs_of([Epoch(100, 0.4, 2, work_s=0.2, longest_s=0.1)] * 2)
    Costs(fixed_s=0.3, item_s=0.002, alone_s=0.0)
    """
    items = sum(one.items for one in epochs)
    if len(epochs) < FEW or not items:
        return None
    work_s = sum(one.work_s for one in epochs)
    alone_s = sum(one.longest_s - one.work_s / one.degree for one in epochs)
    fixed_s = median(one.seconds - one.longest_s for one in epochs)
    return Costs(
        max(1e-3, round(fixed_s, 9)),
        round(work_s / items, 9),
        round(max(0.0, alone_s / items), 9),
    )
