"""The intake of items that the driver holds, or that a generator yields.

Items of the driver are broadcast, some ten thousand at a time, before the first epoch
that needs them; a piece is a range of their numbers.

A generator cannot be started in the middle. Every process that is given a range runs
the generator for itself, keeps it, and skips items that are not its own; the next range
is further on, so a process rarely starts again. That costs each process what it would
cost the driver alone, and no item has to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from anabranch.connectors.reader import source_failed
from anabranch.epochs.intake.intake import Intake, Piece, cut, shrunk
from anabranch.epochs.transport.pickle import Pickler
from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind
from anabranch.operators.sources import Generate
from anabranch.runtime.verify.given import iterate_given

_SECTION_ITEMS = 1 << 16  # at least; more if an epoch takes more
_CHUNK_ITEMS = 1 << 11  # are unpickled together

Chunks: TypeAlias = list[bytes]


class SharedChunks(Protocol):
    """Chunks that every worker can read, shared by the engine."""

    @property
    def value(self) -> Chunks:
        """The chunks."""

    def destroy(self) -> None:
        """Free them everywhere."""


Share: TypeAlias = Callable[[Chunks], SharedChunks]


@dataclass(frozen=True)
class ListedPiece(Piece):
    """A range of items, from `start`, of a section that every host has."""

    section: SharedChunks
    start: int


@dataclass(frozen=True)
class _Section:
    """Broadcast items, numbered from `start` to `end`, counted from 0."""

    start: int
    end: int
    chunks: SharedChunks


class ListedIntake(Intake):
    """Items of a collection, section by section."""

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
        self._before = 0  # where the previous take began: it may still be read
        self._sections: list[_Section] = []
        self._sent = 0
        self._all_sent = False
        self.any_time = isinstance(items, Sequence)

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        self._let_go(self._before)
        start = self._before = self._at
        missing = start + rows - self._sent
        if missing > 0 and not self._all_sent:
            self._send(max(missing, _SECTION_ITEMS) if self.any_time else missing)
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
        self._let_go(self._sent)
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
        """Drop the sections that end before an item."""
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


_PASSED_OVER = 1 << 16  # items at a time


@dataclass(frozen=True)
class GeneratedPiece(Piece):
    """The items `first` to `first + rows` of a generator, if it has as many."""

    def before(self, end: float) -> GeneratedPiece:
        return replace(self, rows=max(0, int(min(self.rows, end - self.first))))


class GeneratedIntake(Intake):
    """Ranges of numbers; the generator's end is known once it is reached."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._asked = 0

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        pieces: list[Piece] = [
            GeneratedPiece(self._source, start + 1, stop - start)
            for start, stop in cut(self._at, self._at + rows, parts)
        ]
        self._at += rows
        self._asked = rows
        return pieces

    def note_items(self, items: int) -> None:
        self.ended = items < self._asked

    def position(self) -> Any:
        return {"at": self._at}

    def seek(self, position: Any) -> None:
        self._at = position["at"]


def read_generated(piece: GeneratedPiece, op: Op) -> list[Any]:
    """Return the items of a range; fewer if the generator ends earlier."""
    running = _running.get(op.kind)
    if running is None or running.number >= piece.first:
        running = _running[op.kind] = _Running(op)
    return running.read(piece.first, piece.rows)


class _Running:
    """A generator running in this process; `number` is that of its last item."""

    def __init__(self, op: Op) -> None:
        self.number = 0
        self._op = op
        self._items = self._begin()

    def read(self, first: int, count: int) -> list[Any]:
        while (ahead := first - 1 - self.number) > 0:
            if not self._next(min(ahead, _PASSED_OVER)):
                return []
        return self._next(count)

    def _next(self, count: int) -> list[Any]:
        items: list[Any] = []
        try:
            items.extend(islice(self._items, count))
        except Exception as error:
            given = self.number + len(items)
            raise source_failed(self._op, given, error) from error
        self.number += len(items)
        return items

    def _begin(self) -> Iterator[Any]:
        assert isinstance(self._op.kind, Generate)  # noqa: S101
        try:
            return iterate_given(self._op, self._op.kind.factory())
        except Exception as error:
            raise source_failed(self._op, 0, error) from error


_running: WeakKeyDictionary[Kind, _Running] = WeakKeyDictionary()
