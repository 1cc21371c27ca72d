"""One queue: what comes first goes first, and there is nothing to merge."""

from __future__ import annotations

from collections import deque

from anabranch.runtime.batch import Batch
from anabranch.runtime.ordering.merge import Merge


class SingleQueue(Merge):
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

    def held(self, queue: int) -> int:
        return self._held
