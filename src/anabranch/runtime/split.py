"""Outlets: where a stream leaves an element, to one inlet or divided among replicas.

The splitter of a region routes items, numbers them if the merger behind the region
needs it, and sends pulses. In a shuffle every replica ends in a splitter; it only
routes, and passes on the pulses of the first one (4.4 of the paper).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from anabranch.operators.clock import is_sign
from anabranch.operators.getters import key_getter
from anabranch.runtime.batch import Batch, Column, EntryLedger, Mark, mark_at
from anabranch.runtime.handover import Exchange, FindBucket, Handover
from anabranch.runtime.keys import key_hash
from anabranch.runtime.ordering.merge import Dealt
from anabranch.runtime.ports import Inlet

BUCKETS = 1024
MOST_KEYS = 1 << 17  # whose replica a splitter remembers

Part: TypeAlias = tuple[list[Any], list[Column] | None]  # items and their positions


def bucket_of(key: Any) -> int:
    """Return the bucket of a key; a bucket always moves as a whole.

    >>> bucket_of("A") == bucket_of("A"), 0 <= bucket_of(("A", 1)) < BUCKETS
    (True, True)
    """
    return key_hash(key) % BUCKETS


@cache
def even_table(channels: int) -> tuple[int, ...]:
    """Return the replica of each bucket when all have equal shares.

    The table of one replica more differs only in the buckets of the new one.

    >>> sum(a != b for a, b in zip(even_table(3), even_table(4)))
    256
    """
    if channels == 1:
        return (0,) * BUCKETS
    each, more = divmod(BUCKETS, channels)
    left = [each + (channel < more) for channel in range(channels - 1)]
    table: list[int] = []
    for channel in even_table(channels - 1):
        stays = left[channel] > 0
        left[channel] -= stays
        table.append(channel if stays else channels - 1)
    return tuple(table)


class Router(ABC):
    """Divides the items of a stream among replicas, keeping their order in each."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    @abstractmethod
    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        """Return the part of each replica."""


class RoundRobinRouter(Router):
    """Deals items round robin: for regions without state.

    Only the first replicas get items, as many as `dealt` says; the others are
    suspended.
    """

    def __init__(self, channels: int, dealt: Dealt | None = None) -> None:
        super().__init__(channels)
        self._dealt = Dealt(channels) if dealt is None else dealt
        self._width = self.active = self._dealt.changes[-1][1]
        self._turn = 0
        self._count = 0

    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        if self.active != self._width:  # possibly set by another thread
            self._width, self._turn = self.active, 0
            self._dealt.change(self._count, self._width)
        n, turn = self._width, self._turn
        self._turn = (turn + len(items)) % n
        self._count += len(items)
        parts: list[Part] = []
        for channel in range(n):
            first = (channel - turn) % n
            own = None if columns is None else [c[first::n] for c in columns]
            parts.append((items[first::n], own))
        parts += [
            ([], None if columns is None else [[] for _ in columns])
            for _ in range(n, self.channels)
        ]
        return parts


class GroupRouter(Router):
    """Deals whole groups of items round robin: for regions with blocks.

    >>> router = GroupRouter(2, 3)
    >>> [part for part, _ in router.divide(list("abcdefgh"), None)]
    [['a', 'b', 'c', 'g', 'h'], ['d', 'e', 'f']]
    """

    def __init__(self, channels: int, size: int) -> None:
        super().__init__(channels)
        self._size = size
        self._dealt = 0

    def go_on(self, dealt: int) -> None:
        """Begin with a group of which the first replica already has so many items."""
        self._dealt = dealt

    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        mine: list[list[Any]] = [[] for _ in range(self.channels)]
        own: list[list[list[int]]] = [
            [[] for _ in columns or ()] for _ in range(self.channels)
        ]
        start = 0
        while start < len(items):
            group, place = divmod(self._dealt, self._size)
            end = min(len(items), start + self._size - place)
            channel = group % self.channels
            mine[channel] += items[start:end]
            for kept, column in zip(own[channel], columns or (), strict=True):
                kept.extend(column[start:end])
            self._dealt += end - start
            start = end
        self._dealt %= self._size * self.channels
        return [
            (part, None if columns is None else list(numbers))
            for part, numbers in zip(mine, own, strict=True)
        ]


class KeyRouter(Router):
    """Sends all items of a key to the replica that has its bucket; counts keys."""

    def __init__(
        self, attributes: tuple[str, ...], table: Sequence[int], channels: int
    ) -> None:
        super().__init__(channels)
        self.active = 1 + max(table)
        self._key = key_getter(attributes)
        self._table = table
        self._channel_of = _ChannelOf(table)
        self._counts: Counter[Any] = Counter()

    def change(self, table: Sequence[int]) -> Exchange:
        """Use another table from the next item on; return what has to move."""
        moved = Exchange.between(self._table, table)
        self._table, self._channel_of = table, _ChannelOf(table)
        self.active = 1 + max(table)
        return moved

    def take_counts(self) -> Counter[Any]:
        """Return the items per key since the last call."""
        counts, self._counts = self._counts, Counter()
        return counts

    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        try:
            keys = list(map(self._key, items))
            chosen = list(map(self._channel_of.__getitem__, keys))
            self._counts.update(keys)
        except Exception:  # noqa: BLE001 - the operator that needs the key will complain
            chosen = list(map(self._channel, items))
        parts: list[Part] = []
        for channel in range(self.channels):
            places = [i for i, c in enumerate(chosen) if c == channel]
            own: list[Column] | None = None
            if columns is not None:
                own = [[column[i] for i in places] for column in columns]
            parts.append(([items[i] for i in places], own))
        return parts

    def _channel(self, item: Any) -> int:
        try:
            return self._channel_of[self._key(item)]
        except Exception:  # noqa: BLE001 - as above
            return 0


class _ChannelOf(dict[Any, int]):
    """The replicas of the keys that were seen recently."""

    def __init__(self, table: Sequence[int]) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, key: Any) -> int:
        if len(self) >= MOST_KEYS:
            self.clear()
        channel = self[key] = self._table[bucket_of(key)]
        return channel


class NewTable(NamedTuple):
    """Another table of buckets, and what is needed to move the states of keys.

    The operators in `clocked` follow a clock.
    """

    table: Sequence[int]
    find_bucket: FindBucket
    clocked: frozenset[str] = frozenset()


class Slot(NamedTuple):
    """A queue of an inlet."""

    inlet: Inlet
    queue: int


class Outlet(ABC):
    """Where a stream leaves; used by one thread at a time."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = tuple(slots)

    @property
    def appetite(self) -> int:
        """The number of items that the consumers take at a time."""
        return sum(slot.inlet.appetite for slot in self.slots)

    @abstractmethod
    def put(self, batch: Batch) -> None:
        """Send a batch; never waits."""

    def settle(self) -> None:  # noqa: B027 - most outlets owe nothing
        """Send pending marks to the consumers before the thread may wait."""

    def close(self, *, final: bool) -> None:
        """End the stream, or detach from it."""
        for inlet, queue in self.slots:
            inlet.close(queue, final=final)


class StraightOutlet(Outlet):
    """All of the stream goes to one inlet."""

    def put(self, batch: Batch) -> None:
        if batch.items or batch.mark is not None:
            inlet, queue = self.slots[0]
            inlet.put(queue, batch)


class Numbering:
    """Numbers the items that enter a region, and counts epochs.

    A pulse is due after `epoch` items per replica; the splitter sends it with the next
    batch that ends there, or before its thread waits, so that no item is stuck in the
    merger for lack of a pulse while the stream is idle.
    """

    def __init__(self, epoch: int, channels: int, *, pulses: bool) -> None:
        self.channels = channels
        self._next = 0
        self._pulsed = 0
        self._epoch = epoch
        self._pulses = pulses

    def pulse(self, count: int = 0, *, now: bool = False) -> Mark | None:
        """Return the pulse if one is due after so many more items."""
        self._next += count
        least = 1 if now else self._epoch * self.channels
        due = self._next - self._pulsed >= least
        if not self._pulses or not due:
            return None
        self._pulsed = self._next
        return mark_at(self._next - 1)


class SplitOutlet(Outlet):
    """The stream is divided among the replicas of a region.

    Without `numbering`, items keep their positions, if the replicas are to carry them.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        router: Router,
        numbering: Numbering | None = None,
        *,
        carried: bool = True,
        punctuated: bool = False,
    ) -> None:
        super().__init__(slots)
        self.router = router
        self._carried = carried
        self._numbering = numbering
        self._entered = EntryLedger()
        self._punctuated = punctuated
        self._tables: deque[NewTable] = deque()
        self._mark: Mark | None = None  # the last one, if items carry positions
        self._width = 0 if numbering is None else 1  # of the positions carried

    def put(self, batch: Batch) -> None:
        if self._tables:
            self._change_table()
        columns, mark, ledger = batch.columns, batch.mark, batch.ledger
        carried = self._carried and columns is not None
        if self._numbering is not None or not carried:
            columns, ledger = [self._enter(batch)], self._entered
        if self._numbering is not None:
            mark, carried = self._numbering.pulse(len(batch.items)), True
        elif carried:
            self._mark, self._width = mark or self._mark, len(columns or ())
        if self._punctuated and any(map(is_sign, batch.items)):
            parts = self._divide_marked(batch.items, columns)
        else:
            parts = self.router.divide(batch.items, columns)
        for (inlet, queue), (items, own) in zip(self.slots, parts, strict=True):
            if items or mark is not None:
                made = Batch(items, own, mark, batch.origin, ledger=ledger)
                if not carried:
                    made.columns, made.known = None, own
                inlet.put(queue, made)

    def deal_to(self, replicas: int) -> None:
        """Send items to so many replicas only; any thread may call it.

        The others are suspended: they get no items, but finish what they have, and pass
        on marks.
        """
        if isinstance(self.router, RoundRobinRouter):
            self.router.active = replicas
            if self._numbering is not None:
                self._numbering.channels = replicas

    def move_to(self, table: NewTable) -> None:
        """Divide keys by another table from the next batch on; any thread may call it.

        The states move with the keys: see `anabranch.runtime.handover`.
        """
        self._tables.append(table)

    def _change_table(self) -> None:
        while self._tables:
            new = self._tables.popleft()
        if not isinstance(self.router, KeyRouter):
            return
        moved = self.router.change(new.table)
        mark = self._mark
        if self._numbering is not None:
            self._numbering.channels = self.router.active
            mark = self._numbering.pulse(now=True)
        for replica, (inlet, queue) in enumerate(self.slots):
            columns: list[Column] | None = [[] for _ in range(self._width)] or None
            if replica in moved.givers or replica in moved.takers:
                told = Handover(moved, replica, new.find_bucket, new.clocked)
                inlet.put(queue, Batch([], columns, mark, handover=told))
            elif mark is not None:
                inlet.put(queue, Batch([], columns, mark))

    @property
    def appetite(self) -> int:
        active = getattr(self.router, "active", self.router.channels)
        return sum(slot.inlet.appetite for slot in self.slots[:active])

    def _enter(self, batch: Batch) -> range:
        columns = batch.known if batch.columns is None else batch.columns
        return self._entered.enter(len(batch.items), columns, batch.ledger)

    def settle(self) -> None:
        if self._numbering is None:
            return
        mark = self._numbering.pulse(now=True)
        if mark is not None:
            for inlet, queue in self.slots:
                inlet.put(queue, Batch([], [[]], mark))

    def _divide_marked(
        self, items: list[Any], columns: list[Column] | None
    ) -> list[Part]:
        """Divide a stream with punctuations: each goes to every replica (5.4)."""
        pieces: list[list[Part]] = [[] for _ in self.slots]
        start = 0
        places = [i for i, item in enumerate(items) if is_sign(item)]
        for place in (*places, len(items)):
            between = _part((items, columns), start, place)
            for own, piece in zip(pieces, self.router.divide(*between), strict=True):
                own.append(piece)
            if place < len(items):
                for own in pieces:
                    own.append(_part((items, columns), place, place + 1))
            start = place + 1
        return [_join(own) for own in pieces]


def _part(whole: Part, start: int, end: int) -> Part:
    items, columns = whole
    cut = None if columns is None else [column[start:end] for column in columns]
    return items[start:end], cut


def _join(pieces: Sequence[Part]) -> Part:
    items = [item for piece in pieces for item in piece[0]]
    if pieces[0][1] is None:
        return items, None
    columns = zip(*(piece[1] or () for piece in pieces), strict=True)
    return items, [list(itertools.chain(*column)) for column in columns]
