"""What an epoch takes in: each source is cut into pieces that tasks read themselves.

The driver decides which rows belong to an epoch, and hands out descriptors: a range
of a file, of the numbers of items, of offsets. Only what tasks cannot reach (the rows
of a query, lines that arrive at the driver) is read here and shipped.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.engines.spark.pickling import Pickler
from anabranch.errors import CheckpointError


@dataclass(frozen=True)
class Piece:
    """Rows of a source, numbered from `first`; `rows` counts bad ones too."""

    source: str
    first: int
    rows: int


@dataclass(frozen=True)
class ShippedPiece(Piece):
    """Items that the driver read, pickled with their numbers (None: all in a row)."""

    items: bytes
    numbers: bytes | None = None


@dataclass(frozen=True)
class FilePiece(Piece):
    """The bytes `start` to `end` of a file; its first row is `row` of that file.

    Those of a compressed file are counted as they are when unpacked.
    """

    path: str
    start: int
    end: int
    row: int
    line: int
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """`rows` rows of a Parquet file from `start` on."""

    path: str
    start: int


class Intake(ABC):
    """Hands out the rows of a source, in order.

    A `live` source has rows that arrived before they were asked for; one of its
    `own_pace` makes them only then, and may take its time.
    """

    ended = False
    any_time = False  # whether the same rows can be taken at any time, without a word
    live = False
    own_pace = False

    @abstractmethod
    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        """Return the next rows in about `parts` pieces; nothing at the end.

        Where the sources of a program take turns, it must be `exactly` so many rows.
        """

    @abstractmethod
    def position(self) -> Any:
        """Return where the intake stands, as plain data for a checkpoint."""

    @abstractmethod
    def seek(self, position: Any) -> None:
        """Go on from where another intake of the same source stood."""

    def gave(self, items: int) -> None:  # noqa: B027 - most know it beforehand
        """Take note of how many items there were in what was last taken."""

    def waiting(self) -> int | None:
        """Return about how many rows are there to be taken; None: nobody knows."""
        return None

    def due_s(self) -> Sequence[float] | None:
        """Return when each row that was last taken was due, where that is known."""
        return None

    def arrived(self) -> int | None:
        """Return how many rows have arrived, taken or not, where that is known."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of connections; nothing is taken any more."""


class ItemIntake(Intake):
    """Items that only the driver can read."""

    def __init__(
        self, source: str, numbered: Iterator[tuple[Any, int]], pickler: Pickler
    ) -> None:
        self._source = source
        self._numbered = numbered
        self._pickler = pickler
        self._next = 1
        self._held: list[tuple[Any, int]] = []

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        first, end = self._next, self._next + rows
        taken, self._held = self._held, []
        for item, number in self._numbered:
            if number >= end:
                self._held = [(item, number)]
                break
            taken.append((item, number))
            if number == end - 1:
                break
        else:
            self.ended = True
            end = taken[-1][1] + 1 if taken else first
        self._next = end
        pieces: list[Piece] = []
        for start, stop in cut(0, len(taken), parts):
            chosen = taken[start:stop]
            numbers = np.array([n for _, n in chosen], np.int64)
            pieces.append(
                ShippedPiece(
                    self._source,
                    int(numbers[0]),
                    int(numbers[-1] - numbers[0]) + 1,
                    self._pickler.dumps([item for item, _ in chosen]),
                    numbers.tobytes(),
                )
            )
        return pieces

    def position(self) -> Any:
        return {"next": self._next}

    def seek(self, position: Any) -> None:
        self._next = position["next"]
        for item, number in self._numbered:
            if number >= self._next:
                self._held = [(item, number)]
                return
        self.ended = True


def shrunk(what: str, wanted: int, found: int, noun: str) -> CheckpointError:
    return CheckpointError(
        f"a source must still have what was read from it; {what} was read up to "
        f"{wanted} {noun} and has {found}; put it back, or start with an empty "
        f"checkpoint",
    )


def cut(start: int, end: int, parts: int) -> Iterator[tuple[int, int]]:
    """Cut a range into about equal parts, without empty ones.

    >>> list(cut(0, 10, 3))
    [(0, 3), (3, 6), (6, 10)]
    >>> list(cut(0, 1, 3))
    [(0, 1)]
    """
    ends = (start + (end - start) * part // parts for part in range(parts + 1))
    return (pair for pair in itertools.pairwise(ends) if pair[0] < pair[1])
