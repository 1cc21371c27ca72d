"""Chooses how the streams of several threads are merged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from anabranch.runtime.ordering.by_number import (
    RelaxedMerge,
    RoundRobinMerge,
    SeqnoMerge,
    StrictMerge,
)
from anabranch.runtime.ordering.by_position import PositionMerge
from anabranch.runtime.ordering.merge import (
    ArrivalMerge,
    Dealt,
    QueueMerge,
    SingleQueue,
)

Strategy: TypeAlias = Literal[
    "single", "round_robin", "seqno", "strict", "relaxed", "position", "none"
]


def make_merge(  # noqa: PLR0911 - one for each
    strategy: Strategy,
    entries: Sequence[int],
    *,
    width: int = 1,
    turns: Collection[int] = (),
    punctuated: bool = False,
    numbered: bool = False,
    dealt: Dealt | None = None,
) -> QueueMerge:
    """Return the merge of a strategy; `entries[q]` is the stream of queue q.

    `dealt` tells a round robin merge how the splitter deals.

    >>> make_merge("seqno", [0, 0]).queues
    2
    """
    queues = len(entries)
    match strategy:
        case "single":
            return SingleQueue(queues)
        case "none":
            return ArrivalMerge(queues)
        case "round_robin":
            return RoundRobinMerge(queues, punctuated=punctuated, dealt=dealt)
        case "seqno":
            return SeqnoMerge(queues, punctuated=punctuated)
        case "strict":
            return StrictMerge(queues, punctuated=punctuated, numbered=numbered)
        case "relaxed":
            return RelaxedMerge(queues, punctuated=punctuated, numbered=numbered)
        case "position":
            return PositionMerge(
                entries, width=width, turns=turns, punctuated=punctuated
            )
