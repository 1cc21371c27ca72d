"""Queues of numbered batches: what the merges by sequence number have in common."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from typing import Any

from anabranch.runtime.batch import Batch
from anabranch.runtime.punctuation import WINDOW


class NumberedQueue:
    """What came in one channel and waits, and how far the channel has come.

    `back` is the highest number that was seen, on an item or a pulse; `done` is the
    number up to which nothing more can come.
    """

    def __init__(self, first: int) -> None:
        self._batches: deque[Batch] = deque()
        self.back: float = first - 1
        self.done: float = first - 1
        self.held = 0

    def put(self, batch: Batch, *, repeats: bool) -> None:
        """Take a batch; `repeats` tells that a number may come more than once."""
        if batch.items:
            self._batches.append(batch)
            self.held += len(batch.items)
            self.back = max(self.back, numbers_of(batch)[-1])
            self.done = max(self.done, self.back - repeats)
        if batch.mark is not None:
            self.back = max(self.back, batch.mark[0])
            self.done = max(self.done, batch.mark[0])

    def close(self) -> None:
        self.back = self.done = math.inf

    @property
    def front(self) -> float:
        """The lowest number that waits; infinity if there is none."""
        return numbers_of(self._batches[0])[0] if self._batches else math.inf

    @property
    def highest(self) -> float:
        """The highest number that waits; minus infinity if there is none."""
        return numbers_of(self._batches[-1])[-1] if self._batches else -math.inf

    def take(self, top: float) -> list[Batch]:
        """Take everything with numbers up to `top`."""
        taken = []
        while self._batches:
            batch = self._batches[0]
            numbers = numbers_of(batch)
            if numbers[-1] <= top:
                taken.append(self._batches.popleft())
                continue
            count = bisect_right(numbers, top)
            if count:
                taken.append(_part(batch, 0, count))
                self._batches[0] = _part(batch, count, len(numbers))
            break
        self.held -= sum(len(batch.items) for batch in taken)
        return taken

    def drop_copies(self, last: float) -> None:
        """Drop the copies of punctuations that went on already (5.4)."""
        while self._batches and numbers_of(self._batches[0])[0] <= last:
            batch = self._batches[0]
            if batch.items[0] is not WINDOW:
                return
            self.held -= 1
            if len(batch.items) == 1:
                self._batches.popleft()
            else:
                self._batches[0] = _part(batch, 1, len(batch.items))


def numbers_of(batch: Batch) -> Any:
    """Return the sequence numbers of a batch: a range, or a list in order."""
    assert batch.columns is not None  # noqa: S101 - the splitter numbers every item
    return batch.columns[0]


def _part(batch: Batch, start: int, end: int) -> Batch:
    numbers = numbers_of(batch)[start:end]
    return Batch(batch.items[start:end], [numbers], None, batch.origin)
