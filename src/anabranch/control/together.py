"""One decision maker for ports and channels: which one more thread helps most.

A threaded port divides the path of a thread; one more channel divides the work of a
region. Both are weighed by the same measure, the predicted work of the busiest thread,
and neither is worth a try without a core that is free for it, or if the threads would
only wait for a lock. Of two that promise the same, the one with fewer threads is taken,
and then the port: it keeps no order.

Channels that a program began with have not earned their keep. When nothing else is left
to try, one of them is taken away, if that can cost but little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anabranch.control.bottlenecks import select_bottlenecks
from anabranch.control.pipelining import Insertion, choose_ports
from anabranch.control.settings import Settings
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.plan.arrangement import Arrangement

ALIKE = 0.02  # promises that differ by less are the same


@dataclass(frozen=True)
class Scope:
    """What may be changed: on so many cores, at these places and in these regions.

    `barred` holds what is not to be tried: ports, and what `channels_of` and
    `fewer_channels_of` name.
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


def fewer_channels_of(region: str) -> str:
    """Return the place that stands for one channel less of a region."""
    return f"fewer channels of {region}"


def choose_move(
    profile: Profile, arrangement: Arrangement, scope: Scope, settings: Settings
) -> Move | Stay:
    """Return the change that promises most, or why there is none."""
    chosen = _one_more(profile, arrangement, scope, settings)
    if isinstance(chosen, Stay):
        for region in scope.regions:
            less = _one_channel_less(region, profile, arrangement, scope, settings)
            if less is not None:
                return less
    return chosen


def _one_more(
    profile: Profile, arrangement: Arrangement, scope: Scope, settings: Settings
) -> Move | Stay:
    needy = select_bottlenecks(profile, settings.beta)
    if not needy:
        busiest = max((load.utilization for load in profile.threads), default=0.0)
        return Stay(
            f"no thread is a bottleneck; the busiest uses {busiest:.0%} of a core"
        )
    free = scope.cores - profile.wanted_cores
    if free < settings.least_free_cores:
        return Stay(f"all {scope.cores} cores are busy")
    if profile.locked * (1 + settings.least_promise) >= 1:
        return Stay(
            f"the interpreter's lock is taken {profile.locked:.0%} of the time; "
            "further threads would wait for it"
        )
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
    found = _generous(profile, arrangement, scope, settings)
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
        promise=_promise(helped, found.utility, profile, scope, profile.share),
        threads=sum(
            max(load.replicas for load in profile.sharing(port)) for port in ports
        ),
    )


def _generous(
    profile: Profile, arrangement: Arrangement, scope: Scope, settings: Settings
) -> Insertion | None:
    """Return the optimizer's answer for all threads that would be bottlenecks.

    A thread just below `beta` becomes the bottleneck once those above are helped, and
    would cost a step of its own. So it is helped as well, as long as that leaves the
    busiest thread with less.
    """
    seen = {port for load in profile.threads for port in load.ports}
    excluded = (seen - scope.places) | scope.barred | arrangement.ports
    best, least, beta = None, float("inf"), settings.beta
    while True:
        found = choose_ports(
            profile,
            beta=beta,
            excluded=excluded,
            pruning=settings.pruning,
            sorting=settings.sorting,
        )
        if found is None:
            return best
        others = [load for load in profile.threads if load.thread not in found.places]
        busiest = max([found.utility, *(load.utilization for load in others)])
        if busiest >= least * (1 - ALIKE):
            return best
        best, least = found, busiest
        next_in_line = [
            load.wanted
            for load in others
            if found.utility < load.utilization and load.wanted < beta
        ]
        if not next_in_line:
            return best
        beta = min(next_in_line)


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
    promise = _promise(needy, after, profile, scope, profile.share)
    if region in profile.with_more:
        promise = 1 / profile.with_more[region]
    return Move(
        what=f"{width + 1} channels for {region}",
        why=_why(needy, after),
        to=arrangement.with_degree(region, width + 1),
        at={channels_of(region): operators[0]},
        promise=promise,
        threads=1 if width > 1 else width + 1,
    )


def _one_channel_less(
    region: str,
    profile: Profile,
    arrangement: Arrangement,
    scope: Scope,
    settings: Settings,
) -> Move | None:
    """Return whether a region could do with less, if finding out costs but little.

    Only where parts of the program run one after the other: what it costs is then
    known, and the rest of the time does not depend on the channels.
    """
    width, place = arrangement.degree(region), fewer_channels_of(region)
    if width == 1 or place in scope.barred or region not in profile.with_fewer:
        return None
    risk = profile.with_fewer[region] - 1
    if risk > settings.most_risk:
        return None
    return Move(
        what=f"{width - 1} channel{'s' * (width > 2)} for {region}",  # noqa: PLR2004
        why=f"one less costs at most {max(0.0, risk):.0%}, and there is less to start and "
        "to move",
        to=arrangement.with_degree(region, width - 1),
        at={place: scope.regions[region][0]},
        promise=1 / (1 + risk),
        threads=-1,
    )


def _listed_share(scope: Scope) -> float:
    """Return which share of the ports has been tried in vain."""
    return len(scope.barred & scope.places) / max(1, len(scope.places))


def _promise(
    helped: Collection[ThreadLoad],
    after: float,
    profile: Profile,
    scope: Scope,
    share: float,
) -> float:
    """Return how much faster all would be, if so much of the time were."""
    busiest = max(load.utilization for load in helped)
    faster = min(
        busiest / after if after > 0 else float(scope.cores),
        scope.cores / profile.wanted_cores,
        1 / profile.locked if profile.locked else float("inf"),
    )
    return 1 / (1 - share + share / faster)


def _why(helped: Collection[ThreadLoad], after: float) -> str:
    names = ", ".join(f"{load.thread} ({load.utilization:.0%})" for load in helped)
    return f"bottleneck: {names}; split, the busiest has {after:.0%} of a core's work"
