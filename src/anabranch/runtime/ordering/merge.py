"""The interface of all merges, and merging by arrival.

A merge has one queue per thread that feeds it. Each queue is already in order, so
merging means deciding when the front of a queue may go on: when nothing that precedes
it can still arrive in another queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from anabranch.runtime.batch import Batch, Ledger


class Dealt:
    """The number of replicas that a splitter deals to, and from which item on.

    Only the splitter's thread changes it, before it sends items; so the receiver of an
    item knows of all changes before it.

    >>> dealt = Dealt(4)
    >>> dealt.change(at=10, width=2)
    >>> dealt.changes
    [(0, 4), (10, 2)]
    """

    def __init__(self, width: int) -> None:
        self.changes = [(0, width)]

    def change(self, at: int, width: int) -> None:
        """Continue with so many replicas, starting with the first, from an item on."""
        self.changes.append((at, width))


class QueueMerge(ABC):
    """Merges queues; not thread-safe, the inlet that owns it holds a lock."""

    def __init__(self, queues: int) -> None:
        self.queues = queues
        self.ledger: Ledger | None = None  # of the input: the same in all queues

    @abstractmethod
    def put(self, queue: int, batch: Batch) -> None:
        """Add a batch to a queue."""

    @abstractmethod
    def close(self, queue: int) -> None:
        """Record that a queue has ended."""

    @abstractmethod
    def release(self) -> Batch | None:
        """Return the items that may go on now, in order; None if nothing new."""

    def take_pending(self, queue: int) -> Batch | None:
        """Take out the items of a queue that wait for unread input, if any.

        There are none if all queues go back to the same source.
        """
        return None

    @abstractmethod
    def count_waiting(self, queue: int) -> int:
        """Return the number of waiting items of a queue."""


class SingleQueue(QueueMerge):
    """The stream of one thread."""

    def __init__(self, queues: int = 1) -> None:
        super().__init__(queues)
        self._waiting: deque[Batch] = deque()
        self._held = 0

    def put(self, queue: int, batch: Batch) -> None:
        if not batch.items and self._waiting and batch.handover is None:
            # A pulse never takes room: it only moves the mark of the batch before it.
            self._waiting[-1].mark = batch.mark
            return
        self._waiting.append(batch)
        self._held += len(batch.items)

    def close(self, queue: int) -> None:
        pass

    def release(self) -> Batch | None:
        if not self._waiting:
            return None
        batch = self._waiting.popleft()
        self._held -= len(batch.items)
        return batch

    def count_waiting(self, queue: int) -> int:
        return self._held


class ArrivalMerge(SingleQueue):
    """Takes batches as they come from several threads: nobody asks for their order.

    So nothing is known of what can still come, nor of an item but its replica's origin.
    """

    def put(self, queue: int, batch: Batch) -> None:
        if batch.items:
            super().put(queue, Batch(batch.items, origin=batch.origin))
