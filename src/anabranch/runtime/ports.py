"""Ports: buffers between threads.

An inlet stands before an operator that other threads feed. It merges their output and
releases it in order. A *threaded* inlet (a threaded port) has a thread of its own that
takes from it. Any other is a lock that keeps order: the thread that brings an item that
is due continues with it, unless another is already at work there.

Nothing here waits while it holds anything back. `put` never waits: a thread first puts
everything it has made, marks included, and only then waits for room. This makes
deadlock impossible (docs/local-engine.md has the argument).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import NamedTuple

from anabranch.runtime.batch import Batch, join_batches
from anabranch.runtime.handover import Handover
from anabranch.runtime.ordering.merge import QueueMerge, SingleQueue

ENOUGH = 4  # batches that may wait in an inlet before its producers wait
LITTLE = 2  # batches left when producers are woken: not at each of them
LOOK_S = 0.05  # between two looks whether a program has failed


class AbortedError(BaseException):
    """The program failed or was aborted elsewhere; waiting threads stop.

    Not an `Exception`: it is not a failure of the current item, and nothing may catch
    it.
    """


class End(NamedTuple):
    """Released once by an inlet, when all its producers have closed their queues.

    It is `final` if they have ended, not only been detached to continue elsewhere.
    """

    final: bool


class Inlet:
    """The input of several threads; thread-safe."""

    def __init__(self, merge: QueueMerge, *, threaded: bool) -> None:
        self.threaded = threaded
        self.limit = 1  # items released at a time
        self.measured = False  # whether the limit is more than a guess
        self._merge = merge
        # something arrived since the merge last had nothing to release
        self._news = False
        self._ready: deque[Batch] = deque()
        self._ready_items = 0
        self._open = merge.queues
        self._ended = False
        self._final = True
        self._busy = False
        self._aborted = False
        self._unbounded = False
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)  # for the consuming thread
        self._room = threading.Condition(self._lock)  # for the producing threads
        self._wanting: Counter[int] = Counter()  # queue -> threads waiting for room

    @property
    def appetite(self) -> int:
        """The number of items that its consumer takes at a time; at first, what fits."""
        return self.limit if self.measured else ENOUGH * self.limit

    @property
    def takes_arrays(self) -> bool:
        """Whether items may come as arrays: no merge looks at single ones."""
        return type(self._merge) is SingleQueue

    @property
    def waiting(self) -> int:
        """The number of waiting items; a gauge, read without the lock."""
        held = sum(map(self._merge.count_waiting, range(self._merge.queues)))
        return held + self._ready_items

    def put(self, queue: int, batch: Batch) -> None:
        """Add a batch; never waits."""
        with self._lock:
            self._merge.put(queue, batch)
            self._news = True
            self._arrived.notify()

    def close(self, queue: int, *, final: bool) -> None:
        """End a queue: for good if `final`, else only here."""
        with self._lock:
            if final:
                self._merge.close(queue)
            self._final = self._final and final
            self._open -= 1
            self._news = True
            self._arrived.notify()

    def lift_bound(self) -> None:
        """Let no producer wait for room any more: nothing new is coming.

        Room could depend on a source that has already been detached.
        """
        with self._lock:
            self._unbounded = True
            self._room.notify_all()

    def take_pending(self) -> dict[int, Batch]:
        """Take out the items that wait for unread input, by queue."""
        with self._lock:
            found = {q: self._merge.take_pending(q) for q in range(self._merge.queues)}
            return {queue: batch for queue, batch in found.items() if batch is not None}

    def abort(self) -> None:
        """Wake all waiting threads so that they can stop."""
        with self._lock:
            self._aborted = True
            self._arrived.notify_all()
            self._room.notify_all()

    def has_room(self, queue: int) -> bool:
        """Tell whether a producer may continue; an estimate, made without the lock."""
        return self._unbounded or self._before(queue) <= ENOUGH * self.limit

    def await_room(self, queue: int) -> None:
        """Wait until a producer may continue; it must have put everything it has."""
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

    def await_states(self, handover: Handover) -> None:
        """Wait until other replicas have given the states that a replica gets."""
        while handover.must_wait and not handover.exchange.is_complete(LOOK_S):
            with self._lock:
                self._check()

    def poll(self) -> Batch | End | None:
        """Return the batch that is due, if any."""
        with self._lock:
            self._check()
            return self._next()

    def take(self) -> Batch | End:
        """Wait for the batch that is due, and return it."""
        with self._lock:
            while True:
                self._check()
                due = self._next()
                if due is not None:
                    return due
                self._arrived.wait()

    def claim(self) -> Batch | End | None:
        """Return the batch that is due, and lock out other threads."""
        with self._lock:
            if self._busy or self._aborted:
                return None
            due = self._next()
            self._busy = due is not None
            return due

    def more(self) -> Batch | End | None:
        """Return the next batch for the claiming thread; None releases the claim."""
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
        """Return the number of items before the next one of a queue."""
        return self._merge.count_waiting(queue) + self._ready_items

    def _take_ready(self, limit: int) -> Batch:
        taken: list[Batch] = []
        count = 0
        while self._ready and (not taken or count + len(self._ready[0]) <= limit):
            if taken and (taken[-1].handover or self._ready[0].handover):
                break
            taken.append(self._ready.popleft())
            count += len(taken[-1])
        batch = join_batches(taken)
        if len(batch) > limit:
            batch, rest = batch.cut(limit)
            if rest is not None:
                self._ready.appendleft(rest)
        self._ready_items -= len(batch)
        return batch
