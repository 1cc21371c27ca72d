"""Decisions of a latency policy, its resources, and its warnings.

A policy warns once that a bound cannot be kept, and reports once that it is kept again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.control.goals import Latency
from anabranch.metrics.load import Observed

MOST_REPLICAS = 64  # if operators block, and the user has set no limit
Degrees = Mapping[str, int]  # region -> replicas


@dataclass(frozen=True)
class Room:
    """The cores, and the stages that are not replicated.

    `replicas` is the maximum for all regions, if the user has set it.
    """

    cores: int
    others: int = 2
    replicas: int | None = None

    @property
    def for_regulator(self) -> int:
        """The maximum for the paper's regulator: cores minus the other stages.

        >>> Room(cores=12).for_regulator, Room(cores=2).for_regulator
        (10, 1)
        """
        return self.replicas or max(1, self.cores - self.others)

    def beside(self, busy: float, on_core: float = 1.0) -> int:
        """Return the most replicas that fit beside other busy threads.

        They need a core for a share `on_core` of that time, and so do the replicas.

        >>> Room(cores=4).beside(0.3), Room(cores=4).beside(0.8), Room(1).beside(0.4)
        (4, 3, 1)
        >>> Room(cores=2).beside(0.5, on_core=0.1)
        20
        """
        on_core = max(on_core, self.cores / MOST_REPLICAS)
        fitting = max(1, round(self.cores / on_core - busy))
        return self.replicas or min(MOST_REPLICAS, fitting)


@dataclass(frozen=True)
class Decision:
    """A change: what, why, and the new degrees; on Spark also the admission limit.

    One that `changes` nothing is only a message.
    """

    what: str
    why: str
    degrees: Degrees = field(default_factory=dict)
    epoch_items: int | None = None

    @property
    def changes(self) -> bool:
        """Whether there is something to put into effect."""
        return bool(self.degrees) or self.epoch_items is not None


def describe_degrees(degrees: Degrees) -> str:
    """Return degrees as text.

    >>> describe_degrees({"r0": 2, "r1": 1})
    '2 replicas of r0, 1 replica of r1'
    """
    return ", ".join(
        f"{n} replica{'s' if n != 1 else ''} of {name}" for name, n in degrees.items()
    )


def ms(seconds: float) -> str:
    """Return a duration as text.

    >>> ms(0.0123), ms(12.0)
    ('12.3 ms', '12000 ms')
    """
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds * 1000:.0f} ms"


HELD = 3  # steps within the bound before the warning is withdrawn
MOST_NEEDED = 256  # largest degree considered


@dataclass(frozen=True)
class WarningState:
    """Whether the user was `told` that the bound cannot be kept; steps it `held`
    since.
    """

    told: bool = False
    held: int = 0


def make_message(
    seen: Observed, goal: Latency, warning: WarningState, why: Callable[[], str | None]
) -> tuple[Decision | None, WarningState]:
    """Return the message after a step, if any, and the new memory.

    `why` is what keeps the bound from being met; None if it will recover.
    """
    if not seen.sojourns.items:
        return None, warning
    late_s = seen.sojourns.quantile_s(goal.quantile)
    if late_s <= goal.bound_s:
        return _take_back(late_s, goal, replace(warning, held=warning.held + 1))
    warning = replace(warning, held=0)
    reason = None if warning.told else why()
    if reason is None:
        return None, warning
    close = (
        f"{goal.quantile:.0%} are within {ms(late_s)}, "
        f"{seen.sojourns.within(goal.bound_s):.0%} within {ms(goal.bound_s)}"
    )
    said = Decision(f"{ms(goal.bound_s)} cannot be kept", f"{reason}; now {close}")
    return said, replace(warning, told=True)


def _take_back(
    late_s: float, goal: Latency, warning: WarningState
) -> tuple[Decision | None, WarningState]:
    if not warning.told or warning.held < HELD:
        return None, warning
    why = (
        f"for {HELD} steps, {goal.quantile:.0%} were within the bound; now {ms(late_s)}"
    )
    return Decision(f"{ms(goal.bound_s)} holds again", why), replace(
        warning, told=False
    )
