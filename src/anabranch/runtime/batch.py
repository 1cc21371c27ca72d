"""A batch: items that move together between threads, with their source items.

Items carry no more than their order needs: positions, the numbers given by a region's
splitter, or nothing at all. The splitter records, once per batch, which numbers it gave
to which items, so that an error can name the source item at no cost per item.

A stream between threads carries *marks* beside its items. A mark says that nothing at
or before it will follow on that stream; a batch without items that carries a mark is a
pulse. Marks and items are compared by position, from left to right; a mark ends in
infinity, so it also covers everything derived from an item at that position.
"""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from anabranch.runtime.handover import Handover

Column: TypeAlias = Sequence[int]  # one component of each item's position


class _LazyItems(Sequence[Any]):
    """Items held in columns; objects are made on demand, once."""

    _listed: list[Any] | None = None

    @abstractmethod
    def _list(self) -> list[Any]:
        """Make all items."""

    @property
    def _items(self) -> list[Any]:
        if self._listed is None:
            self._listed = self._list()
        return self._listed

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)


class TableItems(_LazyItems):
    """Items held as an Arrow table.

    `make` returns the items of a range of rows.
    """

    def __init__(self, table: Any, make: Callable[[int, int], list[Any]]) -> None:
        self.table = table
        self._make = make
        self._count: int = table.num_rows

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if self._listed is None and isinstance(place, slice) and place.step is None:
            start, stop, _ = place.indices(self._count)
            return self._make(start, max(start, stop))
        return self._items[place]

    def _list(self) -> list[Any]:
        return self._make(0, self._count)

    def clear(self) -> None:
        """Drop the items; iteration over them ends."""
        self._items.clear()
        self.table = self.table.slice(0, 0)
        self._count = 0


class ArrayItems(_LazyItems):
    """Items held as arrays of numbers, one for each attribute.

    `make` returns the items of arrays. So arrays that one compiled element gives, the
    next one takes, also in another thread. Nobody changes them.
    """

    def __init__(
        self, arrays: Sequence[Any], make: Callable[[Sequence[Any]], list[Any]]
    ) -> None:
        self.arrays = arrays
        self.make = make

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return ArrayItems([array[place] for array in self.arrays], self.make)
        return self._items[place]

    def _list(self) -> list[Any]:
        return self.make(self.arrays)

    def clear(self) -> None:
        """Drop the items; iteration over them ends."""
        self._items.clear()
        self.arrays = [array[:0] for array in self.arrays]

    @classmethod
    def join(cls, parts: Sequence[Any]) -> ArrayItems | None:
        """Return several as one; None if one of them is a list, or of another kind."""
        first = parts[0]
        if not isinstance(first, ArrayItems):
            return None
        kinds = [array.dtype for array in first.arrays]
        for part in parts:
            if not isinstance(part, ArrayItems) or part.make != first.make:
                return None
            if kinds != [array.dtype for array in part.arrays]:
                return None
        columns = zip(*(part.arrays for part in parts), strict=True)
        return cls([np.concatenate(column) for column in columns], first.make)


_KEPT_ITEMS = 1 << 18  # more than are ever in flight in a region


class Numbered(Protocol):
    """A source that knows the location of each of its items."""

    index: int  # of this source among all

    def where(self, number: int) -> str:
        """Return the location of an item in words."""


class SourceItem(NamedTuple):
    """An item of a source."""

    source: Numbered
    number: int

    @property
    def text(self) -> str:
        """Its location in words."""
        return self.source.where(self.number)


class Ledger(Protocol):
    """Maps positions to source items."""

    def trace(self, position: Sequence[int]) -> SourceItem | None:
        """Return the source item behind a position, if known."""


class SourceLedger:
    """Maps positions that begin with the number of a source item.

    With several sources, the second number is that of the source.
    """

    def __init__(self, sources: Sequence[Numbered]) -> None:
        self._sources = sources

    def trace(self, position: Sequence[int]) -> SourceItem | None:
        source = self._sources[position[1] if len(self._sources) > 1 else 0]
        return SourceItem(source, position[0])


class _Entry(NamedTuple):
    first: int
    ledger: Ledger
    columns: Sequence[Column]


class EntryLedger:
    """Maps the numbers that a splitter assigned."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self._next = 0
        self._kept = 0
        self._lock = threading.Lock()

    def enter(
        self, count: int, columns: Sequence[Column] | None, ledger: Ledger | None
    ) -> range:
        """Record the next items with their positions; return their numbers.

        >>> ledger = EntryLedger()
        >>> ledger.enter(2, None, None), ledger.enter(1, None, None)
        (range(0, 2), range(2, 3))
        """
        numbers = range(self._next, self._next + count)
        self._next += count
        if columns is not None and ledger is not None and count:
            with self._lock:
                self._add(_Entry(numbers.start, ledger, columns), count)
        return numbers

    def trace(self, position: Sequence[int]) -> SourceItem | None:
        number = position[0]
        with self._lock:
            entries = list(self._entries)
        place = bisect_right([entry.first for entry in entries], number) - 1
        if place < 0:
            return None
        first, ledger, columns = entries[place]
        if number - first >= len(columns[0]):
            return None
        return ledger.trace([column[number - first] for column in columns])

    def _add(self, entry: _Entry, count: int) -> None:
        if self._entries and (longer := _go_on(self._entries[-1], entry)) is not None:
            self._entries[-1] = longer
            return
        self._entries.append(entry)
        self._kept += count
        while self._kept > _KEPT_ITEMS and len(self._entries) > 1:
            self._kept -= len(self._entries.popleft().columns[0])


def _go_on(last: _Entry, entry: _Entry) -> _Entry | None:
    """Return two entries as one if their numbers are consecutive, else None."""
    if last.ledger is not entry.ledger or len(last.columns) != 1:
        return None
    (one,), (two,) = last.columns, entry.columns
    if not isinstance(one, range) or not isinstance(two, range):
        return None
    follows = one.stop == two.start and one.step == two.step == 1
    if not follows or last.first + len(one) != entry.first:
        return None
    return _Entry(last.first, last.ledger, [range(one.start, two.stop)])


Mark: TypeAlias = tuple[float, ...]  # a position and everything below it

NOTHING_YET: Mark = (-math.inf,)
ALL: Mark = (math.inf,)  # the mark of a stream that has ended


def mark_at(*position: int) -> Mark:
    """Return the mark that covers a position and everything derived from it.

    >>> mark_at(7) >= (7, 3), mark_at(7) >= (8,)
    (True, False)
    """
    return (*position, math.inf)


class Origin(NamedTuple):
    """The source items behind a batch, and their birth times.

    `born_s` is the birth of the oldest and `born_s + spread_s` that of the youngest;
    `waited_s` is the time from `born_s` until the first was read.
    """

    born_s: float
    source: Numbered | None = None
    first: int = 0
    last: int = 0
    spread_s: float = 0.0
    waited_s: float = 0.0

    def with_(self, other: Origin) -> Origin:
        """Return the origin of a batch made from both."""
        if self is other or other.source is None:
            return self
        if self.source is None:
            return other
        born_s = min(self.born_s, other.born_s)
        spread_s = max(self.youngest_s, other.youngest_s) - born_s
        waited_s = min(self.read_s, other.read_s) - born_s
        if self.source is not other.source:
            return Origin(born_s, self.source, 0, 0, spread_s, waited_s)
        first, last = min(self.first, other.first), max(self.last, other.last)
        return Origin(born_s, self.source, first, last, spread_s, waited_s)

    @property
    def youngest_s(self) -> float:
        """The birth time of the youngest."""
        return self.born_s + self.spread_s

    @property
    def read_s(self) -> float:
        """The time at which the first of them was read."""
        return self.born_s + self.waited_s

    @property
    def text(self) -> str:
        """The location of the items in words, as far as known."""
        if self.source is None or not self.first:
            return "an item of several sources"
        if self.first == self.last:
            return self.source.where(self.first)
        return (
            f"{self.source.where(self.first)} or up to {self.last - self.first} later"
        )


NOWHERE = Origin(math.inf)


@dataclass(slots=True, eq=False)
class Batch:
    """Items in order, with columns of positions where these are needed.

    `entries[i]` is the stream by which item i came, if several lead here. Items that
    only kernels and files see are `TableItems` or `ArrayItems`, not a list. The
    `ledger` maps positions to source items, or the positions `known` without being
    carried. `failed` is the item that a sink failed on. A batch with a `handover` has
    no items, and is never joined with another.
    """

    items: list[Any]
    columns: list[Column] | None = None
    mark: Mark | None = None
    origin: Origin = NOWHERE
    entries: list[int] | None = None
    known: list[Column] | None = None
    ledger: Ledger | None = None
    failed: int | None = None
    handover: Handover | None = None

    def __len__(self) -> int:
        return len(self.items)

    def position(self, index: int) -> list[int] | None:
        """Return the position of an item, if it is carried or known."""
        columns = self.known if self.columns is None else self.columns
        return None if columns is None else [column[index] for column in columns]

    def source_item(self, index: int) -> SourceItem | None:
        """Return the source item behind an item, if known."""
        position = self.position(index)
        if position is not None and self.ledger is not None:
            return self.ledger.trace(position)
        first, last = self.origin.first, self.origin.last
        if self.origin.source is None or first != last or not first:
            return None
        return SourceItem(self.origin.source, first)

    def last_source_item(self, index: int) -> SourceItem | None:
        """Return the last source item that can be behind an item."""
        found = self.source_item(index)
        if found is None and self.origin.source is not None and self.origin.last:
            found = SourceItem(self.origin.source, self.origin.last)
        return found

    def head(self, count: int) -> Batch:
        """Return the first items, without a mark: more may precede it."""
        return replace(self._part(0, count, last=True), mark=None)

    def where(self, index: int) -> str:
        """Return the location of an item in its source in words, as far as known."""
        found = self.source_item(index)
        return self.origin.text if found is None else found.text

    def cut(self, count: int) -> tuple[Batch, Batch | None]:
        """Split after at least `count` items, keeping equal positions together.

        The first part gets the mark that its last position implies, so that it can be
        sent on alone.
        """
        columns = self.columns
        if columns is None:
            if count >= len(self):
                return self, None
        else:
            while count < len(self) and all(c[count] == c[count - 1] for c in columns):
                count += 1
            if count >= len(self):
                return self, None
        return self._part(0, count, last=False), self._part(count, len(self), last=True)

    def _part(self, start: int, end: int, *, last: bool) -> Batch:
        columns, mark = self.columns, self.mark
        if columns is not None:
            if not last:
                mark = mark_at(*(column[end - 1] for column in columns))
            columns = [column[start:end] for column in columns]
        elif not last:
            mark = None
        entries = None if self.entries is None else self.entries[start:end]
        known = self.known and [column[start:end] for column in self.known]
        items = self.items[start:end]
        return Batch(items, columns, mark, self.origin, entries, known, self.ledger)


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Concatenate batches of one stream."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    filled = [batch for batch in batches if batch.items]
    columns: list[Column] | None = None
    if first.columns is not None:
        width = len(first.columns)
        columns = [
            _chain([b.columns[i] for b in filled if b.columns]) for i in range(width)
        ]
    entries = None
    if first.entries is not None:
        entries = [entry for b in filled for entry in b.entries or ()]
    origin = NOWHERE
    for batch in batches:
        origin = origin.with_(batch.origin)
    ledgers = {batch.ledger for batch in filled}
    known: list[Column] | None = None
    if columns is None and len(ledgers) == 1 and all(b.known for b in filled):
        parts = zip(*(b.known for b in filled if b.known), strict=True)
        known = [_chain(part) for part in parts]
    items: Any = ArrayItems.join([b.items for b in filled]) if filled else []
    if items is None:
        items = [item for batch in filled for item in batch.items]
    return Batch(
        items=items,
        columns=columns,
        mark=last_mark(batches),
        origin=origin,
        entries=entries,
        known=known,
        ledger=ledgers.pop() if len(ledgers) == 1 else None,
    )


def last_mark(batches: Sequence[Batch]) -> Mark | None:
    """Return the highest mark of batches of one stream."""
    return next((b.mark for b in reversed(batches) if b.mark is not None), None)


def _chain(columns: Sequence[Column]) -> Column:
    """Concatenate columns; contiguous ranges stay a range."""
    if not columns:
        return []
    first, last = columns[0], columns[-1]
    if isinstance(first, range) and isinstance(last, range):
        whole = range(first[0], last[-1] + first.step, first.step)
        if len(whole) == sum(map(len, columns)) and all(
            isinstance(column, range)
            and column.step == first.step
            and column[0] in whole
            for column in columns
        ):
            return whole
    made: list[int] = []
    for column in columns:
        made += column
    return made
