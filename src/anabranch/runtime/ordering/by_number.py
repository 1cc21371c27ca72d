"""Merges by sequence number: round robin, contiguous, and with gaps and pulses.

Round robin (4.3.1): replicas are taken in turn, as the splitter dealt to them. It is
safe if every item gives exactly one output. A punctuation goes to all replicas, so when
one is due the next full round consists of its copies, of which one goes on (5.4). When
replicas are suspended or woken, the splitter records from which item it deals to how
many.

Sequence numbers (4.3.2): an item goes on when its number is the next one. It is safe if
every number comes exactly once. When every replica has shown a number of at least n,
all numbers up to n have arrived and are put in their places without comparisons; beyond
that, the front of a replica goes when its number is the next.

Sequence numbers and pulses (4.3.3, 4.3.4): numbers may be missing, or repeat.
Everything up to the minimum of the replicas' highest numbers may go on: no replica can
fall behind it (`dropped` in the paper). Beyond that an item goes if it is next in
order. With strict numbers that is the number after the last one; with relaxed ones it
is also the last number itself, and the one after it as soon as the replica of the last
one has shown a higher number (`noDups`).

Comparisons are slow. Numbers are dense: if each comes at most once, an item is put at
the index its number gives, and if a replica has every n-th number, all its items are
placed at once.
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from anabranch.errors import EngineError
from anabranch.operators.clock import is_sign
from anabranch.runtime.batch import NOWHERE, Batch, Column, Mark, Origin, mark_at
from anabranch.runtime.ordering.merge import Dealt, QueueMerge


class NumberedQueue:
    """The waiting items of one replica, and its progress.

    `back` is the highest number seen, on an item or a pulse; nothing more can come up
    to `done`.
    """

    def __init__(self, first: int) -> None:
        self._batches: deque[Batch] = deque()
        self.back: float = first - 1
        self.done: float = first - 1
        self.held = 0

    def put(self, batch: Batch, *, repeats: bool) -> None:
        """Add a batch; `repeats` if a number may come more than once."""
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
        """The lowest waiting number; infinity if there is none."""
        return numbers_of(self._batches[0])[0] if self._batches else math.inf

    @property
    def highest(self) -> float:
        """The highest waiting number; minus infinity if there is none."""
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
        """Drop the copies of punctuations that have already gone on (5.4)."""
        while self._batches and numbers_of(self._batches[0])[0] <= last:
            batch = self._batches[0]
            if not is_sign(batch.items[0]):
                return
            self.held -= 1
            if len(batch.items) == 1:
                self._batches.popleft()
            else:
                self._batches[0] = _part(batch, 1, len(batch.items))


def numbers_of(batch: Batch) -> Any:
    """Return the sequence numbers of a batch: a range, or a sorted list."""
    assert batch.columns is not None  # noqa: S101 - the splitter numbers every item
    return batch.columns[0]


def _part(batch: Batch, start: int, end: int) -> Batch:
    numbers = numbers_of(batch)[start:end]
    return Batch(batch.items[start:end], [numbers], None, batch.origin)


class RoundRobinMerge(QueueMerge):
    """Takes one item of each replica in turn, as the splitter dealt them."""

    def __init__(
        self, queues: int, *, punctuated: bool = False, dealt: Dealt | None = None
    ) -> None:
        super().__init__(queues)
        self._punctuated = punctuated
        self._dealt = Dealt(queues) if dealt is None else dealt
        self._change = 0  # the index of the change in effect
        self._turn = 0
        self._taken = 0  # items without punctuations, as the splitter counts them
        self._queues: list[list[Any]] = [[] for _ in range(queues)]
        # Per queue: origins, each with the number of items up to its end.
        self._origins: list[deque[tuple[int, Origin]]] = [
            deque() for _ in range(queues)
        ]
        self._came = [0] * queues
        self._gone = [0] * queues
        self._released = 0

    def put(self, queue: int, batch: Batch) -> None:
        self.ledger = batch.ledger or self.ledger
        waiting = self._queues[queue]
        if waiting:
            waiting += batch.items
        else:
            self._queues[queue] = batch.items
        if batch.items:
            self._came[queue] += len(batch.items)
            self._origins[queue].append((self._came[queue], batch.origin))

    def close(self, queue: int) -> None:
        pass

    def count_waiting(self, queue: int) -> int:
        return len(self._queues[queue])

    def release(self) -> Batch | None:
        items: list[Any] = []
        changes = self._dealt.changes
        while True:
            after = changes[self._change + 1 :][:1]
            left = after[0][0] - self._taken if after else math.inf
            _, width = changes[self._change]
            take = self._one_by_one if self._punctuated else self._rounds
            items += take(width, left)
            if not after or self._taken < after[0][0]:
                break
            self._change, self._turn = self._change + 1, 0
        if not items:
            return None
        numbers = range(self._released, self._released + len(items))
        self._released += len(items)
        origin = self._pass_origins()
        return Batch(items, origin=origin, known=[numbers], ledger=self.ledger)

    def _pass_origins(self) -> Origin:
        """Return the origin of exactly the items that have just left the queues."""
        origin = NOWHERE
        for queue, origins in enumerate(self._origins):
            gone = self._came[queue] - len(self._queues[queue])
            while self._gone[queue] < gone:
                end, one = origins[0]
                origin = origin.with_(one)
                self._gone[queue] = min(end, gone)
                if end <= gone:
                    origins.popleft()
        return origin

    def _rounds(self, n: int, most: float) -> list[Any]:
        """Take all full rounds at once, then the next round up to a gap."""
        turn = self._turn
        rounds = min(map(len, self._queues[:n]))
        if rounds * n > most:
            rounds = int(most) // n
        items: list[Any] = [None] * (rounds * n)
        for place in range(n):
            waiting = self._queues[(turn + place) % n]
            items[place::n] = waiting if len(waiting) == rounds else waiting[:rounds]
        if rounds:
            for queue in range(n):
                self._queues[queue] = self._queues[queue][rounds:]
        while len(items) < most and self._queues[turn]:
            items.append(self._queues[turn].pop(0))
            turn = (turn + 1) % n
        self._turn = turn
        self._taken += len(items)
        return items

    def _one_by_one(self, n: int, most: float) -> list[Any]:
        items: list[Any] = []
        end = self._taken + most
        while self._taken < end and (waiting := self._queues[self._turn]):
            if not is_sign(waiting[0]):
                items.append(waiting.pop(0))
                self._taken += 1
                self._turn = (self._turn + 1) % n
                continue
            if not all(self._queues):
                break
            copies = [queue.pop(0) for queue in self._queues]
            if any(copy != copies[0] for copy in copies):
                msg = (
                    f"a punctuation must come from all replicas at once; got {copies!r}"
                )
                raise EngineError(msg)
            items.append(copies[0])
        return items


_MISSING = object()


class SeqnoMerge(QueueMerge):
    """Releases consecutive numbers, starting at `first`."""

    def __init__(
        self, queues: int, *, first: int = 0, punctuated: bool = False
    ) -> None:
        super().__init__(queues)
        self._next = first
        self._punctuated = punctuated
        self._queues = [NumberedQueue(first) for _ in range(queues)]

    @property
    def last_seqno(self) -> int:
        """The number released last."""
        return self._next - 1

    def put(self, queue: int, batch: Batch) -> None:
        self.ledger = batch.ledger or self.ledger
        self._queues[queue].put(batch, repeats=False)

    def close(self, queue: int) -> None:
        self._queues[queue].close()

    def count_waiting(self, queue: int) -> int:
        return self._queues[queue].held

    def release(self) -> Batch | None:
        first, items, origin = self._next, list[Any](), NOWHERE
        self._drop_copies()
        top = min(queue.back for queue in self._queues)
        top = min(top, max(queue.highest for queue in self._queues))
        if top >= first:
            items, origin = self._all_up_to(int(top))
        while (run := self._next_run()) is not None:
            items += run.items
            origin = origin.with_(run.origin)
        if self._next == first:
            return None
        numbers = range(first, self._next)
        mark = mark_at(self._next - 1)
        return Batch(items, [numbers], mark, origin, ledger=self.ledger)

    def _all_up_to(self, top: int) -> tuple[list[Any], Origin]:
        """Put everything up to `top` in its place; copies of punctuations coincide."""
        first = self._next
        items: list[Any] = [_MISSING] * (top + 1 - first)
        origin, placed, ranges = NOWHERE, 0, True
        for queue in self._queues:
            for batch in queue.take(top):
                origin = origin.with_(batch.origin)
                placed += len(batch.items)
                ranges = ranges and isinstance(numbers_of(batch), range)
                place(batch, items, first)
        if placed != len(items) or not ranges:
            for number in find_gaps(items, first, _MISSING):
                self._refuse(number)
        self._next = top + 1
        return items, origin

    def _next_run(self) -> Batch | None:
        """Take the item with the next number, if it has arrived."""
        self._drop_copies()
        for queue in self._queues:
            if queue.front == self._next:
                (batch,) = queue.take(self._next)
                self._next += 1
                return batch
        return None

    def _drop_copies(self) -> None:
        if self._punctuated:
            for queue in self._queues:
                queue.drop_copies(self._next - 1)

    def _refuse(self, number: int) -> None:
        msg = (
            f"each sequence number must come exactly once; {number} did not; does an "
            f"operator of the region give more or less than it declares?"
        )
        raise EngineError(msg)


class PulseMerge(QueueMerge):
    """The common part of strict and relaxed merges.

    A `numbered` one belongs to a shuffle: it keeps the numbers and sends marks. However
    many copies of a pulse arrive, its mark advances once (4.4). Any other is the end of
    the region, and strips both.
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
        self.ledger = batch.ledger or self.ledger
        self._queues[queue].put(batch, repeats=self.repeats)

    def close(self, queue: int) -> None:
        self._queues[queue].close()

    def count_waiting(self, queue: int) -> int:
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
        made = Batch(run.items, [run.numbers], mark, run.origin, ledger=self.ledger)
        if not self._numbered:
            made.columns, made.known = None, made.columns
        return made

    def _pass_pulse(self) -> None:
        """Pass on a pulse that all replicas have sent for the last number."""
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
                if queue is not self._last_queue:  # it may have made a punctuation
                    queue.drop_copies(self.last_seqno)

    @abstractmethod
    def _ready(self, number: float) -> bool:
        """Tell whether the lowest waiting number is next in order."""

    def _up_to(self, top: float) -> Run:
        """Take everything up to `top` in numerical order."""
        taken: list[Batch] = []
        known: set[int] = set()  # the numbers of punctuations taken so far
        for queue in self._queues:
            batches = queue.take(top)
            if batches and numbers_of(batches[-1])[-1] >= self.last_seqno:
                self.last_seqno = numbers_of(batches[-1])[-1]
                self._last_queue = queue
            taken += _without_copies(batches, known) if self._punctuated else batches
        return in_order(taken, repeats=self.repeats)


def _without_copies(batches: Sequence[Batch], known: set[int]) -> list[Batch]:
    """Drop the copies of punctuations that another replica has given; add the others.

    Those of one replica are no copies of each other: an operator may make several for
    an item, and all have its number.
    """
    own: set[int] = set()
    kept = []
    for batch in batches:
        signs = list(map(is_sign, batch.items))
        if True not in signs:
            kept.append(batch)
            continue
        numbers = list(numbers_of(batch))
        own.update(itertools.compress(numbers, signs))
        stays = [
            not sign or number not in known
            for sign, number in zip(signs, numbers, strict=True)
        ]
        items = list(itertools.compress(batch.items, stays))
        columns: list[Column] = [list(itertools.compress(numbers, stays))]
        if items:
            kept.append(Batch(items, columns, None, batch.origin))
    known |= own
    return kept


class StrictMerge(PulseMerge):
    """For at most one output per item."""

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
        """Tell whether nothing more can come with the number released last."""
        return self._last_queue is None or self.last_seqno < self._last_queue.back


_SPARSE = 8  # places per item; beyond this, comparing is cheaper
_ABSENT = object()


class Run(NamedTuple):
    """Items in order, with their numbers."""

    items: list[Any]
    numbers: Column
    origin: Origin = NOWHERE

    def then(self, other: Run) -> Run:
        """Return this run followed by another."""
        if not self.items:
            return other
        return Run(
            self.items + other.items,
            [*self.numbers, *other.numbers],
            self.origin.with_(other.origin),
        )


def in_order(batches: Sequence[Batch], *, repeats: bool) -> Run:
    """Return the items of all batches in order; stable within one number.

    `repeats` if numbers may repeat within a replica.

    >>> odd, even = Batch(["b", "d"], [range(1, 5, 2)]), Batch(["a", "c"], [[0, 2]])
    >>> in_order([odd, even], repeats=False).items
    ['a', 'b', 'c', 'd']
    """
    if not batches:
        return Run([], [])
    origin = NOWHERE
    for batch in batches:
        origin = origin.with_(batch.origin)
    if len(batches) == 1:
        return Run(batches[0].items, numbers_of(batches[0]), origin)
    ranges = all(isinstance(numbers_of(batch), range) for batch in batches)
    if repeats and not ranges:
        return _sort(batches, origin)
    first = min(numbers_of(batch)[0] for batch in batches)
    last = max(numbers_of(batch)[-1] for batch in batches)
    count = sum(len(batch.items) for batch in batches)
    if last - first >= _SPARSE * count:
        return _sort(batches, origin)
    places: list[Any] = [_ABSENT] * (last - first + 1)
    for batch in batches:
        place(batch, places, first)
    is_full = ranges and count == len(places)  # numbers of a range do not repeat
    gaps = [] if is_full else find_gaps(places, first, _ABSENT)
    if count != len(places) - len(gaps):
        msg = (
            f"an item of this region must have at most one output; got {count} outputs "
            f"for {len(places) - len(gaps)} items; does an operator of the region give "
            f"more than it declares?"
        )
        raise EngineError(msg)
    if not gaps:
        return Run(places, range(first, last + 1), origin)
    numbers = [n for n, item in enumerate(places, first) if item is not _ABSENT]
    return Run([item for item in places if item is not _ABSENT], numbers, origin)


def find_gaps(places: list[Any], first: int, absent: object) -> list[int]:
    """Return the numbers of empty places, counted from `first`."""
    is_absent = list(map(operator.is_, places, itertools.repeat(absent)))
    if True not in is_absent:
        return []
    return [number for number, one in enumerate(is_absent, first) if one]


def place(batch: Batch, places: list[Any], first: int) -> None:
    """Put a batch's items at the indices their numbers give, counted from `first`."""
    numbers = numbers_of(batch)
    if isinstance(numbers, range):
        start, end = numbers[0] - first, numbers[-1] - first + 1
        places[start : end : numbers.step] = batch.items
    else:
        for number, item in zip(numbers, batch.items, strict=True):
            places[number - first] = item


def _sort(batches: Sequence[Batch], origin: Origin) -> Run:
    items: list[Any] = []
    numbers: list[int] = []
    for batch in batches:
        items += batch.items
        numbers += numbers_of(batch)
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return Run([items[i] for i in order], [numbers[i] for i in order], origin)
