"""Latency of programs whose sources are read as fast as the program can.

There is no load to plan for: the arrival rate is the throughput. So replicas are
doubled as long as the bound is kept with room to spare and the throughput rises with
them. Then one or two steps find out how many of the last ones are useful: latency and
throughput are known with fewer and with more, and the best number is in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import (
    Decision,
    Degrees,
    Room,
    WarningState,
    describe_degrees,
    make_message,
    ms,
)
from anabranch.metrics.load import Observed

FACTOR = 2.0  # growth factor of replicas
CAREFUL = 1.25  # growth factor after an increase was too much
LEAST_GAIN = 0.15  # of the best possible gain of doubling
LINEAR = 0.6  # of it: below this, perhaps not all of them are needed
AS_GOOD = 0.97  # of the throughput
HELPED = 0.95  # of the latency, for a removal to be useful
BUSY = 0.95
FAR = 1.1  # times the bound
PAUSE = 20  # steps until more are tried again; then twice as long


@dataclass(frozen=True)
class Point:
    """A degree, with the latency and the throughput measured there."""

    degrees: Degrees
    late_s: float
    per_s: float

    @property
    def replicas(self) -> int:
        return sum(self.degrees.values())


@dataclass(frozen=True)
class ClosedMemory:
    """The state before the last change, if it is still to be judged."""

    grew: Point | None = None
    knee: Point | None = None  # from where fewer were tried, to see if they do as well
    gave: Point | None = None
    above: int = 0  # steps in a row
    wait: int = 0  # steps without further increases
    pause: int = PAUSE
    factor: float = FACTOR
    warning: WarningState = field(default_factory=WarningState)


def climb(
    seen: Observed, degrees: Degrees, goal: Latency, room: Room, memory: ClosedMemory
) -> tuple[Decision | None, ClosedMemory]:
    """Return a change after a control step, if any, and the new memory."""
    if not seen.sojourns.items:
        return None, memory
    stuck = all(degree == 1 for degree in degrees.values())
    said, warning = make_message(
        seen, goal, memory.warning, lambda: _why_unmet(seen, stuck=stuck)
    )
    memory = replace(memory, warning=warning)
    if said is not None or not degrees:
        return said, memory
    return _move(seen, degrees, goal, room, memory)


def _move(
    seen: Observed, degrees: Degrees, goal: Latency, room: Room, memory: ClosedMemory
) -> tuple[Decision | None, ClosedMemory]:
    """Judge the last change, or make the next."""
    here = Point(
        dict(degrees), seen.sojourns.quantile_s(goal.quantile), seen.arrived_per_s
    )
    above = memory.above + 1 if here.late_s > goal.bound_s else 0
    memory = replace(memory, wait=max(0, memory.wait - 1), above=above)
    words = f"{goal.quantile:.0%} are within {ms(here.late_s)}"
    if memory.gave is not None:
        gave, memory = memory.gave, replace(memory, gave=None)
        if above and here.late_s > HELPED * gave.late_s:
            why = f"without them latency is no better: {words}"
            return _change("restore", gave.degrees, why, _pause(memory))
    if memory.knee is not None:
        return _judge_knee(here, memory.knee, words, replace(memory, knee=None))
    if memory.grew is not None:
        before, memory = memory.grew, replace(memory, grew=None)
        decision, memory = _judge_growth(here, before, goal, words, memory)
        if decision is not None:
            return decision, memory
    if above:
        return _down(here, goal, words, memory)
    return _up(here, seen, goal, room, memory)


def _judge_growth(
    here: Point, before: Point, goal: Latency, words: str, memory: ClosedMemory
) -> tuple[Decision | None, ClosedMemory]:
    """Judge an increase: it may have violated the bound, or been useless."""
    wished = here.replicas / before.replicas - 1
    gained = here.per_s / max(before.per_s, 1e-9) - 1
    aim_s = goal.bound_s * (1 - goal.threshold / 2)
    if here.late_s > aim_s:
        rise_s = max(here.late_s - before.late_s, 1e-9)
        share = min(1.0, max(0.0, (aim_s - before.late_s) / rise_s))
        fewer = _between(before.degrees, here.degrees, share)
        why = f"{words}, above {ms(aim_s)}, and with less {ms(before.late_s)}"
        return _change("only", fewer, why, _pause(memory))
    if gained < LEAST_GAIN * wished:
        why = f"it did not help: {1 + gained:.2f} times the throughput, {words}"
        return _change("back to", before.degrees, why, _pause(memory))
    if gained < LINEAR * wished:
        fewer = _between(before.degrees, here.degrees, gained / wished)
        if fewer != here.degrees:
            why = f"{1 + gained:.2f} times the throughput may take no more"
            return _change("only", fewer, why, replace(_pause(memory), knee=here))
    return None, memory


def _judge_knee(
    here: Point, full: Point, words: str, memory: ClosedMemory
) -> tuple[Decision | None, ClosedMemory]:
    """Judge whether fewer did as well."""
    share = here.per_s / max(full.per_s, 1e-9)
    if share >= AS_GOOD:
        return None, memory
    why = f"fewer have {share:.2f} times the throughput; {words}"
    return _change("restore", full.degrees, why, memory)


def _down(
    here: Point, goal: Latency, words: str, memory: ClosedMemory
) -> tuple[Decision | None, ClosedMemory]:
    """Remove in proportion: each replica has a fixed number of items in flight."""
    words = f"{words}, above {ms(goal.bound_s)}"
    if here.replicas == len(here.degrees):
        return None, memory
    if memory.above == 1 and here.late_s <= FAR * goal.bound_s:
        return None, memory  # it may have been one slow item
    share = goal.bound_s * (1 - goal.threshold / 2) / here.late_s
    fewer = {name: max(1, int(d * share)) for name, d in here.degrees.items()}
    return _change("only", fewer, words, replace(_pause(memory), gave=here))


def _up(
    here: Point, seen: Observed, goal: Latency, room: Room, memory: ClosedMemory
) -> tuple[Decision | None, ClosedMemory]:
    """Add what so many times the throughput needs, in every region."""
    if memory.wait or here.late_s > goal.bound_s * (1 - goal.threshold):
        return None, memory
    most = max(room.beside(seen.pipeline.others_busy), len(here.degrees))
    wanted = {
        name: max(
            d, min(math.ceil(memory.factor * d), _count_needed(seen, name, memory))
        )
        for name, d in here.degrees.items()
    }
    while sum(wanted.values()) > most:
        name = max(wanted, key=lambda one: wanted[one] - here.degrees[one])
        if wanted[name] == here.degrees[name]:
            break
        wanted[name] -= 1
    more = {name: d for name, d in wanted.items() if d > here.degrees[name]}
    if not more:
        return None, memory
    why = f"the sources give more, and {goal.quantile:.0%} are within {ms(here.late_s)}"
    return Decision(describe_degrees(more), why, more), replace(memory, grew=here)


def _count_needed(seen: Observed, region: str, memory: ClosedMemory) -> int:
    load = seen.regions.get(region)
    if load is None:
        return 1
    return math.ceil(memory.factor * load.items_per_s * load.service_s / BUSY - 1e-9)


def _between(fewer: Degrees, more: Degrees, share: float) -> dict[str, int]:
    return {name: d + int(share * (more[name] - d)) for name, d in fewer.items()}


def _pause(memory: ClosedMemory) -> ClosedMemory:
    return replace(
        memory, wait=memory.pause, pause=2 * memory.pause, factor=CAREFUL, grew=None
    )


def _change(
    verb: str, degrees: Degrees, why: str, memory: ClosedMemory
) -> tuple[Decision, ClosedMemory]:
    return Decision(f"{verb}: {describe_degrees(degrees)}", why, dict(degrees)), memory


def _why_unmet(seen: Observed, *, stuck: bool) -> str | None:
    """Return why the bound is not kept if nothing is replicated."""
    if not stuck:
        return None
    took = {
        " and ".join(load.operators) or name: load.service_s
        for name, load in seen.regions.items()
    }
    took |= seen.pipeline.stages
    name = max(took, key=lambda one: took[one], default=None)
    most = "" if name is None else f"; {name} takes {ms(took[name])} an item"
    return f"there are no replicas to suspend{most}"
