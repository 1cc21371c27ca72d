"""Breaks: a failing program stops at the failure that one thread would have met first.

A replica that fails on an item sends on the outputs of the items before it, and then a
*break* in the place of the item. A break passes through merges like any item, so it is
released after everything before it; its receiver stops there and passes it on. The
first break to reach a sink is therefore the one that a single thread would have met
first on the way to that sink; of the breaks that reach several sinks, the first counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch.runtime.batch import Batch, Column, SourceItem

_LAST = 1 << 61  # greater than any index of an output


@dataclass(frozen=True, eq=False)
class StreamBreak:
    """Takes the place of an item that an operator failed on.

    `item` is the source item behind it, or the last one it can be. `rank` orders the
    operators that an item visits one after the other.
    """

    error: BaseException
    item: SourceItem | None
    rank: int

    @property
    def order(self) -> tuple[float, int, int]:
        """The sort key that puts first what a single thread would have met first."""
        if self.item is None:
            return (float("inf"), 0, self.rank)
        return (self.item.number, self.item.source.index, self.rank)


class Breaks:
    """The breaks of one run; `orderly` if a failure ends it at all."""

    def __init__(
        self, *, orderly: bool = False, news: Callable[[], None] = lambda: None
    ) -> None:
        self.orderly = orderly
        self.found = False
        self._news = news
        self._lock = threading.Lock()
        self._met: list[StreamBreak] = []
        self._arrived: list[StreamBreak] = []

    def meet(self, one: StreamBreak) -> None:
        """Record a break before it is sent on."""
        with self._lock:
            self._met.append(one)
        self.found = True
        self._news()

    def arrive(self, one: StreamBreak) -> None:
        """Record that a break has reached a sink."""
        with self._lock:
            self._arrived.append(one)

    def has_passed(self, source: int, sent: int) -> bool:
        """Tell whether a source has emitted all that a single thread would have read.

        Sources take turns: `sent` is the number of its last item.
        """
        with self._lock:
            first = min(self._met, key=lambda one: one.order)
        if first.item is None:
            return True
        before = source < first.item.source.index
        return sent >= (first.item.number if before else first.item.number - 1)

    @property
    def first(self) -> BaseException:
        """The failure that one thread would have met first."""
        with self._lock:
            return min(self._arrived or self._met, key=lambda one: one.order).error


def cut_at_break(batch: Batch) -> tuple[Batch, StreamBreak | None, int]:
    """Return the items before a batch's first break, that break, and its index."""
    for index, item in enumerate(batch.items):
        if isinstance(item, StreamBreak):
            return batch.head(index), item, index
    return batch, None, 0


def columns_of(position: Sequence[int], width: int) -> list[Column]:
    """Return the position of a break, behind all outputs of its item.

    >>> columns_of([7], 1)
    [[7]]
    """
    filled = [*position, *[_LAST] * (width - len(position))]
    return [[number] for number in filled[:width]]
