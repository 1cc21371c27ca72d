"""The windowed join of two streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.graph.kinds import Kind, UserCode
from anabranch.graph.windows import Window


@dataclass(frozen=True, eq=False)
class Join(Kind):
    """An item of either side meets the window of the other, oldest item first.

    The windows are kept apart per value of `on`. `match(left, right)` filters the
    pairs and `into(left, right)` makes the output; without it the pair is the output.
    """

    on: tuple[str, ...]
    left_window: Window
    right_window: Window
    match: Callable[[Any, Any], bool] | None = None
    into: Callable[[Any, Any], Any] | None = None
    label: ClassVar[str] = "join"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        given = (("match", self.match), ("into", self.into))
        return tuple(UserCode(role, f) for role, f in given if f is not None)
