"""Latency on an engine that works in epochs: the degree, and the admission limit.

An item waits for the epoch running when it arrives and then for its own, so nearly all
take less than two epochs; the degree is the lowest that allows this. After a burst, an
overloaded epoch admits what fits into most of the bound or, if that is too little to
keep up with the load, the minimum that keeps up: so a change, which begins with the
next epoch, is never far away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import (
    MOST_NEEDED,
    Decision,
    Degrees,
    Room,
    WarningState,
    describe_degrees,
    make_message,
    ms,
)
from anabranch.control.latency.need import CATCH_UP_S
from anabranch.metrics.load import Epoch, Observed

FEW = 2  # epochs that say nothing yet
COLD = 2.0  # times the item cost of later epochs: the first one loaded the program


@dataclass(frozen=True)
class EpochCosts:
    """The cost of an epoch: `fixed_s`, and a cost per item.

    Of the latter `item_s` is divided among the replicas; `alone_s` is not: stages that
    are not replicated, and the excess of the busiest replica.
    """

    fixed_s: float
    item_s: float
    alone_s: float = 0.0

    def each_s(self, degree: int) -> float:
        """Return the marginal cost of an item."""
        return self.alone_s + self.item_s / degree

    def epoch_s(self, items: float, degree: int) -> float:
        """Return the duration of an epoch.

        >>> EpochCosts(0.2, 0.001).epoch_s(400, degree=2)
        0.4
        """
        return self.fixed_s + self.each_s(degree) * items

    def steady_s(self, rate: float, degree: int) -> float:
        """Return the duration of an epoch that admits its own arrivals.

        >>> EpochCosts(0.2, 0.001).steady_s(rate=500, degree=1)
        0.4
        """
        busy = self.each_s(degree) * rate
        return math.inf if busy >= 1 else self.fixed_s / (1 - busy)


def costs_of(epochs: Sequence[Epoch]) -> EpochCosts | None:
    """Return the cost of epochs; None if too few ran.

    >>> costs_of([Epoch(100, 0.4, 2, work_s=0.2, longest_s=0.1)] * 2)
    EpochCosts(fixed_s=0.3, item_s=0.002, alone_s=0.0)
    """
    items = sum(one.items for one in epochs)
    if len(epochs) < FEW or not items:
        return None
    work_s = sum(one.work_s for one in epochs)
    alone_s = sum(one.longest_s - one.work_s / one.degree for one in epochs)
    fixed_s = median(one.seconds - one.longest_s for one in epochs)
    return EpochCosts(
        max(1e-3, round(fixed_s, 9)),
        round(work_s / items, 9),
        round(max(0.0, alone_s / items), 9),
    )


def leave_out_cold(epochs: tuple[Epoch, ...]) -> tuple[Epoch, ...]:
    """Return the first epochs of a job, without one that loaded the program.

    A few items, late because the job starts, would look as if each took that long.

    >>> cold, warm = Epoch(5, 1.5, 1, work_s=1.4), Epoch(16, 0.2, 1, work_s=0.16)
    >>> len(leave_out_cold((cold, warm))), len(leave_out_cold((warm, warm)))
    (1, 2)
    """
    first, *later = epochs
    items, work_s = sum(one.items for one in later), sum(one.work_s for one in later)
    if first.work_s * items > COLD * work_s * first.items:
        return tuple(later)
    return epochs


MARGIN = 0.85  # of the bound, for two epochs
LONGEST = 0.7  # of the bound, for an overloaded epoch
FIRST_ITEMS = 1000  # items of an epoch while costs are unknown
REMEMBERED = 10  # epochs
PATIENCE_S = 6.0  # during which fewer would have sufficed
MOST_PATIENCE_S = 24.0
REGRET_S = 12.0  # within which an increase means that they were removed too soon
AHEAD = 1.2  # how much faster than the load an epoch must be to catch up
ROOM = 1.05  # times the load, as a margin
RISEN = 1.25  # times the recent load
ENOUGH = 1.2  # times the shortest epoch, if none is short enough
LEAST_CHANGE = 2.0  # times an epoch's limit
USELESS = 0.95  # increase of an item's cost with more replicas
SHIFT = 0.25
AWHILE_S = 3.0  # after which latency is that of the present replicas
LEAST_ITEMS = 10
NEAR = 0.8  # of the bound
NEVER = 1 << 62


@dataclass(frozen=True)
class EpochMemory:
    """Recent epochs and their outcome.

    More replicas than `ceiling` did not help when an item took `ceiling_item_s`;
    `trial` is the degree before the last increase, and the cost of an item then.
    """

    epochs: tuple[Epoch, ...] = ()
    warm: bool = False  # whether the first epoch was compared with later ones
    warning: WarningState = field(default_factory=WarningState)
    rising: int = 0  # consecutive epochs that ask for more
    calm_s: float = 0.0
    low: int = 0  # enough in all of the calm time
    patience_s: float = PATIENCE_S
    since_fewer_s: float = math.inf
    since_more_s: float = math.inf
    trial: tuple[int, float] | None = None
    ceiling: int = NEVER
    ceiling_item_s: float = 0.0


def admit(  # noqa: PLR0917 - as the other policies, and what an epoch admits
    seen: Observed,
    degrees: Degrees,
    goal: Latency,
    room: Room,
    memory: EpochMemory,
    epoch_items: int,
) -> tuple[Decision | None, EpochMemory]:
    """Return a change of degree or admission limit, if any, and the new memory."""
    region = next(iter(degrees), None)
    now = degrees[region] if region is not None else 1
    memory = _later(memory, seen)
    costs = costs_of(memory.epochs)
    if costs is None:
        return None, memory
    most = room.replicas or room.cores if region is not None else 1
    target_s = MARGIN * goal.bound_s / (1 if seen.closed else 1 + goal.quantile)
    memory, back = _judge(memory, costs, now)
    if back is not None:
        wanted = back
    elif seen.closed:
        wanted = min(most, memory.ceiling)
    else:
        memory, wanted = _choose_degree(memory, seen, goal, costs, now, most, target_s)
    if wanted > now:
        memory = replace(memory, trial=(now, costs.item_s), since_more_s=0.0)
    longest_s = LONGEST * goal.bound_s
    admits = _choose_limit(costs, seen, memory, wanted, longest_s, epoch_items)
    said, warning = make_message(
        seen,
        goal,
        memory.warning,
        lambda: _why_unmet(seen, goal, costs, wanted, memory),
    )
    memory = replace(memory, warning=warning)
    if wanted == now and admits is None:
        return said, memory
    changes = {region: wanted} if region is not None and wanted != now else {}
    parts = [describe_degrees(changes)] if changes else []
    if admits is not None:
        parts.append(f"an epoch admits {admits} items")
    why = (
        f"{rate_of(seen):.3g} items a second, {seen.backlog:.0f} wait; an epoch takes "
        f"{ms(costs.fixed_s)} and {ms(costs.item_s)} an item"
    )
    if back is not None:
        why = f"more did not help: {why}"
    if said is not None:
        parts.append(said.what)
        why += f"; {said.what}: {said.why}"
    return Decision(", ".join(parts), why, changes, admits), memory


def rate_of(seen: Observed) -> float:
    """Return the load: the recent one, if it has clearly risen.

    >>> rate_of(Observed(1.0, (10, 10, 10, 20), backlog=0))
    20
    """
    latest = seen.arrivals[-1] if seen.arrivals else 0.0
    return latest if latest > RISEN * seen.arrived_per_s else seen.arrived_per_s


def _later(memory: EpochMemory, seen: Observed) -> EpochMemory:
    epochs = (*memory.epochs, *seen.epochs)
    warm = memory.warm or any(one.items for one in epochs[1:])
    if warm and not memory.warm:
        epochs = leave_out_cold(epochs)
    return replace(
        memory,
        epochs=epochs[-REMEMBERED:],
        warm=warm,
        since_fewer_s=memory.since_fewer_s + seen.seconds,
        since_more_s=memory.since_more_s + seen.seconds,
    )


def _judge(
    memory: EpochMemory, costs: EpochCosts, now: int
) -> tuple[EpochMemory, int | None]:
    """Tell whether added replicas should be removed; forget old ceilings."""
    if memory.ceiling != NEVER and (
        abs(costs.item_s / max(memory.ceiling_item_s, 1e-9) - 1) > SHIFT
    ):
        memory = replace(memory, ceiling=NEVER)
    found = costs_of([one for one in memory.epochs if one.degree == now and one.items])
    if memory.trial is None or found is None:
        return memory, None
    (before, item_s), memory = memory.trial, replace(memory, trial=None)
    if found.item_s < max(1 + SHIFT, USELESS * now / before) * item_s:
        return memory, None
    return replace(memory, ceiling=before, ceiling_item_s=item_s), before


def _choose_degree(  # noqa: PLR0917
    memory: EpochMemory,
    seen: Observed,
    goal: Latency,
    costs: EpochCosts,
    now: int,
    most: int,
    target_s: float,
) -> tuple[EpochMemory, int]:
    """Return the degree: increases come soon, decreases only after a while."""
    most = max(1, min(most, memory.ceiling))
    rate = rate_of(seen)
    need = degree_for(costs, ROOM * rate, seen.backlog, target_s, most)
    late_s = seen.sojourns.quantile_s(goal.quantile)
    if need == now + 1 and memory.since_more_s < AWHILE_S:
        return replace(memory, calm_s=0.0, low=0), now
    if need > now:
        hurried = late_s >= NEAR * goal.bound_s or need > now + 1
        if not hurried and not memory.rising:
            return replace(memory, rising=1, calm_s=0.0, low=0), now
        regretted = memory.since_fewer_s <= REGRET_S
        patience_s = min(MOST_PATIENCE_S, memory.patience_s * (2 if regretted else 1))
        memory = replace(memory, rising=0, calm_s=0.0, low=0, patience_s=patience_s)
        return memory, need
    memory = replace(memory, rising=0)
    spare = degree_for(costs, AHEAD * rate, seen.backlog, target_s, most)
    if spare >= now or late_s > goal.bound_s:
        return replace(memory, calm_s=0.0, low=0), now
    falling = memory.calm_s < memory.patience_s / 3  # the load may still do so
    low = spare if falling else max(memory.low, spare)
    calm_s = memory.calm_s + seen.seconds
    if calm_s < memory.patience_s:
        return replace(memory, calm_s=calm_s, low=low), now
    return replace(memory, calm_s=0.0, low=0, since_fewer_s=0.0), low


def degree_for(
    costs: EpochCosts, rate: float, backlog: float, target_s: float, most: int
) -> int:
    """Return the lowest degree with short enough epochs; else the best one.

    >>> degree_for(EpochCosts(0.2, 0.001), 1000, backlog=0, target_s=0.45, most=4)
    2
    """
    if backlog > 2 * rate * target_s:
        rate += backlog / CATCH_UP_S
    steady = {d: costs.steady_s(rate, d) for d in range(1, most + 1)}
    for degree, epoch_s in steady.items():
        if epoch_s <= target_s:
            return degree
    best_s = min(steady.values())
    if math.isinf(best_s):
        return most
    return next(d for d, s in steady.items() if s <= ENOUGH * best_s)


def _choose_limit(  # noqa: PLR0917
    costs: EpochCosts,
    seen: Observed,
    memory: EpochMemory,
    degree: int,
    longest_s: float,
    epoch_items: int,
) -> int | None:
    """Return the new admission limit, if it should change."""
    items = _items(costs, seen, degree, longest_s)
    took = memory.epochs[-1].items
    too_long = max(seen.backlog, took) > items or seen.closed
    if items * LEAST_CHANGE < epoch_items and too_long:
        return items
    in_the_way = max(seen.backlog, took / 0.9) >= epoch_items
    if epoch_items * LEAST_CHANGE < items and in_the_way:
        return items
    return None


def _items(costs: EpochCosts, seen: Observed, degree: int, longest_s: float) -> int:
    rate, each_s = rate_of(seen), costs.each_s(degree)
    fitting = (longest_s - costs.fixed_s) / each_s if each_s > 0 else NEVER
    busy = AHEAD * rate * each_s
    most = 3 * max(fitting, rate * costs.fixed_s)  # an epoch of minutes helps nobody
    keeping = AHEAD * rate * costs.fixed_s / (1 - busy) if busy < 1 else most
    if seen.closed:  # it keeps up by itself
        keeping = 0.0
    return max(LEAST_ITEMS, int(min(max(fitting, keeping), most)))


def _why_unmet(
    seen: Observed, goal: Latency, costs: EpochCosts, degree: int, memory: EpochMemory
) -> str | None:
    """Return why the bound is not kept, and how many replicas would do."""
    rate = rate_of(seen)

    def keeps(replicas: int) -> bool:
        return (1 + goal.quantile) * costs.steady_s(rate, replicas) <= goal.bound_s

    if keeps(degree):
        return None
    took_s = median(one.seconds for one in memory.epochs)
    if math.isinf(costs.steady_s(rate, degree)):
        reason = f"{rate:.3g} items a second are more than it can do"
    else:
        reason = f"an item waits for two epochs, and one takes {ms(took_s)}"
    names = memory.epochs[-1].slowest
    slowest = f", longest in {' and '.join(names)}" if names else ""
    needed = next((d for d in range(degree + 1, MOST_NEEDED + 1) if keeps(d)), None)
    if needed is not None:
        return f"{reason}{slowest}; it would need {needed} replicas"
    return f"{reason}{slowest}; no number of replicas would do"
