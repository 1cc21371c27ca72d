"""What is known about an operator, and the evidence for it.

What cannot be proven is unsafe: an unknown function has global state, gives any number
of outputs and forwards nothing, until its author declares otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

State = Literal["stateless", "keyed", "global"]
Trait = Literal["state", "rate", "forwards", "punctuation", "order"]


class Evidence(NamedTuple):
    """Why a trait was given: a phrase, and the line of the user's that it rests on."""

    trait: Trait
    text: str
    file: str
    line: int


class Push(NamedTuple):
    """How many items come out for what goes in; `most` is None if there is no bound."""

    least: int
    most: int | None

    def then(self, other: Push) -> Push:
        """Return the range of two operators in a row.

        >>> Push(0, 1).then(Push(1, None))
        Push(least=0, most=None)
        """
        bounded = self.most is not None and other.most is not None
        most = self.most * other.most if bounded else None  # type: ignore[operator]
        if 0 in (self.most, other.most):
            most = 0
        return Push(self.least * other.least, most)


@dataclass(frozen=True)
class Traits:
    """The traits of one operator.

    `pop` is how many items it takes at a time, None if that differs. `forwards` are
    the attributes that each output has unchanged from the item that caused it (for a
    window: from the items in it); None means all of them. `punctuation` is what it
    does to marks in its input, `expects_punctuation` whether it needs them.
    `in_parallel` tells whether a source can be read, or a sink written, by several
    workers at once. `needs_order` is False for a sink whose result does not depend
    on the order of its items. `effects` are those of user code that only the process
    it runs in can keep: what it changes outside its state, or reads from the world.
    """

    state: State
    key: tuple[str, ...] = ()
    pop: int | None = 1
    push: Push = Push(1, 1)  # noqa: RUF009 - a tuple cannot be changed
    forwards: frozenset[str] | None = frozenset()
    punctuation: Literal["free", "preserving", "generating"] = "free"
    expects_punctuation: bool = False
    in_parallel: bool = False
    needs_order: bool = True
    effects: bool = False
    evidence: tuple[Evidence, ...] = ()
