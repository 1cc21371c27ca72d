"""Chooses the next change of threads: a port or a replica more, one fewer, or one
moved.

A threaded port divides the path of a thread; one more replica divides the work of a
region. Both are compared by the predicted work of the busiest thread. Neither is tried
without a free core, or if the threads would only wait for a lock. If two promise the
same, the one with fewer threads wins, then the port, since it needs no ordering.

Ports are inserted one after another, and two ports that were best individually need not
be the best pair. When nothing is left to add, the model knows the cost of each
operator, so every placement that differs in one port is compared by the load of its
busiest core.

The initial replicas of a program may not be worth their cost. When nothing else is left
to try, one of them is removed, if that can lose only little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from anabranch.control.goals import ControlSettings
from anabranch.control.throughput.model import estimate_busiest_core
from anabranch.control.throughput.pipelining import (
    Insertion,
    choose_ports,
    select_bottlenecks,
)
from anabranch.metrics.pipeline import Pipeline, ThreadLoad, find_sharing
from anabranch.plan.plan import Arrangement

Producers = Mapping[str, tuple[str, ...]]  # of each operator, producers first


def find_better_placement(
    pipeline: Pipeline,
    ports: frozenset[str],
    places: Collection[str],
    producers: Producers,
    cores: int,
) -> Iterator[tuple[float, str, str | None]]:
    """Yield ports that could be moved or removed (None), the most promising first.

    Each comes with its predicted speed-up.

    >>> from anabranch.metrics.pipeline import InputLoad, ServiceTime
    >>> uses = {("a",): 0.6, ("a", "b"): 0.4, ("c",): 0.1}
    >>> pipeline = Pipeline(
    ...     tuple(InputLoad(r[-1], r, ServiceTime(use), 1.0) for r, use in uses.items())
    ... )
    >>> chain = {"a": (), "b": ("a",), "c": ("b",)}
    >>> [(round(gain, 2), *rest) for gain, *rest in
    ...     find_better_placement(pipeline, frozenset("c"), "bc", chain, cores=2)]
    [(1.67, 'c', 'b')]
    """
    work = _work_of(pipeline)

    def busiest(placed: frozenset[str]) -> float:
        loads = share_out(work, placed, producers)
        return estimate_busiest_core(sorted(loads.values(), reverse=True), cores)

    if not work or not ports:
        return iter(())
    now = busiest(ports)
    found: list[tuple[float, str, str | None]] = []
    for port in sorted(ports):
        rest = ports - {port}
        if len(ports) >= cores:  # one thread more than cores, or several
            found.append((now / busiest(rest), port, None))
        found += [
            (now / busiest(rest | {place}), port, place)
            for place in sorted(set(places) - ports)
        ]
    better = [one for one in found if one[0] > 1]
    return iter(sorted(better, key=lambda one: (-one[0], one[1], one[2] or "")))


def _work_of(pipeline: Pipeline) -> dict[str, float]:
    """Return each operator's share of a thread's time."""
    work: dict[str, float] = {}
    for load in pipeline.threads:
        for operator, use in load.own.items():
            work[operator] = work.get(operator, 0.0) + use
    return work


def share_out(
    work: Mapping[str, float], ports: frozenset[str], producers: Producers
) -> dict[str, float]:
    """Return the work of each thread, by its first operator.

    >>> chain = {"a": (), "b": ("a",), "c": ("b",)}
    >>> share_out({"a": 1.0, "b": 2.0, "c": 3.0}, frozenset("c"), chain)
    {'a': 3.0, 'c': 3.0}
    """
    thread_of: dict[str, str] = {}
    loads: dict[str, float] = {}
    for operator, before in producers.items():
        own = operator in ports or not before
        thread = operator if own else thread_of[before[0]]
        thread_of[operator] = thread
        loads[thread] = loads.get(thread, 0.0) + work.get(operator, 0.0)
    return loads


ALIKE = 0.02  # smaller differences between promises do not count
MOSTLY = 0.5  # of its busy time: a thread that blocks longer needs no core
FIRST_JUMP = 16  # times as many replicas, if they block
JUMP = 4
LEAST_USE = 0.001  # of a core


@dataclass(frozen=True)
class Scope:
    """What may be changed: the cores, the places and the regions.

    `barred` has what is not to be tried: ports, and the places named by `channels_of`
    and `fewer_channels_of`.
    """

    cores: int
    places: frozenset[str]
    regions: Mapping[str, tuple[str, ...]]  # region -> its operators
    barred: frozenset[str] = frozenset()
    producers: Producers = field(default_factory=dict)  # empty: ports stay


@dataclass(frozen=True)
class Move:
    """A change to try: what it adds, its result, and why.

    `at` has, for each changed place, the operator to measure at. One that `saves` a
    thread is kept if it loses nothing.
    """

    what: str
    why: str
    to: Arrangement
    at: Mapping[str, str]
    promise: float
    threads: int
    saves: bool = False


@dataclass(frozen=True)
class Stay:
    """Nothing to try, and why."""

    why: str


def channels_of(region: str) -> str:
    """Return the place that stands for the replicas of a region."""
    return f"replicas of {region}"


def fewer_channels_of(region: str) -> str:
    """Return the place that stands for one replica fewer of a region."""
    return f"fewer replicas of {region}"


def choose_move(
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | Stay:
    """Return the most promising change, or why there is none."""
    chosen = _one_more(pipeline, arrangement, scope, settings)
    if isinstance(chosen, Stay):
        elsewhere = _one_port_elsewhere(pipeline, arrangement, scope, settings)
        if elsewhere is not None:
            return elsewhere
        for region in scope.regions:
            less = _one_channel_less(region, pipeline, arrangement, scope, settings)
            if less is not None:
                return less
        return _one_port_less(pipeline, arrangement, scope, settings) or chosen
    return chosen


def _one_more(
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | Stay:
    needy = select_bottlenecks(pipeline.threads, settings.beta)
    if not needy:
        return Stay(
            "no thread is a bottleneck; the busiest is at work "
            f"{pipeline.busiest:.0%} of the time"
        )
    free = scope.cores - pipeline.wanted_cores
    if free < settings.least_free_cores:
        return Stay(f"all {scope.cores} cores are busy")
    if pipeline.locked * (1 + settings.least_promise) >= 1:
        return Stay(
            f"the interpreter's lock is taken {pipeline.locked:.0%} of the time; "
            "further threads would wait for it"
        )
    ports = _one_more_port(pipeline, arrangement, scope, settings)
    channels = [
        _more_channels(region, needy, pipeline, arrangement, scope, settings)
        for region in scope.regions
        if channels_of(region) not in scope.barred
    ]
    moves = [
        move
        for move in (ports, *channels)
        if move is not None and move.promise > 1 + settings.least_promise
    ]
    if not moves:
        return Stay("no further thread or replica is expected to help")
    most = max(move.promise for move in moves)
    return min(
        (move for move in moves if move.promise > most * (1 - ALIKE)),
        key=lambda move: move.threads,
    )


def _one_more_port(
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | None:
    if _measure_barred_share(scope) > settings.alpha:
        return None
    found = _generous(pipeline, arrangement, scope, settings)
    if found is None:
        return None
    loads = {load.thread: load for load in pipeline.threads}
    helped = [loads[thread] for thread in found.places]
    ports = sorted(found.ports)
    after = pipeline.divide(ports)
    return Move(
        what=f"insert threaded ports at {', '.join(ports)}"
        if len(ports) > 1
        else f"insert a threaded port at {ports[0]}",
        why=_why(helped, found.utility),
        to=arrangement.with_ports(ports),
        at={port: port for port in ports},
        promise=predict_gain(pipeline, after, scope.cores),
        threads=sum(
            max(load.replicas for load in find_sharing(pipeline.threads, port))
            for port in ports
        ),
    )


def _generous(
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Insertion | None:
    """Return the optimizer's answer for all potential bottleneck threads.

    A thread just below `beta` becomes the bottleneck once those above are helped, and
    would cost a step of its own. So it is helped as well, as long as that leaves the
    busiest thread with less work.
    """
    seen = {port for load in pipeline.threads for port in load.ports}
    excluded = (seen - scope.places) | scope.barred | arrangement.ports
    best, least, beta = None, float("inf"), settings.beta
    while True:
        found = choose_ports(
            pipeline.threads,
            beta=beta,
            excluded=excluded,
            pruning=settings.pruning,
            sorting=settings.sorting,
        )
        if found is None:
            return best
        others = [load for load in pipeline.threads if load.thread not in found.places]
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


def _more_channels(  # noqa: PLR0917 - the whole situation
    region: str,
    needy: Collection[ThreadLoad],
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | None:
    operators, width = scope.regions[region], arrangement.degree(region)
    inside = {
        load.thread: sum(load.own.get(operator, 0.0) for operator in operators)
        for load in needy
    }
    if not any(inside.values()):
        return None
    wider = _choose_width(inside, needy, width, pipeline, scope, settings)
    after = pipeline.widen(operators, wider)
    promise = predict_gain(pipeline, after, scope.cores)
    if region in pipeline.with_more:
        promise = 1 / pipeline.with_more[region]
    return Move(
        what=f"{wider} replicas for {region}",
        why=_why(needy, after.busiest),
        to=arrangement.with_degree(region, wider),
        at={channels_of(region): operators[0]},
        promise=promise,
        threads=wider - width if width > 1 else wider,
    )


def _choose_width(  # noqa: PLR0917 - the whole situation
    inside: Mapping[str, float],
    needy: Collection[ThreadLoad],
    width: int,
    pipeline: Pipeline,
    scope: Scope,
    settings: ControlSettings,
) -> int:
    """Return how many replicas to try: one more, or many if operators block.

    As many as would keep the free cores busy; what is tried at once is measured at
    once.
    """
    waiting = [load for load in needy if inside[load.thread] and load.blocked]
    if not waiting or any(load.blocked < MOSTLY * load.utilization for load in waiting):
        return width + 1
    used = sum(load.on_core * load.replicas for load in waiting)
    free = max(0.0, scope.cores - pipeline.busy_cores)
    fitting = int(width * (1 + free / max(used, LEAST_USE)))
    jump = FIRST_JUMP if width == 1 else JUMP
    most = min(jump * width, fitting, max(width + 1, settings.most_replicas))
    return max(width + 1, most)


def _one_channel_less(
    region: str,
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | None:
    """Return a removal of a replica, if trying it costs little.

    Only if parts of the program run one after the other: then its cost is known, and
    the rest of the time does not depend on the replicas.
    """
    width, place = arrangement.degree(region), fewer_channels_of(region)
    if width == 1 or place in scope.barred or region not in pipeline.with_fewer:
        return None
    risk = pipeline.with_fewer[region] - 1
    if risk > settings.most_risk:
        return None
    return Move(
        what=f"{width - 1} replica{'s' * (width > 2)} for {region}",  # noqa: PLR2004
        why=f"one less costs at most {max(0.0, risk):.0%} of the throughput",
        to=arrangement.with_degree(region, width - 1),
        at={place: scope.regions[region][0]},
        promise=1 / (1 + risk),
        threads=-1,
    )


def no_port_at(port: str) -> str:
    """Return the place that stands for one threaded port fewer."""
    return f"no port at {port}"


def _one_port_less(
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | None:
    """Return a port without effect to remove, if there is one.

    Of several ports inserted at once, only some may have helped; and the work may have
    shifted. A nearly idle thread is not worth its port, nor is one that the thread
    before it could run without becoming a bottleneck.
    """
    busy = {load.thread: load.wanted * load.replicas for load in pipeline.threads}
    most = max(busy.values(), default=0.0)
    after = _find_loads_without(pipeline, arrangement, scope)
    reasons = {
        port: (
            f"its thread is at work {busy[port]:.0%} of the time, the busiest {most:.0%}"
            if busy[port] <= settings.most_risk * most
            else f"one thread would do for it and what comes before: {after[port]:.0%} of "
            "its time"
        )
        for port in arrangement.ports & busy.keys()
        if no_port_at(port) not in scope.barred
        and (
            busy[port] <= settings.most_risk * most
            or after.get(port, most) < settings.beta * most
        )
    }
    if not reasons:
        return None
    port = min(reasons, key=lambda one: (busy[one], one))
    return Move(
        what=f"remove the threaded port at {port}",
        why=reasons[port],
        to=arrangement.without_ports({port}),
        at={no_port_at(port): port},
        promise=1.0,
        threads=-1,
        saves=True,
    )


def _find_loads_without(
    pipeline: Pipeline, arrangement: Arrangement, scope: Scope
) -> dict[str, float]:
    """Return for each port the load of the thread that would run its operators too.

    Ports where that is unknown are left out: blocking threads, and replicas.
    """
    if not scope.producers or arrangement.degrees:
        return {}
    if any(load.blocked or load.replicas > 1 for load in pipeline.threads):
        return {}
    work, found = _work_of(pipeline), {}
    now = share_out(work, arrangement.ports, scope.producers)
    for port in arrangement.ports:
        without = share_out(work, arrangement.ports - {port}, scope.producers)
        more = [load for name, load in without.items() if load > now.get(name, 0.0)]
        found[port] = max(more, default=0.0)
    return found


def _one_port_elsewhere(
    pipeline: Pipeline,
    arrangement: Arrangement,
    scope: Scope,
    settings: ControlSettings,
) -> Move | None:
    """Return a port to move or to remove for a better division of work.

    Not if some of the work belongs to replicas, or blocks, or waits for a lock: then an
    operator's cost does not determine its thread's speed.
    """
    uncertain = any(load.blocked or load.replicas > 1 for load in pipeline.threads)
    if not scope.producers or uncertain or arrangement.degrees:
        return None
    if pipeline.locked * (1 + settings.least_promise) >= 1:
        return None
    better = find_better_placement(
        pipeline, arrangement.ports, scope.places, scope.producers, scope.cores
    )
    for promise, port, place in better:
        if promise <= 1 + settings.least_promise:
            break
        name = no_port_at(port) if place is None else f"{place} instead of {port}"
        if name in scope.barred:
            continue
        rest = arrangement.without_ports({port})
        return Move(
            what=f"remove the threaded port at {port}"
            if place is None
            else f"move the threaded port at {port} to {place}",
            why=f"the busiest core would have {1 / promise:.0%} of the work that it has",
            to=rest if place is None else rest.with_ports({place}),
            at={name: place or port},
            promise=promise,
            threads=-1 if place is None else 0,
        )
    return None


def _measure_barred_share(scope: Scope) -> float:
    """Return the share of the ports that have been tried in vain."""
    return len(scope.barred & scope.places) / max(1, len(scope.places))


def predict_gain(pipeline: Pipeline, after: Pipeline, cores: int) -> float:
    """Return the predicted speed-up of a change.

    The busiest thread sets the pace, unless the cores or the interpreter lock do.

    >>> from anabranch.metrics.pipeline import InputLoad, ServiceTime
    >>> uses = {("a",): 0.5, ("a", "b"): 0.5}
    >>> now = Pipeline(
    ...     tuple(InputLoad(r[-1], r, ServiceTime(use), 1.0) for r, use in uses.items())
    ... )
    >>> predict_gain(now, now.divide({"b"}), cores=4)
    2.0
    """
    faster = min(
        pipeline.busiest / after.busiest if after.busiest > 0 else float(cores),
        cores / max(pipeline.wanted_cores, LEAST_USE),
        1 / pipeline.locked if pipeline.locked else float("inf"),
    )
    return 1 / (1 - pipeline.share + pipeline.share / faster)


def _why(helped: Collection[ThreadLoad], after: float) -> str:
    names = ", ".join(f"{load.thread} ({load.utilization:.0%} busy)" for load in helped)
    blocked = max((load.blocked for load in helped), default=0.0)
    waits = (
        f", {blocked:.0%} of the time blocked, as in a call of a server"
        if blocked
        else ""
    )
    return f"bottleneck: {names}{waits}; after this the busiest thread has {after:.0%}"
