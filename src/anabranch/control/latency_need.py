"""How many replicas the regions of a program need under a load, by the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.control.goals import Latency
from anabranch.control.latency_decision import Degrees
from anabranch.control.latency_model import wait_s
from anabranch.metrics.observed import Observed, RegionLoad

VARIABILITY = 0.5  # of arrivals and services, until it is known; 1 if all is chance
MARGIN = 0.9  # of the bound, for what the model leaves out
ENOUGH = 30  # items, to tell how variable a load is
EVEN = 1.3
TELLING = 0.9
CATCH_UP_S = 5.0  # how soon a backlog should be gone


@dataclass(frozen=True)
class Stance:
    """How busy replicas may be, and how variable the load is taken to be."""

    full: float = 0.85
    variability: float = VARIABILITY


@dataclass(frozen=True)
class Need:
    """How many replicas a region needs, of how many it can have, and why so many.

    `work` is how many replicas would be busy all the time. It is `met` if the bound can
    be kept with them.
    """

    degree: int
    work: float
    met: bool
    why: str


def needs(
    seen: Observed,
    goal: Latency,
    most: int,
    ceilings: Mapping[str, int],
    stance: Stance,
) -> dict[str, Need]:
    """Return what every region needs, within `most` replicas for all of them."""
    found = {
        name: need_of(
            load, seen, goal, max(1, min(most, ceilings.get(name, most))), stance
        )
        for name, load in seen.regions.items()
    }
    while sum(need.degree for need in found.values()) > max(most, len(found)):
        name = min(
            (one for one, need in found.items() if need.degree > 1),
            key=lambda one: found[one].work / (found[one].degree - 1),
        )
        need = found[name]
        why = f"{need.why}; there is room for {most} replicas in all"
        found[name] = Need(need.degree - 1, need.work, met=False, why=why)
    return found


def need_of(
    load: RegionLoad, seen: Observed, goal: Latency, most: int, stance: Stance
) -> Need:
    """Return the smallest degree that keeps the bound, or the largest that helps.

    >>> load = RegionLoad(degree=1, service_s=0.02, items_per_s=50)
    >>> seen = Observed(1.0, (120.0,), backlog=0, regions={"r0": load})
    >>> need_of(load, seen, Latency(0.2), 8, Stance()).degree
    3
    """
    rate = rate_of(load, seen)
    work = rate * load.service_s
    lag = max(0.0, load.share - 1 / load.degree) if load.degree > 1 else 0.0
    # of the busiest replica, beyond its part
    free_s = MARGIN * goal.bound_s - load.service_s - seen.others_s
    stable = [
        d for d in range(1, most + 1) if work * min(1.0, 1 / d + lag) <= stance.full
    ]
    quick = [
        d
        for d in stable
        if stance.variability * wait_s(work, d, load.service_s, goal.quantile) <= free_s
    ]
    why = f"{rate:.3g} items a second of {load.service_s * 1000:.3g} ms each"
    met = bool(quick)
    degree = (quick or stable or [_helpful(most, lag)])[0]
    queue_s = seen.backlog * load.per_item * load.service_s / load.degree
    if queue_s > max(0.0, free_s) / 2:
        soon = math.ceil(
            (rate + seen.backlog * load.per_item / CATCH_UP_S) * load.service_s
        )
        if soon > degree:
            degree = min(max(degree, soon), _helpful(most, lag))
            why += f", and {seen.backlog:.0f} wait"
    return Need(degree, work, met, why)


def rate_of(load: RegionLoad, seen: Observed) -> float:
    """Return the load of a region: as of late, if it has clearly risen within the step.

    >>> load = RegionLoad(1, 0.01, 10)
    >>> rate_of(load, Observed(1.0, (10, 10, 30, 30), backlog=0))
    30.0
    """
    rate = seen.arrived_per_s
    if seen.latest_per_s > 1.25 * rate:
        rate = seen.latest_per_s
    return rate * load.per_item


def trimmed(degrees: Degrees, found: Mapping[str, Need]) -> dict[str, int]:
    """Return the degrees that differ from those that there are."""
    return {n: need.degree for n, need in found.items() if need.degree != degrees[n]}


def _helpful(most: int, lag: float) -> int:
    """Return how many replicas help where one of them has more to do than its part."""
    return most if lag <= 0 else max(1, min(most, math.ceil(1 / lag)))


def variability_of(seen: Observed, goal: Latency) -> float | None:
    """Return how variable the load is, from how long items waited; None if unknown.

    A step tells only if the load was even in it, if enough items came, and if the model
    has them wait at all.
    """
    if len(seen.regions) != 1 or seen.sojourns.items < ENOUGH or not seen.arrivals:
        return None
    if max(seen.arrivals) > EVEN * min(seen.arrivals):
        return None
    (load,) = seen.regions.values()
    work = rate_of(load, seen) * load.service_s
    wait = wait_s(work, load.degree, load.service_s, goal.quantile)
    if work > TELLING * load.degree or not load.service_s / 2 < wait < math.inf:
        return None
    alone_s = load.service_s + seen.others_s
    waited_s = seen.sojourns.quantile_s(goal.quantile) - alone_s
    return min(1.5, max(0.1, waited_s / wait))
