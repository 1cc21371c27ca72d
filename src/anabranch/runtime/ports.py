"""Ports: where what one thread sends waits for another.

An inlet stands before an operator that other threads feed. It merges what they send
and hands it out in order. A *threaded* inlet (a threaded port) has a thread of its own
that takes from it. Any other is a lock that keeps order: whichever thread brings an
item that is due goes on with it, unless another one is at work there already.

Nothing here waits while it holds anything back. `put` never waits: a thread first puts
everything that it has made, marks included, and only then waits for room. That is what
makes deadlock impossible (docs/local-engine.md has the argument).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import NamedTuple

from anabranch.runtime.batch import Batch, join_batches
from anabranch.runtime.ordering.merge import QueueMerge

ENOUGH = 4  # how many takes may wait in an inlet before its producers do
LITTLE = 2  # how many takes are left when they are woken: not for each of them


class AbortedError(BaseException):
    """The program failed or was given up elsewhere; whoever waits goes home.

    Not an `Exception`: it is no failure of the item at work, and nobody may survive it.
    """


class End(NamedTuple):
    """What an inlet hands out, once, when all that feed it have closed their queues.

    It is `final` if they have ended, and not only been cut off to go on elsewhere.
    """

    final: bool


class Inlet:
    """Where the streams of other threads come in; safe to use from all of them."""

    def __init__(self, merge: QueueMerge, *, threaded: bool) -> None:
        self.threaded = threaded
        self.limit = 1  # how many items are handed out at a time
        self._merge = merge
        self._news = False  # something came since the merge had nothing to release
        self._ready: deque[Batch] = deque()
        self._ready_items = 0
        self._open = merge.queues
        self._ended = False
        self._final = True
        self._busy = False
        self._aborted = False
        self._unbounded = False
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)  # for the thread that takes
        self._room = threading.Condition(self._lock)  # for the threads that put
        self._wanting: Counter[int] = Counter()  # queue -> threads that wait for room

    @property
    def waiting(self) -> int:
        """How many items wait here; a gauge, read without the lock."""
        held = sum(map(self._merge.count_waiting, range(self._merge.queues)))
        return held + self._ready_items

    def put(self, queue: int, batch: Batch) -> None:
        """Leave a batch; never waits."""
        with self._lock:
            self._merge.put(queue, batch)
            self._news = True
            self._arrived.notify()

    def close(self, queue: int, *, final: bool) -> None:
        """Say that nothing more comes in a queue: ever if it is `final`, else here."""
        with self._lock:
            if final:
                self._merge.close(queue)
            self._final = self._final and final
            self._open -= 1
            self._news = True
            self._arrived.notify()

    def lift_bound(self) -> None:
        """Let nobody wait for room here any more: nothing new is coming.

        Room could depend on a source that has been cut off already.
        """
        with self._lock:
            self._unbounded = True
            self._room.notify_all()

    def take_pending(self) -> dict[int, Batch]:
        """Take out what waits for what has not been read yet, by queue."""
        with self._lock:
            found = {q: self._merge.take_pending(q) for q in range(self._merge.queues)}
            return {queue: batch for queue, batch in found.items() if batch is not None}

    def abort(self) -> None:
        """Wake whoever waits here, for the last time."""
        with self._lock:
            self._aborted = True
            self._arrived.notify_all()
            self._room.notify_all()

    def has_room(self, queue: int) -> bool:
        """Tell whether a producer may go on; a guess, made without the lock."""
        return self._unbounded or self._before(queue) <= ENOUGH * self.limit

    def await_room(self, queue: int) -> None:
        """Wait until a producer may go on; it must have put everything it has."""
        with self._lock:
            self._check()
            if self.has_room(queue):
                return
            self._wanting[queue] += 1
            while self._before(queue) > LITTLE * self.limit:
                if self._unbounded or self._aborted:
                    break
                self._room.wait()
            self._wanting[queue] -= 1
            self._check()

    def poll(self) -> Batch | End | None:
        """Return the batch that is due, if any."""
        with self._lock:
            self._check()
            return self._next()

    def take(self) -> Batch | End:
        """Return the batch that is due; wait for it."""
        with self._lock:
            while True:
                self._check()
                due = self._next()
                if due is not None:
                    return due
                self._arrived.wait()

    def claim(self) -> Batch | End | None:
        """Return the batch that is due, and keep other threads out."""
        with self._lock:
            if self._busy or self._aborted:
                return None
            due = self._next()
            self._busy = due is not None
            return due

    def more(self) -> Batch | End | None:
        """Return the next batch for the thread that claimed; None lets others in."""
        with self._lock:
            self._check()
            due = self._next()
            self._busy = due is not None
            return due

    def _check(self) -> None:
        if self._aborted:
            raise AbortedError

    def _next(self) -> Batch | End | None:
        limit = self.limit
        while self._news and self._ready_items < limit:
            released = self._merge.release()
            if released is None:
                self._news = False
                break
            self._ready.append(released)
            self._ready_items += len(released.items)
        if not self._ready:
            if self._open or self._ended:
                return None
            self._ended = True
            return End(self._final)
        batch = self._take_ready(limit)
        little = LITTLE * self.limit
        if any(n and self._before(q) <= little for q, n in self._wanting.items()):
            self._room.notify_all()
        return batch

    def _before(self, queue: int) -> int:
        """Return how many items stand before the next one that comes in a queue."""
        return self._merge.count_waiting(queue) + self._ready_items

    def _take_ready(self, limit: int) -> Batch:
        taken: list[Batch] = []
        count = 0
        while self._ready and (not taken or count + len(self._ready[0]) <= limit):
            taken.append(self._ready.popleft())
            count += len(taken[-1])
        batch = join_batches(taken)
        if len(batch) > limit:
            batch, rest = batch.cut(limit)
            if rest is not None:
                self._ready.appendleft(rest)
        self._ready_items -= len(batch)
        return batch
