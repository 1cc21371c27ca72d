"""Sequence numbers: an item goes on when its number is the next one (4.3.2).

Safe where every number comes exactly once. When every channel has shown a number of
at least n, all numbers up to n are here and are put in their places without comparing
any of them; beyond that, the front of a channel goes when its number is the next.
"""

from __future__ import annotations

from typing import Any

from anabranch.errors import EngineError
from anabranch.runtime.batch import NOWHERE, Batch, Origin, mark_at
from anabranch.runtime.ordering.interleave import place
from anabranch.runtime.ordering.merge import Merge
from anabranch.runtime.ordering.numbered import NumberedQueue

_MISSING = object()


class SeqnoMerge(Merge):
    """Releases numbers without gaps, from `first` on."""

    def __init__(
        self, queues: int, *, first: int = 0, punctuated: bool = False
    ) -> None:
        super().__init__(queues)
        self._next = first
        self._punctuated = punctuated
        self._queues = [NumberedQueue(first) for _ in range(queues)]

    @property
    def last_seqno(self) -> int:
        """The number that went on last."""
        return self._next - 1

    def put(self, queue: int, batch: Batch) -> None:
        self._queues[queue].put(batch, repeats=False)

    def close(self, queue: int) -> None:
        self._queues[queue].close()

    def held(self, queue: int) -> int:
        return self._queues[queue].held

    def release(self) -> Batch | None:
        first, items, origin = self._next, list[Any](), NOWHERE
        self._drop_copies()
        top = min(queue.back for queue in self._queues)
        top = min(top, max(queue.highest for queue in self._queues))
        if top >= first:
            items, origin = self._all_up_to(int(top))
        while (run := self._next_run()) is not None:
            items += run.items
            origin = origin.with_(run.origin)
        if self._next == first:
            return None
        numbers = range(first, self._next)
        return Batch(items, [numbers], mark_at(self._next - 1), origin)

    def _all_up_to(self, top: int) -> tuple[list[Any], Origin]:
        """Put everything up to `top` in its place; copies of punctuations fall together."""
        first = self._next
        items: list[Any] = [_MISSING] * (top + 1 - first)
        origin, placed = NOWHERE, 0
        for queue in self._queues:
            for batch in queue.take(top):
                origin = origin.with_(batch.origin)
                placed += len(batch.items)
                place(batch, items, first)
        if placed < len(items) or self._punctuated:
            for number, item in enumerate(items, first):
                if item is _MISSING:
                    self._refuse(number)
        self._next = top + 1
        return items, origin

    def _next_run(self) -> Batch | None:
        """Take the item with the next number, if it is here."""
        self._drop_copies()
        for queue in self._queues:
            if queue.front == self._next:
                (batch,) = queue.take(self._next)
                self._next += 1
                return batch
        return None

    def _drop_copies(self) -> None:
        if self._punctuated:
            for queue in self._queues:
                queue.drop_copies(self._next - 1)

    def _refuse(self, number: int) -> None:
        msg = (
            f"each sequence number must come exactly once; {number} did not; does an "
            f"operator of the region give more or less than it declares?"
        )
        raise EngineError(msg)
