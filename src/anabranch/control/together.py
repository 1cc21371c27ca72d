"""One decision maker for ports and channels: which one more thread helps most.

A threaded port divides the path of a thread; one more channel divides the work of a
region. Both are weighed by the same measure, the predicted work of the busiest thread,
and neither is worth a try without a core that is free for it. Of two that promise the
same, the one with fewer threads is taken, and then the port: it keeps no order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anabranch.control.bottlenecks import select_bottlenecks
from anabranch.control.pipelining import choose_ports
from anabranch.control.settings import Settings
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.plan.arrangement import Arrangement

ALIKE = 0.02  # promises that differ by less are the same


@dataclass(frozen=True)
class Scope:
    """What may be changed: on so many cores, at these places and in these regions.

    `barred` holds ports, and regions (as `channels_of` names them), not to be tried.
    """

    cores: int
    places: frozenset[str]
    regions: Mapping[str, tuple[str, ...]]  # region -> its operators
    barred: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Move:
    """A change to try: what it adds, what comes of it, and why.

    `at` tells for each place that is changed the operator to measure at.
    """

    what: str
    why: str
    to: Arrangement
    at: Mapping[str, str]
    promise: float
    threads: int


@dataclass(frozen=True)
class Stay:
    """Nothing to try, and why."""

    why: str


def channels_of(region: str) -> str:
    """Return the place that stands for the channels of a region."""
    return f"channels of {region}"


def choose_move(
    profile: Profile, arrangement: Arrangement, scope: Scope, settings: Settings
) -> Move | Stay:
    """Return the change that promises most, or why there is none."""
    needy = select_bottlenecks(profile, settings.beta)
    if not needy:
        busiest = max((load.utilization for load in profile.threads), default=0.0)
        return Stay(
            f"no thread is a bottleneck; the busiest uses {busiest:.0%} of a core"
        )
    free = scope.cores - profile.busy_cores
    if free < settings.least_free_cores:
        return Stay(f"all {scope.cores} cores are busy")
    ports = _one_more_port(profile, arrangement, scope, settings)
    channels = [
        _one_more_channel(region, needy, profile, arrangement, scope)
        for region in scope.regions
        if channels_of(region) not in scope.barred
    ]
    moves = [
        move
        for move in (ports, *channels)
        if move is not None and move.promise > 1 + settings.least_promise
    ]
    if not moves:
        return Stay(
            "no threaded port and no channel that is left to try promises a gain"
        )
    most = max(move.promise for move in moves)
    return min(
        (move for move in moves if move.promise > most * (1 - ALIKE)),
        key=lambda move: move.threads,
    )


def _one_more_port(
    profile: Profile, arrangement: Arrangement, scope: Scope, settings: Settings
) -> Move | None:
    if _listed_share(scope) > settings.alpha:
        return None
    seen = {port for load in profile.threads for port in load.ports}
    found = choose_ports(
        profile,
        beta=settings.beta,
        excluded=(seen - scope.places) | scope.barred | arrangement.ports,
        pruning=settings.pruning,
        sorting=settings.sorting,
    )
    if found is None:
        return None
    loads = {load.thread: load for load in profile.threads}
    helped = [loads[thread] for thread in found.places]
    ports = sorted(found.ports)
    return Move(
        what=f"insert threaded ports at {', '.join(ports)}"
        if len(ports) > 1
        else f"insert a threaded port at {ports[0]}",
        why=_why(helped, found.utility),
        to=arrangement.with_ports(ports),
        at={port: port for port in ports},
        promise=_promise(helped, found.utility, profile, scope),
        threads=sum(
            max(load.replicas for load in profile.sharing(port)) for port in ports
        ),
    )


def _one_more_channel(
    region: str,
    needy: Collection[ThreadLoad],
    profile: Profile,
    arrangement: Arrangement,
    scope: Scope,
) -> Move | None:
    operators, width = scope.regions[region], arrangement.degree(region)
    inside = {
        load.thread: sum(load.own.get(operator, 0.0) for operator in operators)
        for load in needy
    }
    if not any(inside.values()):
        return None
    # All channels together do what they do now; what is not in the region stays.
    after = max(
        max(load.utilization - use, use * width / (width + 1))
        if use
        else load.utilization
        for load in needy
        for use in (inside[load.thread],)
    )
    return Move(
        what=f"{width + 1} channels for {region}",
        why=_why(needy, after),
        to=arrangement.with_degree(region, width + 1),
        at={channels_of(region): operators[0]},
        promise=_promise(needy, after, profile, scope),
        threads=1 if width > 1 else width + 1,
    )


def _listed_share(scope: Scope) -> float:
    """Return which share of the ports has been tried in vain."""
    return len(scope.barred & scope.places) / max(1, len(scope.places))


def _promise(
    helped: Collection[ThreadLoad], after: float, profile: Profile, scope: Scope
) -> float:
    busiest = max(load.utilization for load in helped)
    by_balance = busiest / after if after > 0 else float(scope.cores)
    return min(by_balance, scope.cores / profile.busy_cores)


def _why(helped: Collection[ThreadLoad], after: float) -> str:
    names = ", ".join(f"{load.thread} ({load.utilization:.0%})" for load in helped)
    return f"bottleneck: {names}; split, the busiest has {after:.0%} of a core's work"
