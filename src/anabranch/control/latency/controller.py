"""The loop of the latency goal: observe a step, decide, apply, and report."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from anabranch.control.goals import Latency, Observable
from anabranch.control.latency.admission import FIRST_ITEMS, EpochMemory, admit
from anabranch.control.latency.closed import ClosedMemory, climb
from anabranch.control.latency.decision import (
    Decision,
    Degrees,
    Room,
    WarningState,
    make_message,
    ms,
)
from anabranch.control.latency.predictive import Memory, predict
from anabranch.control.latency.reactive import regulate, why_unmet
from anabranch.metrics.job_metrics import Adaptation, Journal, LatencyStep
from anabranch.metrics.load import Observed

ALARM = 0.5  # of the bound: a shorter wait need not end the step
GROWN = 1.5  # times the present backlog
YOUNG = 10  # initial control steps, each a tenth longer than the one before
UNHURRIED = 10  # control steps between two observations if nothing can be changed


class LatencyActuator(Observable, Protocol):
    """A running program whose latency is observed and whose replicas can change.

    None instead of an answer means that the program has ended.
    """

    @property
    def others(self) -> int:
        """The number of stages that are not replicated."""

    @property
    def degrees(self) -> Degrees:
        """The replicas of each region that can have several."""

    @property
    def epoch_items(self) -> int | None:
        """The number of items an epoch admits; None without epochs."""

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        """Observe the program for a control step, or until more items wait."""

    def resize(self, degrees: Degrees, epoch_items: int | None) -> str | None:
        """Set the replicas of regions; return the outcome, in words."""


MOST_STEPS = 1000  # control steps that are kept


@dataclass(frozen=True)
class PendingEffect:
    """A change whose effect is not known yet, and the state `before` it.

    `skip` steps with items are ignored: they do not show it yet.
    """

    change: Adaptation
    before: str
    skip: int = 0


class LatencyController:
    """Keeps one program within its bound; `history` may be read from other threads."""

    def __init__(
        self,
        actuator: LatencyActuator,
        goal: Latency,
        journal: Journal | None = None,
    ) -> None:
        self.history = Journal() if journal is None else journal
        self.looks = 0  # control steps so far
        self._steps: deque[LatencyStep] = deque(maxlen=MOST_STEPS)
        self._actuator = actuator
        self._goal = goal
        self._memory = Memory()
        self._warning = WarningState()  # of the regulator
        self._epochs = EpochMemory()
        self._closed = ClosedMemory()
        self._most_waiting = math.inf
        self._pending: PendingEffect | None = None

    @property
    def now_s(self) -> float:
        """How long the program has run."""
        return self._actuator.now_s

    def run(self) -> None:
        """Adapt the program until it ends."""
        admits = self._actuator.epoch_items
        if admits is not None and self._goal.policy == "predictive":
            self._actuator.resize({}, min(admits, FIRST_ITEMS))
        while self.advance():
            pass

    def advance(self) -> bool:
        """Do one control step; tell whether the program still runs."""
        seen = self._actuator.watch(self._step_s(), self._most_waiting)
        self._tell_effect(seen)
        if seen is None:
            return False
        self._most_waiting = _most_waiting(seen, self._goal)
        degrees = dict(self._actuator.degrees)
        self.looks += 1
        self._steps.append(self._describe(seen, degrees))
        decision = self._decide(seen, degrees)
        if decision is None:
            return True
        at_s, how = self.now_s, ""
        if decision.changes:
            done = self._actuator.resize(decision.degrees, decision.epoch_items)
            if done is None:
                return False
            how = done
        change = Adaptation(at_s, decision.what, decision.why, how)
        self._tell("another change came before it was measured")
        # An epoch already begun has the old settings.
        skip = 1 if decision.changes and self._actuator.epoch_items is not None else 0
        noted = self.history.note(change)
        self._pending = PendingEffect(noted, self._describe_latency(seen), skip)
        return True

    def _step_s(self) -> float:
        """Return the length of the next step: short at first, when nothing is known."""
        step_s = self._goal.step_s
        if self._goal.policy == "reactive":
            return step_s
        if self._without_choice():
            return UNHURRIED * step_s
        return step_s * min(1.0, (self.looks + 2) / YOUNG)

    def _without_choice(self) -> bool:
        """Tell whether there is nothing to change: observing takes CPU time from
        items.
        """
        actuator, goal = self._actuator, self._goal
        return (
            goal.policy == "predictive"
            and actuator.cores == 1
            and actuator.epoch_items is None
            and goal.replicas is None
            and set(actuator.degrees.values()) <= {1}
        )

    def _decide(self, seen: Observed, degrees: Degrees) -> Decision | None:
        actuator, goal = self._actuator, self._goal
        room = Room(actuator.cores, actuator.others, goal.replicas)
        if goal.policy == "reactive":
            found = regulate(seen, degrees, goal, room)
            if found is None:
                why = partial(why_unmet, seen, degrees, goal)
                found, self._warning = make_message(seen, goal, self._warning, why)
            return found
        if actuator.epoch_items is not None:
            decision, self._epochs = admit(
                seen, degrees, goal, room, self._epochs, actuator.epoch_items
            )
        elif seen.closed:
            decision, self._closed = climb(seen, degrees, goal, room, self._closed)
        else:
            decision, self._memory = predict(seen, degrees, goal, room, self._memory)
        return decision

    def _tell_effect(self, seen: Observed | None) -> None:
        """Add the outcome to the last change, once items have come out with it."""
        if self._pending is None:
            return
        if seen is None:
            self._tell("the program ended")
        elif seen.sojourns.items and self._pending.skip:
            self._pending = replace(self._pending, skip=self._pending.skip - 1)
        elif seen.sojourns.items:
            now = self._describe_latency(seen)
            self._tell(f"{now}, before {self._pending.before}")

    def _tell(self, effect: str) -> None:
        if self._pending is not None:
            change, self._pending = self._pending.change, None
            told = "; ".join(part for part in (effect, change.effect) if part)
            self.history.amend(change, told)

    def _describe_latency(self, seen: Observed) -> str:
        if not seen.sojourns.items:
            return "nothing came out"
        late_s = seen.sojourns.quantile_s(self._goal.quantile)
        return f"{self._goal.quantile:.0%} within {ms(late_s)}"

    def steps(self) -> tuple[LatencyStep, ...]:
        """Return the last control steps."""
        return tuple(self._steps)

    def _describe(self, seen: Observed, degrees: Degrees) -> LatencyStep:
        return LatencyStep(
            at_s=self.now_s,
            mean_ms=seen.sojourns.mean_s * 1000,
            quantile_ms=seen.sojourns.quantile_s(self._goal.quantile) * 1000,
            items=seen.sojourns.items,
            arrived_per_s=seen.arrived_per_s,
            backlog=seen.backlog,
            replicas=dict(degrees),
        )


def _most_waiting(seen: Observed, goal: Latency) -> float:
    """Return the backlog at which a step ends early.

    While a program catches up, only a larger backlog than before counts.
    """
    if goal.policy == "reactive" or seen.closed or not seen.regions:
        return math.inf
    capacity_per_s = min(
        load.capacity_per_s / max(load.per_item, 1e-9) for load in seen.regions.values()
    )
    return max(ALARM * goal.bound_s * capacity_per_s, GROWN * seen.backlog)
