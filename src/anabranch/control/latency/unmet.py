"""Say once that a bound cannot be kept, and once that it holds again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import Decision, ms
from anabranch.metrics.load import Observed

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
    """Return what there is to say after a step, and what to remember of it.

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
