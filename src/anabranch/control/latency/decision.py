"""The decisions of a latency policy, the room it has for them, and warnings.

A policy warns once that a bound cannot be kept, and says once that it holds again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.control.goals import Latency
from anabranch.metrics.load import Observed

MOST_REPLICAS = 64  # where operators block, and the user has not said
Degrees = Mapping[str, int]  # region -> replicas


@dataclass(frozen=True)
class Room:
    """On so many cores, with so many stages that are not replicated.

    `replicas` is the most in all where the user has said so.
    """

    cores: int
    others: int = 2
    replicas: int | None = None

    @property
    def for_regulator(self) -> int:
        """The most replicas for the paper's regulator: cores minus the other stages.

        >>> Room(cores=12).for_regulator, Room(cores=2).for_regulator
        (10, 1)
        """
        return self.replicas or max(1, self.cores - self.others)

    def beside(self, busy: float, on_core: float = 1.0) -> int:
        """Return the most replicas that fit beside others that keep threads at work.

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
    """A change: what, why, and to how many replicas; on Spark how much to admit.

    One that `changes` nothing only has something to say.
    """

    what: str
    why: str
    degrees: Degrees = field(default_factory=dict)
    epoch_items: int | None = None

    @property
    def changes(self) -> bool:
        """Whether there is something to put into effect."""
        return bool(self.degrees) or self.epoch_items is not None


def in_words(degrees: Degrees) -> str:
    """Return degrees as text.

    >>> in_words({"r0": 2, "r1": 1})
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


HELD = 3  # steps within the bound, before it is taken back that it cannot be kept
MOST_NEEDED = 256  # replicas that are thought of


@dataclass(frozen=True)
class Word:
    """Whether it was `told` that the bound cannot be kept; for how many steps it `held`."""

    told: bool = False
    held: int = 0


def speak(
    seen: Observed, goal: Latency, word: Word, why: Callable[[], str | None]
) -> tuple[Decision | None, Word]:
    """Return the message after a step, if any, and what to remember of it.

    `why` tells what keeps the bound from being kept; None: it will come right.
    """
    if not seen.sojourns.items:
        return None, word
    late_s = seen.sojourns.quantile_s(goal.quantile)
    if late_s <= goal.bound_s:
        return _take_back(late_s, goal, replace(word, held=word.held + 1))
    word = replace(word, held=0)
    reason = None if word.told else why()
    if reason is None:
        return None, word
    close = (
        f"{goal.quantile:.0%} are within {ms(late_s)}, "
        f"{seen.sojourns.within(goal.bound_s):.0%} within {ms(goal.bound_s)}"
    )
    said = Decision(f"{ms(goal.bound_s)} cannot be kept", f"{reason}; now {close}")
    return said, replace(word, told=True)


def _take_back(
    late_s: float, goal: Latency, word: Word
) -> tuple[Decision | None, Word]:
    if not word.told or word.held < HELD:
        return None, word
    why = (
        f"for {HELD} steps, {goal.quantile:.0%} were within the bound; now {ms(late_s)}"
    )
    return Decision(f"{ms(goal.bound_s)} holds again", why), replace(word, told=False)
