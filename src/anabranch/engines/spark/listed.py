"""What an epoch takes in of items that the driver holds: a range of their numbers.

The items are broadcast, some ten thousand at a time, before the first epoch that needs
some of them; tasks are told which they are to take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from pyspark import Broadcast

from anabranch.engines.spark.intake import Intake, Piece, cut, shrunk
from anabranch.engines.spark.pickling import Pickler

_SECTION_ITEMS = 1 << 16  # at least; more where an epoch takes more
_CHUNK_ITEMS = 1 << 11  # are unpickled together

Chunks: TypeAlias = list[bytes]
Share: TypeAlias = Callable[[Chunks], "Broadcast[Chunks]"]


@dataclass(frozen=True)
class ListedPiece(Piece):
    """The items from `start` on of a section, which every host has."""

    section: Broadcast[Chunks]
    start: int


@dataclass(frozen=True)
class _Section:
    """Items that were broadcast; they are numbered from `start` to `end`, from 0 on."""

    start: int
    end: int
    chunks: Broadcast[Chunks]


class ListedIntake(Intake):
    """Items of a collection, section after section."""

    def __init__(
        self,
        source: str,
        items: Sequence[Any] | Iterator[Any],
        pickler: Pickler,
        share: Share,
    ) -> None:
        self._source = source
        self._items = items
        self._pickler = pickler
        self._share = share
        self._at = 0
        self._before = 0  # where the take before this one began: it may still be read
        self._sections: list[_Section] = []
        self._sent = 0
        self._all_sent = False
        self.any_time = isinstance(items, Sequence)
        self.own_pace = not self.any_time

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        self._let_go(self._before)
        start = self._before = self._at
        missing = start + rows - self._sent
        if missing > 0 and not self._all_sent:
            self._send(missing if self.own_pace else max(missing, _SECTION_ITEMS))
        self._at = min(start + rows, self._sent)
        self.ended = self._all_sent and self._at == self._sent
        return [
            ListedPiece(
                self._source,
                first + 1,
                min(stop, section.end) - first,
                section.chunks,
                first - section.start,
            )
            for begin, stop in cut(start, self._at, parts)
            for section in self._sections
            if (first := max(begin, section.start)) < min(stop, section.end)
        ]

    def waiting(self) -> int | None:
        if isinstance(self._items, Sequence):
            return len(self._items) - self._at
        return self._sent - self._at if self._all_sent else None

    def position(self) -> Any:
        return {"at": self._at}

    def seek(self, position: Any) -> None:
        self._at = self._before = self._sent = at = position["at"]
        if isinstance(self._items, Sequence):
            there = len(self._items)
            self.ended = self._all_sent = at == there
        else:
            there = sum(1 for _ in islice(self._items, at))
        if there < at:
            raise shrunk(self._source, at, there, "items")

    def close(self) -> None:
        self._let_go(self._sent)

    def _send(self, count: int) -> None:
        start = self._sent
        items: Sequence[Any]
        if isinstance(self._items, Sequence):
            items = self._items[start : start + count]
            self._all_sent = start + len(items) == len(self._items)
        else:
            items = list(islice(self._items, count))
            self._all_sent = len(items) < count
        if len(items) > 0:
            self._sent += len(items)
            chunks = [
                self._pickler.dumps(items[at : at + _CHUNK_ITEMS])
                for at in range(0, len(items), _CHUNK_ITEMS)
            ]
            self._sections.append(_Section(start, self._sent, self._share(chunks)))

    def _let_go(self, number: int) -> None:
        """Forget the sections that end before an item."""
        for section in self._sections:
            if section.end <= number:
                section.chunks.destroy()
        self._sections = [one for one in self._sections if one.end > number]


def read_listed(piece: ListedPiece, pickler: Pickler) -> list[Any]:
    """Return the items of a range."""
    first, skipped = divmod(piece.start, _CHUNK_ITEMS)
    last = -(-(piece.start + piece.rows) // _CHUNK_ITEMS)
    items = [
        item
        for chunk in piece.section.value[first:last]
        for item in pickler.loads(chunk)
    ]
    return items[skipped : skipped + piece.rows]
