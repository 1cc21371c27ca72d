"""What an epoch takes in of a generator: a range of its items.

Nobody can begin a generator in the middle. Every process that is given a range runs
the generator for itself, keeps it, and passes over the items that are not its own; the
next range is further on, so a process rarely begins again. That costs each process what
the driver would have to spend alone, and no item has to travel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from anabranch.engines.spark.intake import Intake, Piece, cut
from anabranch.graph.graph import Op
from anabranch.graph.kinds import Kind
from anabranch.graph.sources import Generate
from anabranch.runtime.reading.reader import source_failed

_PASSED_OVER = 1 << 16  # items at a time


@dataclass(frozen=True)
class GeneratedPiece(Piece):
    """The items `first` to `first + rows` of a generator, as far as it has them."""


class GeneratedIntake(Intake):
    """Ranges of numbers; where the generator ends is known once it was read so far."""

    own_pace = True

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

    def gave(self, items: int) -> None:
        self.ended = items < self._asked

    def position(self) -> Any:
        return {"at": self._at}

    def seek(self, position: Any) -> None:
        self._at = position["at"]


def read_generated(piece: GeneratedPiece, op: Op) -> list[Any]:
    """Return the items of a range; fewer if the generator ends before."""
    running = _running.get(op.kind)
    if running is None or running.number >= piece.first:
        running = _running[op.kind] = _Running(op)
    return running.read(piece.first, piece.rows)


class _Running:
    """A generator that runs in this process; `number` is that of its last item."""

    def __init__(self, op: Op) -> None:
        self.number = 0
        self._op = op
        self._items = self._begun()

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

    def _begun(self) -> Iterator[Any]:
        assert isinstance(self._op.kind, Generate)  # noqa: S101
        try:
            return iter(self._op.kind.factory())
        except Exception as error:
            raise source_failed(self._op, 0, error) from error


_running: WeakKeyDictionary[Kind, _Running] = WeakKeyDictionary()
