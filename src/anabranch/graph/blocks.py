"""Fixed-rate operators: blocks, and the two halves of a split-join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.graph.kinds import Kind, UserCode


@dataclass(frozen=True, eq=False)
class Block(Kind):
    """`function` sees `peek` items, takes `pop` of them and gives `push` items."""

    function: Callable[[Sequence[Any]], Any]
    pop: int
    push: int
    peek: int
    label: ClassVar[str] = "block"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)


@dataclass(frozen=True)
class Duplicate:
    """The splitter that gives every item to every branch."""


@dataclass(frozen=True)
class RoundRobin:
    """Deal out, or collect, `weights[i]` items at a time by branch i."""

    weights: tuple[int, ...]


def duplicate() -> Duplicate:
    """Return the splitter that gives every item to every branch.

    >>> import anabranch as ab
    >>> ab.duplicate()
    Duplicate()
    """
    return Duplicate()


def round_robin(weights: Sequence[int] | int = ()) -> RoundRobin:
    """Return a splitter or joiner that takes the branches in turn.

    >>> import anabranch as ab
    >>> ab.round_robin([2, 1])
    RoundRobin(weights=(2, 1))

    Without weights every branch has one item a turn; one number is every branch's.
    """
    return RoundRobin((weights,) if isinstance(weights, int) else tuple(weights))


@dataclass(frozen=True, eq=False)
class Deal(Kind):
    """The splitter of a split-join: `weights[i]` items to branch i, in turn."""

    weights: tuple[int, ...]
    label: ClassVar[str] = "deal"

    @property
    def outputs(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, eq=False)
class Collect(Kind):
    """The joiner of a split-join: `weights[i]` items from branch i, in turn."""

    weights: tuple[int, ...]
    label: ClassVar[str] = "collect"
