"""Latency on an engine that works in epochs: the degree, and how much an epoch admits.

An epoch takes a fixed time and some for each item, divided among the replicas. An item
waits for the epoch that runs when it arrives and then for its own, so that all but few
take less than two epochs. Small epochs are quick and spend most of their time on what is
fixed; so an epoch admits what fits into half of the bound, or, if that is too little to
keep up with the load, as little as keeps up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from anabranch.control.goals import Latency
from anabranch.control.latency_decision import Decision, Degrees, Room, in_words, ms
from anabranch.control.latency_need import CATCH_UP_S, MARGIN
from anabranch.metrics.observed import Epoch, Observed

REMEMBERED = 30
PATIENCE = 5  # epochs in which fewer would have done
AHEAD = 1.2  # how much faster than the load an epoch must be, to catch up
LEAST_CHANGE = 2.0  # times what an epoch admits
LEAST_ITEMS = 10
FEW = 5  # epochs that say nothing yet
NEVER = 1 << 62


@dataclass(frozen=True)
class Costs:
    """What an epoch takes: `fixed_s`, and `item_s` for each item and replica."""

    fixed_s: float
    item_s: float

    def epoch_s(self, items: float, degree: int) -> float:
        """Return how long an epoch takes.

        >>> Costs(0.2, 0.001).epoch_s(400, degree=2)
        0.4
        """
        return self.fixed_s + self.item_s * items / degree

    def steady_s(self, rate: float, degree: int) -> float:
        """Return how long an epoch takes that admits what arrives in one.

        >>> Costs(0.2, 0.001).steady_s(rate=500, degree=1)
        0.4
        """
        busy = self.item_s * rate / degree
        return math.inf if busy >= 1 else self.fixed_s / (1 - busy)


@dataclass(frozen=True)
class EpochMemory:
    """The epochs of late, and for how many fewer replicas would have done."""

    epochs: tuple[Epoch, ...] = ()
    calm: int = 0
    told: bool = False


def costs_of(epochs: Sequence[Epoch]) -> Costs | None:
    """Return what epochs cost: a line through what they took; None if too few ran.

    >>> seen = [Epoch(n, 0.2 + n / 1000, 1) for n in (100, 200, 400, 400, 300)]
    >>> found = costs_of(seen)
    >>> round(found.fixed_s, 3), round(found.item_s, 6)
    (0.2, 0.001)
    """
    if len(epochs) < FEW:
        return None
    shares = [one.items / one.degree for one in epochs]
    took_s = [one.seconds for one in epochs]
    mean_n, mean_s = fmean(shares), fmean(took_s)
    spread = sum((n - mean_n) ** 2 for n in shares)
    slope = 0.0
    if spread > len(shares) * (0.1 * max(mean_n, 1.0)) ** 2:
        slope = (
            sum(
                (n - mean_n) * (s - mean_s) for n, s in zip(shares, took_s, strict=True)
            )
            / spread
        )
    slope = max(0.0, slope)
    fixed_s = mean_s - slope * mean_n
    if fixed_s <= 0:  # all of it goes into items
        return Costs(0.02, mean_s / max(mean_n, 1.0))
    return Costs(fixed_s, slope)


def admit(  # noqa: PLR0917 - as the other policies, and what an epoch admits
    seen: Observed,
    degrees: Degrees,
    goal: Latency,
    room: Room,
    memory: EpochMemory,
    epoch_items: int,
) -> tuple[Decision | None, EpochMemory]:
    """Return the degree and what epochs admit, where that changes, and what to remember."""
    epochs = (*memory.epochs, *seen.epochs)[-REMEMBERED:]
    memory = replace(memory, epochs=epochs)
    costs = costs_of(epochs)
    if costs is None:
        return None, memory
    region = next(iter(degrees), None)
    now = degrees[region] if region is not None else 1
    most = room.replicas or room.cores if region is not None else 1
    rate = max(seen.arrived_per_s, seen.latest_per_s)
    target_s = MARGIN * goal.bound_s / (1 + goal.quantile)
    wanted = _degree(costs, rate, seen.backlog, target_s, most)
    if wanted < now:  # with room to spare
        wanted = min(now, _degree(costs, AHEAD * rate, seen.backlog, target_s, most))
    memory, wanted = _patient(memory, wanted, now, seen, goal)
    items = _items(costs, rate, wanted, target_s)
    steady_s = costs.steady_s(rate, wanted)
    said, memory = _unmet(seen, goal, steady_s, memory)
    changes: dict[str, int] = {}
    if region is not None and wanted != now:
        changes[region] = wanted
    admits = None
    fewer = items * LEAST_CHANGE < epoch_items
    more = epoch_items * LEAST_CHANGE < items and costs.item_s > 0  # it is known
    if fewer or more:
        admits = items
    if not changes and admits is None:
        return said, memory
    parts = [in_words(changes)] if changes else []
    if admits is not None:
        parts.append(f"an epoch admits {admits} items")
    why = (
        f"{rate:.3g} items a second, {seen.backlog:.0f} wait; an epoch takes "
        f"{ms(costs.fixed_s)} and {costs.item_s * 1e6:.3g} us an item"
    )
    if said is not None:
        why += f"; {said.what}: {said.why}"
    return Decision(", ".join(parts), why, changes, admits), memory


def _degree(
    costs: Costs, rate: float, backlog: float, target_s: float, most: int
) -> int:
    """Return the fewest replicas with which epochs are short enough; else what helps."""
    if backlog > 2 * rate * target_s:
        rate += backlog / CATCH_UP_S
    steady = {d: costs.steady_s(rate, d) for d in range(1, most + 1)}
    for degree, epoch_s in steady.items():
        if epoch_s <= target_s:
            return degree
    best_s = min(steady.values())
    if math.isinf(best_s):
        return most
    return next(d for d, s in steady.items() if s <= 1.05 * best_s)


def _items(costs: Costs, rate: float, degree: int, target_s: float) -> int:
    each_s = costs.item_s / degree
    fitting = (target_s - costs.fixed_s) / each_s if each_s > 0 else NEVER
    busy = AHEAD * rate * each_s
    keeping = AHEAD * rate * costs.fixed_s / (1 - busy) if busy < 1 else NEVER
    most = 50 * max(rate, 1.0)  # an epoch of minutes is no help to anybody
    return max(LEAST_ITEMS, int(min(max(fitting, keeping), most)))


def _patient(
    memory: EpochMemory, wanted: int, now: int, seen: Observed, goal: Latency
) -> tuple[EpochMemory, int]:
    """Give replicas back only after a while."""
    if wanted >= now:
        return replace(memory, calm=0), wanted
    late = seen.sojourns.quantile_s(goal.quantile) > goal.bound_s
    memory = replace(memory, calm=0 if late else memory.calm + len(seen.epochs))
    if memory.calm < PATIENCE:
        return memory, now
    return replace(memory, calm=0), wanted


def _unmet(
    seen: Observed, goal: Latency, steady_s: float, memory: EpochMemory
) -> tuple[Decision | None, EpochMemory]:
    late_s = seen.sojourns.quantile_s(goal.quantile)
    if not seen.sojourns.items or late_s <= goal.bound_s:
        return None, replace(memory, told=False)
    if (1 + goal.quantile) * steady_s <= goal.bound_s or memory.told:
        return None, memory
    took_s = median(one.seconds for one in memory.epochs)
    if math.isinf(steady_s):
        reason = f"{seen.arrived_per_s:.3g} items a second are more than it can do"
    else:
        reason = f"an item waits for two epochs, and one takes {ms(took_s)}"
    close = (
        f"{goal.quantile:.0%} are within {ms(late_s)}, "
        f"{seen.sojourns.within(goal.bound_s):.0%} within {ms(goal.bound_s)}"
    )
    said = Decision(f"{ms(goal.bound_s)} cannot be kept", f"{reason}; now {close}")
    return said, replace(memory, told=True)
