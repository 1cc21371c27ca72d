"""Sequence numbers and pulses: numbers may be missing, or come again (4.3.3, 4.3.4).

Everything up to the lowest of the highest numbers that the channels have shown may go
on: no channel can come back to it. (`dropped` in the paper's words.) Beyond that an
item goes if it is next in order. With strict numbers that is the number after the last
one; with relaxed ones it is also the last number itself, and the one after it as soon
as the channel of the last one has shown a higher number (`noDups`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

from anabranch.runtime.batch import NOWHERE, Batch, Mark, Origin
from anabranch.runtime.ordering.merge import Merge
from anabranch.runtime.ordering.numbered import NumberedQueue, numbers_of
from anabranch.runtime.punctuation import WINDOW

_MISSING = object()


class PulseMerge(Merge):
    """What strict and relaxed numbers have in common.

    The merge keeps the numbers, and gives a mark of how far it has come, for the case
    that it stands in a shuffle. However many copies of a pulse come in, the mark moves
    on once.
    """

    repeats: ClassVar[bool]

    def __init__(
        self, queues: int, *, first: int = 0, punctuated: bool = False
    ) -> None:
        super().__init__(queues)
        self.last_seqno: float = first - 1
        self._last_queue: NumberedQueue | None = None
        self._marked: float = first - 1
        self._punctuated = punctuated
        self._queues = [NumberedQueue(first) for _ in range(queues)]

    def put(self, queue: int, batch: Batch) -> None:
        self._queues[queue].put(batch, repeats=self.repeats)

    def close(self, queue: int) -> None:
        self._queues[queue].close()

    def held(self, queue: int) -> int:
        return self._queues[queue].held

    def release(self) -> Batch | None:
        self._drop_copies()
        top = min(queue.back for queue in self._queues)
        items, numbers, origin = self._up_to(top)
        self._pass_pulse()
        while (queue := self._next_in_order()) is not None:
            for batch in queue.take(queue.front):
                items += batch.items
                numbers += numbers_of(batch)
                origin = origin.with_(batch.origin)
            self.last_seqno, self._last_queue = numbers[-1], queue
        mark = self._new_mark()
        if not items and mark is None:
            return None
        return Batch(items, [numbers], mark, origin)

    def _pass_pulse(self) -> None:
        """Take a pulse that has come in all channels for the last number."""
        done = min(queue.done for queue in self._queues)
        if done >= self.last_seqno:
            self.last_seqno, self._last_queue = done, None

    def _new_mark(self) -> Mark | None:
        done = min(queue.done for queue in self._queues)
        if done <= self._marked:
            return None
        self._marked = done
        return (done, math.inf)

    def _next_in_order(self) -> NumberedQueue | None:
        self._drop_copies()
        queue = min(self._queues, key=lambda queue: queue.front)
        return queue if queue.held and self._ready(queue.front) else None

    def _drop_copies(self) -> None:
        if self._punctuated:
            for queue in self._queues:
                queue.drop_copies(self.last_seqno)

    @abstractmethod
    def _ready(self, number: float) -> bool:
        """Tell whether the lowest number that waits comes next in order."""

    def _up_to(self, top: float) -> tuple[list[Any], list[int], Origin]:
        """Take everything up to `top` in the order of the numbers."""
        items: list[Any] = []
        numbers: list[int] = []
        origin = NOWHERE
        parts = 0
        for queue in self._queues:
            taken = queue.take(top)
            parts += bool(taken)
            for batch in taken:
                items += batch.items
                numbers += numbers_of(batch)
                origin = origin.with_(batch.origin)
            if numbers and taken and numbers[-1] >= self.last_seqno:
                self.last_seqno, self._last_queue = numbers[-1], queue
        if parts > 1:
            items, numbers = self._sorted(items, numbers)
        return items, numbers, origin

    def _sorted(
        self, items: list[Any], numbers: list[int]
    ) -> tuple[list[Any], list[int]]:
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        if self._punctuated:
            order = _without_copies(order, items, numbers)
        return [items[i] for i in order], [numbers[i] for i in order]


class StrictMerge(PulseMerge):
    """For at most one output for each item."""

    repeats = False

    def _ready(self, number: float) -> bool:
        return number == self.last_seqno + 1


class RelaxedMerge(PulseMerge):
    """For any number of outputs: those of one item carry the same number."""

    repeats = True

    def _ready(self, number: float) -> bool:
        if number == self.last_seqno:
            return True
        return number == self.last_seqno + 1 and self._no_duplicates()

    def _no_duplicates(self) -> bool:
        """Tell whether nothing more can come with the number that went on last."""
        return self._last_queue is None or self.last_seqno < self._last_queue.back


def _without_copies(
    order: list[int], items: list[Any], numbers: list[int]
) -> list[int]:
    """Leave out the copies of a punctuation: each channel has the same number for it."""
    kept: list[int] = []
    for i in order:
        if items[i] is WINDOW and kept:
            j = kept[-1]
            if items[j] is WINDOW and numbers[i] == numbers[j]:
                continue
        kept.append(i)
    return kept
