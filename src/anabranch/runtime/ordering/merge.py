"""What every way of merging offers.

A merge has one queue for each thread that feeds it. In each queue everything is in
order already, so merging means to tell when the front of a queue may go on: when
nothing that belongs before it can still come in another queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from anabranch.runtime.batch import Batch


class Merge(ABC):
    """Brings queues together; not thread-safe, the inlet that owns it holds a lock."""

    def __init__(self, queues: int) -> None:
        self.queues = queues

    @abstractmethod
    def put(self, queue: int, batch: Batch) -> None:
        """Take a batch that came in a queue."""

    @abstractmethod
    def close(self, queue: int) -> None:
        """Take note that nothing more comes in a queue."""

    @abstractmethod
    def release(self) -> Batch | None:
        """Return what may go on now, in order, or None if that is nothing new."""

    def left_over(self, queue: int) -> Batch | None:
        """Take out what waits in a queue for what has not been read yet, if anything.

        Nothing does where all queues go back to the same source.
        """
        return None

    @abstractmethod
    def held(self, queue: int) -> int:
        """Return how many items of a queue wait for their turn."""
