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
from typing import ClassVar

from anabranch.runtime.batch import Batch, Column, Mark
from anabranch.runtime.ordering.interleave import Run, in_order
from anabranch.runtime.ordering.merge import Merge
from anabranch.runtime.ordering.numbered import NumberedQueue, numbers_of


class PulseMerge(Merge):
    """What strict and relaxed numbers have in common.

    A `numbered` one stands in a shuffle: it keeps the numbers and says how far it has
    come. However many copies of a pulse come in, that mark moves on once (4.4). Any
    other is the end of the region, and strips off both.
    """

    repeats: ClassVar[bool]

    def __init__(
        self,
        queues: int,
        *,
        first: int = 0,
        punctuated: bool = False,
        numbered: bool = True,
    ) -> None:
        super().__init__(queues)
        self.last_seqno: float = first - 1
        self._last_queue: NumberedQueue | None = None
        self._marked: float = first - 1
        self._punctuated = punctuated
        self._numbered = numbered
        self._queues = [NumberedQueue(first) for _ in range(queues)]

    def put(self, queue: int, batch: Batch) -> None:
        self._queues[queue].put(batch, repeats=self.repeats)

    def close(self, queue: int) -> None:
        self._queues[queue].close()

    def held(self, queue: int) -> int:
        return self._queues[queue].held

    def release(self) -> Batch | None:
        self._drop_copies()
        run = self._up_to(min(queue.back for queue in self._queues))
        self._pass_pulse()
        while (queue := self._next_in_order()) is not None:
            taken = queue.take(queue.front)
            self.last_seqno, self._last_queue = numbers_of(taken[-1])[-1], queue
            run = run.then(in_order(taken, repeats=self.repeats))
        mark = self._new_mark() if self._numbered else None
        if not run.items and mark is None:
            return None
        columns: list[Column] | None = [run.numbers] if self._numbered else None
        return Batch(run.items, columns, mark, run.origin)

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

    def _up_to(self, top: float) -> Run:
        """Take everything up to `top` in the order of the numbers."""
        taken: list[Batch] = []
        for queue in self._queues:
            batches = queue.take(top)
            if batches and numbers_of(batches[-1])[-1] >= self.last_seqno:
                self.last_seqno = numbers_of(batches[-1])[-1]
                self._last_queue = queue
            taken += batches
        return in_order(taken, repeats=self.repeats, punctuated=self._punctuated)


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
