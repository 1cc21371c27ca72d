"""What every way of merging offers, and merging by arrival.

A merge has one queue for each thread that feeds it. In each queue everything is in
order already, so merging means to tell when the front of a queue may go on: when
nothing that belongs before it can still come in another queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from anabranch.runtime.batch import Batch, Ledger


class Dealt:
    """To how many replicas a splitter deals in turn, from which of its items on.

    Only the thread of the splitter changes it, before it sends items on; so whoever
    has got an item knows of all changes before it.

    >>> dealt = Dealt(4)
    >>> dealt.change(at=10, width=2)
    >>> dealt.changes
    [(0, 4), (10, 2)]
    """

    def __init__(self, width: int) -> None:
        self.changes = [(0, width)]

    def change(self, at: int, width: int) -> None:
        """Go on with so many replicas, and with the first one, from an item on."""
        self.changes.append((at, width))


class QueueMerge(ABC):
    """Brings queues together; not thread-safe, the inlet that owns it holds a lock."""

    def __init__(self, queues: int) -> None:
        self.queues = queues
        self.ledger: Ledger | None = None  # of what comes in: the same in all queues

    @abstractmethod
    def put(self, queue: int, batch: Batch) -> None:
        """Take a batch that came in a queue."""

    @abstractmethod
    def close(self, queue: int) -> None:
        """Take note that nothing more comes in a queue."""

    @abstractmethod
    def release(self) -> Batch | None:
        """Return the items that may go on now, in order; None if nothing new."""

    def take_pending(self, queue: int) -> Batch | None:
        """Take out what waits in a queue for what has not been read yet, if anything.

        Nothing does where all queues go back to the same source.
        """
        return None

    @abstractmethod
    def count_waiting(self, queue: int) -> int:
        """Return how many items of a queue wait for their turn."""


class SingleQueue(QueueMerge):
    """The stream of one thread."""

    def __init__(self, queues: int = 1) -> None:
        super().__init__(queues)
        self._waiting: deque[Batch] = deque()
        self._held = 0

    def put(self, queue: int, batch: Batch) -> None:
        if not batch.items and self._waiting:
            # A pulse never takes room: it only moves the mark of what stands before it.
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
