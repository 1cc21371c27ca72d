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
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.stateless import Union
from anabranch.operators.windows import Aggregate

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

    >>> traits_of_kind(Op("all", Union())).state
    'stateless'
    """
    if op.timing is not None:
        return _clocked(op)
    return op.kind.traits(op)


def _clocked(op: Op) -> Traits:
    """Return the traits of an operator that follows the clock of its stream.

    An advance comes to all its replicas, so its keys may be divided among them.
    """
    match op.kind:
        case Union():
            text = "union keeps the clocks of its inputs, which all replicas see"
            return Traits(
                "stateless", forwards=None, evidence=(why(op, "state", text),)
            )
        case Aggregate(window=window) if window.punctuation and op.keyed_by:
            closes = "a punctuation closes the windows of several keys at once"
        case Apply() as kind if op.keyed_by and kind.overrides("punctuation"):
            closes = f"{kind.operator.__name__}.punctuation() is asked of all keys"
        case _ if op.keyed_by:
            text = f"what the clock closes is kept per {', '.join(op.keyed_by)}"
            passes = isinstance(op.kind, Scan | Apply)
            return Traits(
                "keyed",
                key=op.keyed_by,
                push=ANY,
                punctuation="preserving" if passes else "free",
                evidence=(why(op, "state", text),),
            )
        case _:
            closes = "it follows the clock of the stream, one for all items"
    return keep_one_state(
        op, closes, ANY, punctuation="preserving", expects_punctuation=True
    )
