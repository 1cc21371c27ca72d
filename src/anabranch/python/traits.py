"""The traits that an operator has by its kind, and by the clock of its stream."""

from __future__ import annotations

from anabranch.graph.graph import Op
from anabranch.graph.traits import (
    ANY,
    Cause,
    Evidence,
    Push,
    State,
    Trait,
    Traits,
    keep_one_state,
    why,
)
from anabranch.operators.clock import EventTime

__all__ = [
    "Cause",
    "Evidence",
    "Push",
    "State",
    "Trait",
    "Traits",
    "traits_of_kind",
    "why",
]


def traits_of_kind(op: Op) -> Traits:
    """Return the traits of an operator whose code is pure and forwards nothing.

    >>> from anabranch.operators.stateless import Union
    >>> traits_of_kind(Op("all", Union())).state
    'stateless'
    """
    if op.timing is not None:
        return _clocked(op)
    if isinstance(op.kind, EventTime):
        return _event_time(op, op.kind)
    return op.kind.traits(op)


def _clocked(op: Op) -> Traits:
    """Return the traits of an operator that follows the clock of its stream."""
    text = (
        "the clock of the stream is that of all keys: what an advance closes stands in "
        "the order of time and key"
        if op.keyed_by
        else "it follows the clock of the stream, one for all items"
    )
    return keep_one_state(
        op, text, ANY, punctuation="preserving", expects_punctuation=True
    )


def _event_time(op: Op, kind: EventTime) -> Traits:
    text = f"the clock is the highest {kind.on} so far, of all items"
    return keep_one_state(op, text, Push(0, 2), forwards=None, punctuation="generating")
