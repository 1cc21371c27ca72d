"""Predicts the number of replicas in one step, from the cost of items and their rate.

Replicas are added as soon as the load or a backlog needs them. They are removed when
the backlog is gone and fewer would have sufficed for several steps in a row. A replica
that does not help is removed again, and not tried again until the cost of items
changes, or for a time that doubles with each failure in a row.

For a fixed time after a load, the replicas it needed are kept, since it may come again:
bursts and waves find what they needed the last time.

The policy is a pure function: its memory goes in and comes out with each step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

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
from anabranch.control.latency.need import (
    VARIABILITY,
    Need,
    Shares,
    Stance,
    catch_up_s,
    load_of,
    need_of,
    needs,
    trim,
    variability_of,
)
from anabranch.metrics.load import Observed

KEPT_S = 30.0  # how long room is kept for an earlier load
LEARNT = 0.3  # weight of a step in the estimate of a load


@dataclass(frozen=True)
class Highs:
    """The highest recent loads, each with its age: they may come again."""

    loads: tuple[tuple[float, float], ...] = ()  # seconds ago, and items per second

    @property
    def highest(self) -> float:
        """The load to keep room for."""
        return max((rate for _, rate in self.loads), default=0.0)

    def after(self, seconds: float, rate: float) -> Highs:
        """Add the load of a control step.

        >>> highs = Highs().after(1, 100).after(1, 20).after(28, 10)
        >>> highs.highest, highs.after(1, 10).highest, highs.after(2, 10).highest
        (100, 100, 20)
        """
        older = [(age + seconds, one) for age, one in self.loads if one > rate]
        kept = [pair for pair in older if pair[0] <= KEPT_S]
        return Highs((*kept, (0.0, rate)))


ROOMY = 0.82  # utilization allowed when adding: no second increase soon
SPARE = 0.7  # utilization allowed after a removal
PATIENCE = 6  # steps in which fewer would have sufficed, before a removal
MOST_PATIENCE = 24
REGRET = 12  # steps within which an increase means that the removal came too soon
LEAST_GAIN = 0.05
SHIFT = 0.25
NEAR = 0.8  # of the bound
FULL = 0.97  # utilization above which an unreplicated stage is too slow
GATHERED = 0.05  # seconds of the load that may wait without counting as a backlog
UNEVEN = 2.0  # times its share: keys are very unevenly divided
TELLS = 50  # items in a step, to measure the division
RETRY_S = 15.0  # until replicas that did not help are tried again; then twice as long


@dataclass(frozen=True)
class TrialResize:
    """An increase under trial: the degree and the capacity before it."""

    before: int
    capacity_per_s: float


@dataclass(frozen=True)
class Ceiling:
    """A degree beyond which replicas did not help, at an item cost.

    A busy machine may have been the reason; so after `rest_s` they may be tried again.
    """

    degree: int
    service_s: float
    rest_s: float = math.inf


@dataclass(frozen=True)
class Memory:
    """The policy's memory: trials and ceilings by region, and the recent outcome."""

    step: int = 0
    calm: int = 0  # consecutive steps in which fewer would have sufficed
    rising: int = 0  # consecutive steps in which one more would be better
    patience: int = PATIENCE
    fewer_at: int | None = None
    low: Mapping[str, int] = field(default_factory=dict)  # enough in all calm steps
    trials: Mapping[str, TrialResize] = field(default_factory=dict)
    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)  # of trials, in a row
    doubted: bool = False  # whether the last step, a short one, saw no gain
    variability: float = VARIABILITY
    warning: WarningState = field(default_factory=WarningState)
    highs: Highs = field(default_factory=Highs)
    shares: Mapping[str, Shares] = field(default_factory=dict)  # of keyed regions
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def predict(
    seen: Observed, degrees: Degrees, goal: Latency, room: Room, memory: Memory
) -> tuple[Decision | None, Memory]:
    """Return a change after a control step, if any, and the new memory."""
    memory, seen = _learn_gains(memory, seen)
    memory = _lift_ceilings(replace(memory, step=memory.step + 1), seen)
    if not degrees:  # nothing to change, but perhaps a message
        said, warning = make_message(
            seen, goal, memory.warning, lambda: _why_unmet(seen, goal, {}, 0, memory)
        )
        return said, replace(memory, warning=warning)
    high = seen.arrived_per_s if seen.alarmed else load_of(seen)
    memory = replace(memory, highs=memory.highs.after(seen.seconds, high))
    memory = _learn_shares(memory, seen)
    useless = _useless(seen, degrees, memory)
    if useless is not None:
        return _give_back(*useless, seen, goal, memory)
    memory = _learn_variability(memory, seen, goal)
    most = max(
        room.beside(seen.pipeline.others_busy, seen.pipeline.on_core), len(degrees)
    )
    ceilings = {name: one.degree for name, one in memory.ceilings.items()}
    stance = Stance(variability=memory.variability)
    full = _full_stage(seen, goal)
    reached = seen if full is None else _as_let_through(seen, full)
    known = memory.shares
    found = needs(reached, goal, most, ceilings, stance, known)
    more = {n: d for n, d in trim(degrees, found).items() if d > degrees[n]}
    if more:
        roomy = replace(stance, full=ROOMY)
        found = needs(reached, goal, most, ceilings, roomy, known)
        more = {n: max(found[n].degree, more[n]) for n in more}
        if not _urgent(seen, degrees, more, goal) and memory.rising < 1:
            return None, replace(memory, rising=memory.rising + 1, calm=0)
        return _add(more, found, seen, memory)
    memory = replace(memory, rising=0)
    said, warning = make_message(
        seen, goal, memory.warning, lambda: _why_unmet(seen, goal, found, most, memory)
    )
    memory = replace(memory, warning=warning)
    if said is not None:
        return said, memory
    enough = needs(reached, goal, most, ceilings, replace(stance, full=SPARE), known)
    again = replace(reached, arrivals=(memory.highs.highest,), backlog=0)
    if full is None:
        at_most = needs(again, goal, most, ceilings, stance, known)
        enough = {n: max(enough[n], at_most[n], key=_degree) for n in enough}
    fewer = {n: d for n, d in trim(degrees, enough).items() if d < degrees[n]}
    undivided = {n for n in fewer if seen.regions[n].shares and not enough[n].met}
    return _remove_spare(fewer, undivided, seen, goal, memory)


def _full_stage(seen: Observed, goal: Latency) -> tuple[str, float] | None:
    """Return the unreplicated stage that cannot keep up, and its cost per item."""
    name = max(
        seen.pipeline.stages, key=lambda one: seen.pipeline.stages[one], default=None
    )
    if name is None:
        return None
    each_s, waiting_per_s = seen.pipeline.stages[name], seen.backlog / catch_up_s(goal)
    regions = seen.regions.values()
    if any(one.service_s * one.per_item / one.degree > each_s for one in regions):
        waiting_per_s = 0.0  # the backlog may be waiting for them
    if each_s * (seen.arrived_per_s + waiting_per_s) < FULL:
        return None
    return name, each_s


def _as_let_through(seen: Observed, full: tuple[str, float]) -> Observed:
    """Return a step as seen behind a stage that cannot keep up.

    Replicas do not speed up that stage, and the backlog waits for it.
    """
    most_per_s = 1 / full[1]
    arrivals = tuple(min(rate, most_per_s) for rate in seen.arrivals)
    return replace(seen, arrivals=arrivals, backlog=0)


def _degree(need: Need) -> int:
    return need.degree


def _learn_gains(memory: Memory, seen: Observed) -> tuple[Memory, Observed]:
    """Record how many items reach a region per source item.

    A step counts if no backlog built up before the region; until enough items have come
    in such steps, all steps count.
    """
    gathered = seen.alarmed or seen.backlog > GATHERED * seen.arrived_per_s
    known, gains = dict(memory.gains), {}
    for name, load in seen.regions.items():
        came, read = known.get(name, (0.0, 0.0))
        if load.items_per_s and load.per_item and not (gathered and read >= TELLS):
            items = load.items_per_s * seen.seconds
            came = (1 - LEARNT) * came + items
            read = (1 - LEARNT) * read + items / load.per_item
            known[name] = came, read
        gains[name] = came / read if read else load.per_item
    pipeline = seen.pipeline.with_gains(gains)
    return replace(memory, gains=known), replace(seen, pipeline=pipeline)


def _learn_shares(memory: Memory, seen: Observed) -> Memory:
    """Record how evenly keys divide the work at a degree."""
    shares = dict(memory.shares)
    for name, load in seen.regions.items():
        if load.keyed and load.degree > 1 and load.items_per_s * seen.seconds >= TELLS:
            known = shares.get(name, {})
            before = known.get(load.degree, load.share)
            now = before + LEARNT * (load.share - before)
            shares[name] = {**known, load.degree: now}
    return replace(memory, shares=shares)


def _lift_ceilings(memory: Memory, seen: Observed) -> Memory:
    """Forget ceilings of regions whose item cost has changed, and old ones."""
    alike = {
        name: replace(one, rest_s=one.rest_s - seen.seconds)
        for name, one in memory.ceilings.items()
        if name in seen.regions
        and abs(seen.regions[name].service_s / one.service_s - 1) <= SHIFT
    }
    changed = memory.ceilings.keys() - alike.keys()
    return replace(
        memory,
        ceilings={name: one for name, one in alike.items() if one.rest_s > 0},
        failures={n: k for n, k in memory.failures.items() if n not in changed},
    )


def _learn_variability(memory: Memory, seen: Observed, goal: Latency) -> Memory:
    """Record the variability of the load, unless replicas were added in the step."""
    now = None if memory.trials else variability_of(seen, goal)
    memory = replace(memory, trials={}, doubted=False)
    if now is None:
        return memory
    known = memory.variability + LEARNT * (now - memory.variability)
    return replace(memory, variability=known)


def _useless(
    seen: Observed, degrees: Degrees, memory: Memory
) -> tuple[str, TrialResize] | None:
    for region, trial in memory.trials.items():
        load = seen.regions.get(region)
        if load is None or not load.items_per_s or degrees[region] <= trial.before:
            continue
        if load.keyed:  # another degree may divide the keys better: see `shares`
            continue
        if load.capacity_per_s < trial.capacity_per_s * (1 + LEAST_GAIN):
            return region, trial
    return None


def _give_back(
    region: str, trial: TrialResize, seen: Observed, goal: Latency, memory: Memory
) -> tuple[Decision | None, Memory]:
    """Remove replicas that do not help; one short step is not enough to tell."""
    if seen.seconds < goal.step_s / 2 and not memory.doubted:
        return None, replace(memory, doubted=True)
    load = seen.regions[region]
    why = (
        f"they do not help: {region} could do {trial.capacity_per_s:.3g} items a second "
        f"before and can do {load.capacity_per_s:.3g} now"
    )
    failed = memory.failures.get(region, 0)
    ceiling = Ceiling(
        trial.before,
        load.service_s * trial.before / load.degree,
        RETRY_S * 2**failed,
    )
    memory = replace(
        memory,
        trials={},
        doubted=False,
        ceilings={**memory.ceilings, region: ceiling},
        failures={**memory.failures, region: failed + 1},
        calm=0,
        rising=0,
    )
    back = {region: trial.before}
    return Decision(f"back to: {describe_degrees(back)}", why, back), memory


def _urgent(seen: Observed, degrees: Degrees, more: Degrees, goal: Latency) -> bool:
    """Tell whether more are needed at once: a backlog, near the bound, or several."""
    late = seen.sojourns.quantile_s(goal.quantile) > NEAR * goal.bound_s
    return seen.alarmed or late or any(more[name] > degrees[name] + 1 for name in more)


def _add(
    more: Degrees, found: Mapping[str, Need], seen: Observed, memory: Memory
) -> tuple[Decision, Memory]:
    regretted = memory.fewer_at is not None and memory.step - memory.fewer_at <= REGRET
    patience = min(2 * memory.patience, MOST_PATIENCE) if regretted else memory.patience
    trials = {
        name: TrialResize(seen.regions[name].degree, seen.regions[name].capacity_per_s)
        for name in more
    }
    why = "; ".join(f"{name}: {found[name].why}" for name in more)
    memory = replace(
        memory,
        trials=trials,
        calm=0,
        rising=0,
        patience=patience,
        fewer_at=None,
        low={},
    )
    return Decision(describe_degrees(more), why, dict(more)), memory


def _remove_spare(
    fewer: Degrees,
    undivided: Collection[str],
    seen: Observed,
    goal: Latency,
    memory: Memory,
) -> tuple[Decision | None, Memory]:
    """Remove replicas that have not been needed for a while.

    While items are late, only those of `undivided` regions: keys were counted, and so
    many replicas would not divide them better than fewer do.
    """
    late_s = seen.sojourns.quantile_s(goal.quantile)
    waiting_s = max(
        (
            seen.backlog * load.per_item * load.service_s / load.degree
            for load in seen.regions.values()
        ),
        default=0.0,
    )
    late = late_s > goal.bound_s or waiting_s > goal.bound_s / 2
    if late:
        fewer = {name: fewer[name] for name in undivided}
    if not fewer:
        return None, replace(memory, calm=0, low={})
    falling = memory.calm < memory.patience / 3  # the load may still do so
    low = dict(fewer)
    if not falling:
        low = {n: max(d, fewer[n]) for n, d in memory.low.items() if n in fewer}
    calm = memory.calm + 1
    memory = replace(memory, calm=calm, low=low)
    if not low or memory.calm < memory.patience:
        return None, memory
    why = (
        f"they have not been needed for {memory.calm} steps: {seen.arrived_per_s:.3g} "
        f"items a second, {goal.quantile:.0%} within {ms(late_s)}"
    )
    if late:
        why = "more do not divide the keys better: " + "; ".join(
            f"the busiest of {name} has {seen.regions[name].share:.0%} of the work"
            for name in low
        )
    memory = replace(memory, calm=0, low={}, fewer_at=memory.step)
    return Decision(f"only {describe_degrees(low)}", why, low), memory


def _why_unmet(
    seen: Observed,
    goal: Latency,
    found: Mapping[str, Need],
    most: int,
    memory: Memory,
) -> str | None:
    """Return the operator that keeps the bound from being met, and the remedy."""
    alone_s = (
        sum(load.service_s for load in seen.regions.values()) + seen.pipeline.others_s
    )
    if alone_s > goal.bound_s:
        return f"an item takes {ms(alone_s)} without any waiting"
    stage = _full_stage(seen, goal)
    if stage is not None:
        name, each_s = stage
        work = each_s * seen.arrived_per_s
        verbs = "run once, take {} an item and have"
        if " and " not in name:
            verbs = "runs once, takes {} an item and has"
        return (
            f"{name} {verbs.format(ms(each_s))} work for {work:.1f} threads; no number "
            "of replicas elsewhere would do"
        )
    full = next(
        (
            name
            for name, need in found.items()
            if need.work > need.degree or (seen.regions[name].keyed and not need.met)
        ),
        None,
    )
    if full is None:
        return None
    load, need = seen.regions[full], found[full]
    names = " and ".join(load.operators)
    where = f"{full} ({names})" if names else full
    stance = Stance(variability=memory.variability)
    calm = replace(seen, backlog=0)
    known = memory.shares.get(full)
    needed = need_of(load, calm, goal, MOST_NEEDED, stance, known)
    wanted = f"it would need {needed.degree} replicas"
    if not needed.met:
        wanted = (
            f"no number of replicas would do: the busiest has {load.share:.0%} of it"
        )
    elif load.keyed and load.share * load.degree > UNEVEN:
        wanted += f" that divide its keys evenly: now the busiest has {load.share:.0%}"
    return (
        f"{where} has work for {need.work:.1f} replicas and {need.degree} of {most} can "
        f"help; {wanted}"
    )
