"""The number of replicas that regions need under a load, by a queueing model.

An item waits if all replicas are busy, until one of them is free for it. The longest wait
of a given share of the items follows from the usual approximation of a queue with general
arrivals and services (Allen and Cunneen). The model is accurate where it matters, close
to full load, and there it is steep: so the number of replicas hardly depends on how
exact it is.
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
    """Return how long a share of the items waits at most; `load` in busy replicas.

    That is where arrivals and services are as random as can be; where they are not, it
    is so much less as they are less variable.

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
    """Return which share of the items finds all servers busy.

    >>> erlang_c(0.5, 1), round(erlang_c(2.0, 3), 3)
    (0.5, 0.444)
    """
    if load >= servers:
        return 1.0
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


VARIABILITY = 0.5  # of arrivals and services, until it is known; 1 if all is chance
MARGIN = 0.9  # of the bound, for what the model leaves out
ENOUGH = 30  # items, to tell how variable a load is
EVEN = 1.3
RISEN = 1.25
TELLING = 0.9
AS_WELL = 0.05  # more work for the busiest replica: not worth further ones
CATCH_UP_S = 5.0  # how soon a backlog should be gone, at the latest
LEAST_CATCH_UP_S = 0.5  # and as soon as it can be


def catch_up_s(goal: Latency) -> float:
    """Return the time in which a backlog should be gone: all that wait in it are late.

    >>> catch_up_s(Latency(0.05)), catch_up_s(Latency(1.0))
    (0.5, 2.0)
    """
    return min(CATCH_UP_S, max(LEAST_CATCH_UP_S, 2 * goal.bound_s))


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


Shares = Mapping[int, float]  # degree -> share of the busiest replica, as it was seen


def share_at(load: RegionLoad, degree: int, known: Shares) -> float:
    """Return which share of the work the busiest of so many replicas has.

    Of a degree that was not tried it is expected that it stands out by as much as now:
    another number of replicas may divide the keys better. Once several degrees were
    tried, what stands out in the largest of them is taken to be one key.

    >>> load = RegionLoad(2, 0.01, 100, share=0.75, keyed=True)
    >>> share_at(load, 3, {}), share_at(load, 3, {3: 0.625}), share_at(load, 1, {})
    (0.5, 0.625, 1.0)
    >>> share_at(load, 5, {2: 0.75, 3: 0.7})
    0.64
    """
    if degree in known:
        return known[degree]
    if len(known) > 1:
        largest = max(known)
        return round(predict_share(known[largest], largest, degree), 6)
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

    The busiest replica of a keyed region is a queue of its own: `known` tells its share
    of the work with degrees that were tried.

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
    helpful = _helpful(most, lag)
    if load.keyed:  # more than one that divides the work as well have nothing to do
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
    """Return the load of a region: as of late, if it has clearly risen within the step.

    >>> load = RegionLoad(1, 0.01, 10)
    >>> rate_of(load, Observed(1.0, (10, 10, 30, 30), backlog=0))
    30.0
    """
    return load_of(seen) * load.per_item


def load_of(seen: Observed) -> float:
    """Return the load of a step: as of late, if it has clearly risen within it."""
    latest = seen.latest_per_s
    return latest if latest > RISEN * seen.arrived_per_s else seen.arrived_per_s


def trim(degrees: Degrees, found: Mapping[str, Need]) -> dict[str, int]:
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
    work, servers = rate_of(load, seen) * load.service_s, load.degree
    if load.keyed:  # the busiest replica is a queue of its own
        work, servers = work * max(load.share, 1 / load.degree), 1
    wait = wait_s(work, servers, load.service_s, goal.quantile)
    if work > TELLING * servers or not load.service_s / 2 < wait < math.inf:
        return None
    alone_s = load.service_s + seen.pipeline.others_s
    waited_s = seen.sojourns.quantile_s(goal.quantile) - alone_s
    return min(1.5, max(0.1, waited_s / wait))
