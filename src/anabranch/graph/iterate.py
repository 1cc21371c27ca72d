"""Rounds: the items of a window go through the same body again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.graph.graph import Graph
from anabranch.graph.kinds import Kind, UserCode


@dataclass(frozen=True, eq=False)
class Iterate(Kind):
    """Send a window, or the whole bounded stream, through `body` round after round.

    `body` is a graph with one `Given` source and one `ToList` sink. The rounds end
    after `rounds` of them, or when `until(items)` holds of what a round gave.
    """

    body: Graph
    rounds: int | None
    until: Callable[[list[Any]], bool] | None
    label: ClassVar[str] = "iterate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        inner = tuple(code for op in self.body.ops for code in op.kind.user_code)
        return inner if self.until is None else (*inner, UserCode("until", self.until))
