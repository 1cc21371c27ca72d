"""Read offered load: items when they are due, not when the program is ready for them."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from anabranch.graph.graph import Op
from anabranch.graph.sources import Offered
from anabranch.runtime.failures import OnError
from anabranch.runtime.reading.live import LiveReader


class Offer:
    """How far offered load has been taken; its clock starts with the first look.

    `ahead` is the number of items taken. Times are those of `time.perf_counter`.
    """

    def __init__(self, kind: Offered) -> None:
        self._due_s = kind.due_s
        self._items = kind.items
        self._started_s: float | None = None
        self.ahead = 0

    @property
    def ended(self) -> bool:
        """Whether all has been taken."""
        return self.ahead >= len(self._due_s)

    @property
    def started_s(self) -> float:
        """When the first item was due."""
        if self._started_s is None:
            self._started_s = time.perf_counter()
        return self._started_s

    def arrived(self) -> int:
        """Return how many items have been due so far."""
        start_s = self.started_s
        return bisect_right(self._due_s, time.perf_counter() - start_s)

    def wait_s(self) -> float:
        """Return how long it is until the next item is due."""
        if self.ended:
            return 0.0
        due_s = self.started_s + self._due_s[self.ahead]
        return max(0.0, due_s - time.perf_counter())

    def take(self, most: int) -> tuple[list[Any], Sequence[float]]:
        """Take items that are due; return them with the moments at which they were."""
        first = self.ahead
        end = min(self.arrived(), first + most)
        self.ahead = max(first, end)
        start_s = self.started_s
        return self.items(first, end), [
            start_s + due_s for due_s in self._due_s[first:end]
        ]

    def items(self, first: int, end: int) -> list[Any]:
        """Return items by their places; they are given again and again, in order."""
        if self._items is None:
            return list(range(first, end))
        count = len(self._items)
        return [self._items[place % count] for place in range(first, end)]


class OfferedReader(LiveReader):
    """The items of offered load."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, Offered)  # noqa: S101
        self._op = op
        self._offer = Offer(op.kind)

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        late_s = self._offer.wait_s()
        if late_s > 0 and wait_s > 0:
            time.sleep(min(late_s, wait_s))
        first = self._offer.ahead + 1
        items, due_s = self._offer.take(most)
        self.ended = self._offer.ended
        self.oldest_s = due_s[0] if due_s else None
        return list(zip(items, range(first, first + len(items)), strict=True))

    def arrived(self) -> int:
        return self._offer.arrived()

    def where(self, number: int) -> str:
        return f"item {number} of {self._op.name}"
