"""Programs whose sources are read as fast as the program can.

There is no load to plan for: what arrives is what it can do. So replicas are added for
throughput as long as the bound is kept with room to spare and each of them helps, as the
paper's regulator does, but what was tried in vain is remembered.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.control.goals import Latency
from anabranch.control.latency_decision import Decision, Degrees, Room, in_words, ms
from anabranch.control.latency_predictive import LEAST_GAIN, Ceiling, Memory, Trial
from anabranch.metrics.observed import Observed

HELPED = 0.95  # of the latency, if it was of use to give a replica back
HOLD = 10  # steps
FORGET = 20  # steps


def climb(
    seen: Observed, degrees: Degrees, goal: Latency, room: Room, memory: Memory
) -> tuple[Decision | None, Memory]:
    """Return what to change after a control step, if anything, and what to remember."""
    memory = _later(memory)
    if not degrees or not seen.sojourns.items:
        return None, memory
    late_s = seen.sojourns.quantile_s(goal.quantile)
    words = f"{goal.quantile:.0%} are within {ms(late_s)}"
    gave, memory = memory.gave, replace(memory, gave=None)
    if gave is not None and late_s > goal.bound_s and late_s > HELPED * gave[2]:
        return _restore(gave, words, memory)
    for region, trial in memory.trials.items():
        memory = replace(memory, trials={})
        gained = seen.arrived_per_s / max(memory.throughput, 1e-9)
        if late_s <= goal.bound_s and gained >= 1 + LEAST_GAIN:
            continue
        why = f"it did not help: {gained:.2f} times the throughput, {words}"
        return _back(region, trial.before, why, seen, memory)
    if late_s > goal.bound_s:
        return _down(seen, degrees, goal, memory)
    return _up(seen, degrees, goal, room, memory)


def _down(
    seen: Observed, degrees: Degrees, goal: Latency, memory: Memory
) -> tuple[Decision | None, Memory]:
    late_s = seen.sojourns.quantile_s(goal.quantile)
    words = f"{goal.quantile:.0%} are within {ms(late_s)}, above {ms(goal.bound_s)}"
    widest = max(degrees, key=lambda name: degrees[name])
    if degrees[widest] == 1:
        return _cannot(goal, words, memory)
    if memory.hold:
        return None, memory
    memory = replace(memory, gave=(widest, degrees[widest], late_s))
    return _back(widest, degrees[widest] - 1, words, seen, memory)


def _later(memory: Memory) -> Memory:
    """Return what is remembered in the next step; what was in vain may help by then."""
    step = memory.step + 1
    ceilings = memory.ceilings if step % FORGET else {}
    return replace(memory, step=step, ceilings=ceilings, hold=max(0, memory.hold - 1))


def _restore(
    gave: tuple[str, int, float], words: str, memory: Memory
) -> tuple[Decision, Memory]:
    region, degree, before_s = gave
    back = {region: degree}
    why = f"without it latency is no better: {words}, before {ms(before_s)}"
    ceilings = {n: one for n, one in memory.ceilings.items() if n != region}
    memory = replace(memory, ceilings=ceilings, hold=HOLD)
    return Decision(f"restore: {in_words(back)}", why, back), memory


def _up(
    seen: Observed,
    degrees: Degrees,
    goal: Latency,
    room: Room,
    memory: Memory,
) -> tuple[Decision | None, Memory]:
    late_s = seen.sojourns.quantile_s(goal.quantile)
    if late_s > goal.bound_s * (1 - goal.threshold):
        return None, memory
    if sum(degrees.values()) >= max(room.beside(seen.others_busy), len(degrees)):
        return None, memory
    open_ = [
        name
        for name, degree in degrees.items()
        if name not in memory.ceilings or degree < memory.ceilings[name].degree
    ]
    if not open_:
        return None, memory
    region = max(open_, key=lambda name: _work(seen, name) / degrees[name])
    more = {region: degrees[region] + 1}
    memory = replace(
        memory,
        trials={region: Trial(degrees[region], 0.0)},
        throughput=seen.arrived_per_s,
    )
    why = f"the sources give more, and {goal.quantile:.0%} are within {ms(late_s)}"
    return Decision(in_words(more), why, more), memory


def _work(seen: Observed, region: str) -> float:
    load = seen.regions.get(region)
    return 0.0 if load is None else load.items_per_s * load.service_s


def _back(
    region: str, degree: int, why: str, seen: Observed, memory: Memory
) -> tuple[Decision, Memory]:
    ceiling = Ceiling(degree, max(1e-9, seen.regions[region].service_s))
    back = {region: degree}
    memory = replace(memory, ceilings={**memory.ceilings, region: ceiling})
    return Decision(f"give back: {in_words(back)}", why, back), memory


def _cannot(
    goal: Latency, words: str, memory: Memory
) -> tuple[Decision | None, Memory]:
    if memory.told:
        return None, memory
    why = f"there are no replicas to suspend; {words}"
    said = Decision(f"{ms(goal.bound_s)} cannot be kept", why)
    return said, replace(memory, told="closed")
