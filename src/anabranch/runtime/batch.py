"""A batch: what goes from one thread to another at a time.

A stream between threads carries *marks* beside its items. A mark says that nothing at
or before it will come any more on that stream; a batch without items that carries a
mark is a pulse. Marks and items are compared by position, from left to right; a mark
ends in infinity, so it also covers everything that an item at its place leads to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

Mark: TypeAlias = tuple[float, ...]  # a position, and all that begins with it
Column: TypeAlias = Sequence[int]  # one number of the position of each item

NOTHING_YET: Mark = (-math.inf,)
ALL: Mark = (math.inf,)  # the mark of a stream that has ended


def mark_at(*position: int) -> Mark:
    """Return the mark that covers a position and everything that follows from it.

    >>> mark_at(7) >= (7, 3), mark_at(7) >= (8,)
    (True, False)
    """
    return (*position, math.inf)


class Numbered(Protocol):
    """A source that can tell where one of its items stood."""

    def where(self, number: int) -> str:
        """Return the place of an item in words."""


class Origin(NamedTuple):
    """Which source items are behind a batch, and when the oldest of them was read."""

    born_s: float
    source: Numbered | None = None
    first: int = 0
    last: int = 0

    def with_(self, other: Origin) -> Origin:
        """Return the origin of what comes from both."""
        if self is other or other.source is None:
            return self
        if self.source is None:
            return other
        born_s = min(self.born_s, other.born_s)
        if self.source is not other.source:
            return Origin(born_s, self.source)
        first, last = min(self.first, other.first), max(self.last, other.last)
        return Origin(born_s, self.source, first, last)

    @property
    def text(self) -> str:
        """The place of the items in words, as far as it is known."""
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
    """Items in order, with their positions column by column where these are needed.

    `entries[i]` tells by which stream item i came, where several lead to one place.
    """

    items: list[Any]
    columns: list[Column] | None = None
    mark: Mark | None = None
    origin: Origin = NOWHERE
    entries: list[int] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def cut(self, count: int) -> tuple[Batch, Batch | None]:
        """Divide after `count` items, or later, so that equal positions stay together.

        The first part gets the mark that its last position implies: whoever sends it
        on must be able to say how far it has come.
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
        return Batch(self.items[start:end], columns, mark, self.origin, entries)


def joined(batches: Sequence[Batch]) -> Batch:
    """Return batches of one stream, one behind the other, as one."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    filled = [batch for batch in batches if batch.items]
    columns: list[Column] | None = None
    if first.columns is not None:
        width = len(first.columns)
        columns = [
            _chained([b.columns[i] for b in filled if b.columns]) for i in range(width)
        ]
    entries = None
    if first.entries is not None:
        entries = [entry for b in filled for entry in b.entries or ()]
    origin = NOWHERE
    for batch in batches:
        origin = origin.with_(batch.origin)
    return Batch(
        items=[item for batch in filled for item in batch.items],
        columns=columns,
        mark=last_mark(batches),
        origin=origin,
        entries=entries,
    )


def last_mark(batches: Sequence[Batch]) -> Mark | None:
    """Return the furthest mark of batches of one stream."""
    return next((b.mark for b in reversed(batches) if b.mark is not None), None)


def _chained(columns: Sequence[Column]) -> Column:
    """Return columns one behind the other; ranges that go on evenly stay a range."""
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
