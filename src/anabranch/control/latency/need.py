"""The number of replicas that regions need under a load, by a queueing model.

An item waits if all replicas are busy, until one of them is free. The quantile of the
waiting time follows from the usual approximation of a queue with general arrivals and
services (Allen and Cunneen). The model is accurate where it matters, close to full
load, and there it is steep: so the number of replicas hardly depends on its precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import Degrees
from anabranch.metrics.load import Observed
from anabranch.metrics.pipeline import RegionLoad, predict_share


def wait_s(load: float, degree: int, service_s: float, quantile: float) -> float:
    """Return the quantile of the waiting time; `load` in busy replicas.

    This assumes fully random arrivals and services; if they vary less, it is
    proportionally shorter.

    >>> round(wait_s(0.5, 1, 0.01, 0.99), 4), wait_s(2.5, 2, 0.01, 0.99)
    (0.0782, inf)
    """
    if load >= degree:
        return math.inf
    waiting = erlang_c(load, degree)
    if waiting <= 1 - quantile:
        return 0.0
    each_s = service_s / (degree - load)
    return each_s * math.log(waiting / (1 - quantile))


def erlang_c(load: float, servers: int) -> float:
    """Return the share of items that find all servers busy.

    >>> erlang_c(0.5, 1), round(erlang_c(2.0, 3), 3)
    (0.5, 0.444)
    """
    if load >= servers:
        return 1.0
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


VARIABILITY = 0.5  # of arrivals and services, until known; 1 if fully random
MARGIN = 0.9  # of the bound, for what the model ignores
ENOUGH = 30  # items needed to estimate variability
EVEN = 1.3
RISEN = 1.25
TELLING = 0.9
NEARLY_FULL = 0.9  # utilization allowed if two replicas more would change little
AS_WELL = 0.05  # excess of the busiest replica beyond which more are useless
CATCH_UP_S = 5.0  # time to clear a backlog, at most
LEAST_CATCH_UP_S = 0.5  # and at least


def catch_up_s(goal: Latency) -> float:
    """Return the time in which a backlog should be gone: all its items are late.

    >>> catch_up_s(Latency(0.05)), catch_up_s(Latency(1.0))
    (0.5, 2.0)
    """
    return min(CATCH_UP_S, max(LEAST_CATCH_UP_S, 2 * goal.bound_s))


@dataclass(frozen=True)
class Stance:
    """How busy replicas may be, and the assumed variability of the load."""

    full: float = 0.85
    variability: float = VARIABILITY


@dataclass(frozen=True)
class Need:
    """The degree a region needs, its maximum, and the reason.

    `work` is the number of replicas that would be busy all the time. It is `met` if the
    bound can be kept.
    """

    degree: int
    work: float
    met: bool
    why: str


def needs(  # noqa: PLR0917 - a model has its inputs
    seen: Observed,
    goal: Latency,
    most: int,
    ceilings: Mapping[str, int],
    stance: Stance,
    known: Mapping[str, Shares] | None = None,
) -> dict[str, Need]:
    """Return the need of every region, within `most` replicas for all of them."""
    found = {
        name: need_of(
            load,
            seen,
            goal,
            max(1, min(most, ceilings.get(name, most))),
            stance,
            (known or {}).get(name),
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


Shares = Mapping[int, float]  # degree -> measured share of the busiest replica


def share_at(load: RegionLoad, degree: int, known: Shares) -> float:
    """Return the busiest replica's share of the work at a degree.

    For a degree that was not tried, counted keys tell; beyond the largest one that they
    tell about, its imbalance is attributed to one key. If no keys were counted, the
    present imbalance is assumed: another number of replicas may divide the keys better.
    Once several degrees were tried, the imbalance of the largest of them is attributed
    to one key.

    >>> load = RegionLoad(2, 0.01, 100, share=0.75, keyed=True)
    >>> share_at(load, 3, {}), share_at(load, 3, {3: 0.625}), share_at(load, 1, {})
    (0.5, 0.625, 1.0)
    >>> share_at(load, 5, {2: 0.75, 3: 0.7})
    0.64
    >>> share_at(RegionLoad(2, 0.01, 9, 0.75, shares={2: 0.75}), 4, {})
    0.625
    """
    if degree in known:
        return known[degree]
    if degree in load.shares:
        return load.shares[degree]
    tried = load.shares or (known if len(known) > 1 else {})
    if tried:
        largest = max(tried)
        return round(predict_share(tried[largest], largest, degree), 6)
    skew = max(1.0, load.share * load.degree) if load.degree > 1 else 1.0
    return min(1.0, skew / degree)


def need_of(  # noqa: PLR0917 - a model has its inputs
    load: RegionLoad,
    seen: Observed,
    goal: Latency,
    most: int,
    stance: Stance,
    known: Shares | None = None,
) -> Need:
    """Return the smallest degree that keeps the bound, or the largest that helps.

    The busiest replica of a keyed region is a queue of its own: `known` has its share
    of the work at degrees that were tried.

    >>> load = RegionLoad(degree=1, service_s=0.02, items_per_s=50)
    >>> seen = Observed(1.0, (120.0,), backlog=0)
    >>> need_of(load, seen, Latency(0.2), 8, Stance()).degree
    3
    """
    rate = rate_of(load, seen)
    work = rate * load.service_s
    # of the busiest replica, beyond its part
    lag = max(0.0, load.share - 1 / load.degree) if load.degree > 1 else 0.0
    free_s = MARGIN * goal.bound_s - load.service_s - seen.pipeline.others_s

    def busiest(degree: int) -> float:
        if load.keyed:
            return work * share_at(load, degree, known or {})
        return work * min(1.0, 1 / degree + lag)

    def waits_s(degree: int) -> float:
        if load.keyed:
            return wait_s(busiest(degree), 1, load.service_s, goal.quantile)
        return wait_s(work, degree, load.service_s, goal.quantile)

    stable = [d for d in range(1, most + 1) if busiest(d) <= stance.full]
    quick = [d for d in stable if stance.variability * waits_s(d) <= free_s]
    if load.keyed and quick:  # a hot key may need several more for little
        quick = [
            d
            for d in range(1, quick[0] - 1)
            if busiest(d) <= max(stance.full, NEARLY_FULL)
            and stance.variability * waits_s(d) <= free_s
        ][:1] + quick
    helpful = _helpful(most, lag)
    if load.keyed:  # more than an even division has no use
        least = min(map(busiest, range(1, most + 1)))
        helpful = min(
            d for d in range(1, most + 1) if busiest(d) <= (1 + AS_WELL) * least
        )
    why = f"{rate:.3g} items a second of {load.service_s * 1000:.3g} ms each"
    met = bool(quick)
    degree = (quick or stable or [helpful])[0]
    queue_s = seen.backlog * load.per_item * load.service_s / load.degree
    if queue_s > max(0.0, free_s) / 2:
        soon = math.ceil(
            (rate + seen.backlog * load.per_item / catch_up_s(goal)) * load.service_s
        )
        if soon > degree:
            degree = min(max(degree, soon), max(helpful, degree))
            why += f", and {seen.backlog:.0f} wait"
    return Need(degree, work, met, why)


def rate_of(load: RegionLoad, seen: Observed) -> float:
    """Return the load of a region: the recent one, if it has clearly risen in the step.

    >>> load = RegionLoad(1, 0.01, 10)
    >>> rate_of(load, Observed(1.0, (10, 10, 30, 30), backlog=0))
    30.0
    """
    return load_of(seen) * load.per_item


def load_of(seen: Observed) -> float:
    """Return the load of a step: the recent one, if it has clearly risen in it."""
    latest = seen.latest_per_s
    return latest if latest > RISEN * seen.arrived_per_s else seen.arrived_per_s


def trim(degrees: Degrees, found: Mapping[str, Need]) -> dict[str, int]:
    """Return the degrees that differ from the present ones."""
    return {n: need.degree for n, need in found.items() if need.degree != degrees[n]}


def _helpful(most: int, lag: float) -> int:
    """Return how many replicas help if one of them has more than its share."""
    return most if lag <= 0 else max(1, min(most, math.ceil(1 / lag)))


def variability_of(seen: Observed, goal: Latency) -> float | None:
    """Return the variability of the load, from waiting times; None if unknown.

    A step counts only if its load was even, enough items came, and the model predicts
    waiting at all.
    """
    if len(seen.regions) != 1 or seen.sojourns.items < ENOUGH or not seen.arrivals:
        return None
    if max(seen.arrivals) > EVEN * min(seen.arrivals):
        return None
    (load,) = seen.regions.values()
    work, servers = rate_of(load, seen) * load.service_s, load.degree
    if load.keyed:  # the busiest replica is a queue of its own
        work, servers = work * max(load.share, 1 / load.degree), 1
    wait = wait_s(work, servers, load.service_s, goal.quantile)
    if work > TELLING * servers or not load.service_s / 2 < wait < math.inf:
        return None
    alone_s = load.service_s + seen.pipeline.others_s
    waited_s = seen.sojourns.quantile_s(goal.quantile) - alone_s
    return min(1.5, max(0.1, waited_s / wait))
