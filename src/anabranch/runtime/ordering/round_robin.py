"""Round robin: channels are taken in turn, as the splitter dealt to them (4.3.1).

Safe where every item gives exactly one output. A punctuation goes to all channels, so
when one is due the next full round consists of its copies, of which one goes on (5.4).
"""

from __future__ import annotations

from typing import Any

from anabranch.errors import EngineError
from anabranch.runtime.batch import NOWHERE, Batch
from anabranch.runtime.ordering.merge import Merge
from anabranch.runtime.punctuation import WINDOW


class RoundRobinMerge(Merge):
    """Takes one item of each channel in turn."""

    def __init__(self, queues: int, *, punctuated: bool = False) -> None:
        super().__init__(queues)
        self._punctuated = punctuated
        self._turn = 0
        self._queues: list[list[Any]] = [[] for _ in range(queues)]
        self._origin = NOWHERE

    def put(self, queue: int, batch: Batch) -> None:
        waiting = self._queues[queue]
        if waiting:
            waiting += batch.items
        else:
            self._queues[queue] = batch.items
        self._origin = self._origin.with_(batch.origin)

    def close(self, queue: int) -> None:
        pass

    def held(self, queue: int) -> int:
        return len(self._queues[queue])

    def release(self) -> Batch | None:
        items = self._one_by_one() if self._punctuated else self._rounds()
        if not items:
            return None
        batch = Batch(items, origin=self._origin)
        if not any(self._queues):
            self._origin = NOWHERE
        return batch

    def _rounds(self) -> list[Any]:
        """Take all full rounds at once, then what the next round has up to a gap."""
        n, turn = self.queues, self._turn
        rounds = min(map(len, self._queues))
        items: list[Any] = [None] * (rounds * n)
        for place in range(n):
            waiting = self._queues[(turn + place) % n]
            items[place::n] = waiting if len(waiting) == rounds else waiting[:rounds]
        if rounds:
            self._queues = [waiting[rounds:] for waiting in self._queues]
        while self._queues[turn]:
            items.append(self._queues[turn].pop(0))
            turn = (turn + 1) % n
        self._turn = turn
        return items

    def _one_by_one(self) -> list[Any]:
        items: list[Any] = []
        while waiting := self._queues[self._turn]:
            if waiting[0] is not WINDOW:
                items.append(waiting.pop(0))
                self._turn = (self._turn + 1) % self.queues
                continue
            if not all(self._queues):
                break
            copies = [queue.pop(0) for queue in self._queues]
            if any(copy is not WINDOW for copy in copies):
                msg = f"a punctuation must come in all channels at once; got {copies!r}"
                raise EngineError(msg)
            items.append(WINDOW)
        return items
