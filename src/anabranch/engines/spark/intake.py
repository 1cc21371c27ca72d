"""What an epoch takes in: each source is cut into pieces that tasks read themselves.

The driver decides which rows belong to an epoch, and hands out descriptors: a range
of a file, rows of a Parquet file. Only what cannot be read from elsewhere (a generator,
a compressed file) is read here and shipped.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from anabranch.engines.spark.pickling import Pickler
from anabranch.errors import CheckpointError
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.reading.files import opened
from anabranch.runtime.reading.opening import opening_of
from anabranch.runtime.reading.splits import (
    Layout,
    count_rows,
    first_rows,
    last_row_end,
    layout_of,
)

_SAMPLE_BYTES = 1 << 16  # tells how long the rows are, before any were read


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
    """The bytes `start` to `end` of a file; its first row is `row` of that file."""

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

    A `live` source has rows that arrived before they were asked for.
    """

    ended = False
    live = False

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

    def due_s(self) -> Sequence[float] | None:
        """Return when each row that was last taken was due, where that is known."""
        return None

    def arrived(self) -> int | None:
        """Return how many rows have arrived, taken or not, where that is known."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of connections; nothing is taken any more."""


class SequenceIntake(Intake):
    """Slices of a list; a slice of a `range` is as small as the range itself."""

    def __init__(self, source: str, items: Sequence[Any], pickler: Pickler) -> None:
        self._source = source
        self._items = items
        self._pickler = pickler
        self._at = 0

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        end = min(len(self._items), self._at + rows)
        cuts = _cuts(self._at, end, parts)
        pieces: list[Piece] = [
            ShippedPiece(
                self._source,
                start + 1,
                stop - start,
                self._pickler.dumps(self._items[start:stop]),
            )
            for start, stop in itertools.pairwise(cuts)
            if stop > start
        ]
        self._at = end
        self.ended = end == len(self._items)
        return pieces

    def position(self) -> Any:
        return {"at": self._at}

    def seek(self, position: Any) -> None:
        if position["at"] > len(self._items):
            raise _shrunk(self._source, position["at"], len(self._items), "items")
        self._at = position["at"]
        self.ended = self._at == len(self._items)


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
        for start, stop in itertools.pairwise(_cuts(0, len(taken), parts)):
            if stop > start:
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


class FileIntake(Intake):
    """Ranges of text files that begin and end with a row."""

    def __init__(self, source: str, kind: ReadFiles, files: Sequence[Path]) -> None:
        self._source = source
        self._kind = kind
        self._layout: Layout = layout_of(kind)
        self._files = list(files)
        self._openings = [opening_of(kind, path) for path in files]
        self._file = 0
        self._offset, self._line, self._row = self._start(0)
        self._number = 1
        self._row_bytes = 0.0

    def _start(self, file: int) -> tuple[int, int, int]:
        if file >= len(self._files):
            self.ended = True
            return 0, 1, 1
        opening = self._openings[file]
        return opening.offset, opening.line, 1

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        pieces: list[Piece] = []
        missing = rows
        while missing > 0 and not self.ended:
            data = self._read(missing)
            if not data:
                self._file += 1
                self._offset, self._line, self._row = self._start(self._file)
                continue
            if exactly:
                data = first_rows(data, missing, self._layout)
            taken = self._cut(data, max(1, round(parts * missing / rows)))
            pieces += taken
            missing -= sum(piece.rows for piece in taken)
            if not exactly and missing < rows // 4:
                break
        return pieces

    def position(self) -> Any:
        return {
            "file": self._file,
            "path": None if self.ended else str(self._files[self._file]),
            "offset": self._offset,
            "line": self._line,
            "row": self._row,
            "number": self._number,
        }

    def seek(self, position: Any) -> None:
        self._file = position["file"]
        self.ended = self._file >= len(self._files)
        path = None if self.ended else self._files[self._file]
        if position["path"] not in (None, str(path)):
            raise _moved(self._source, position["path"], path)
        if path is not None and path.stat().st_size < position["offset"]:
            size = path.stat().st_size
            raise _shrunk(str(path), position["offset"], size, "bytes")
        self._offset, self._line = position["offset"], position["line"]
        self._row, self._number = position["row"], position["number"]

    def _read(self, rows: int) -> bytes:
        """Return about so many whole rows from where the intake stands."""
        with opened(self._files[self._file]) as file:
            file.seek(self._offset)
            if not self._row_bytes:
                sample = file.read(_SAMPLE_BYTES)
                count = count_rows(sample, self._layout)
                self._row_bytes = len(sample) / max(1, count)
                file.seek(self._offset)
            size = max(1, int(rows * self._row_bytes))
            data = b""
            while block := file.read(size):
                data += block
                if end := last_row_end(data, self._layout):
                    at_end = len(block) < size
                    return data if at_end else data[:end]
            return data

    def _cut(self, data: bytes, parts: int) -> list[FilePiece]:
        """Cut whole rows into pieces and move on behind them."""
        pieces = []
        start = 0
        for part in range(1, parts + 1):
            end = len(data)
            if part < parts:
                end = start + last_row_end(
                    data[start : end * part // parts], self._layout
                )
            chunk = data[start:end]
            if rows := count_rows(chunk, self._layout):
                pieces.append(self._piece(len(chunk), rows))
            self._offset += len(chunk)
            self._line += chunk.count(b"\n")
            self._row += rows
            self._number += rows
            start = end
        if counted := sum(piece.rows for piece in pieces):
            self._row_bytes = len(data) / counted
        return pieces

    def _piece(self, size: int, rows: int) -> FilePiece:
        return FilePiece(
            self._source,
            self._number,
            rows,
            str(self._files[self._file]),
            self._offset,
            self._offset + size,
            self._row,
            self._line,
            self._openings[self._file].columns,
        )


class ParquetIntake(Intake):
    """Rows of Parquet files, counted by their metadata."""

    def __init__(self, source: str, files: Sequence[Path]) -> None:
        self._source = source
        self._files = [(str(f), pq.read_metadata(f).num_rows) for f in files]
        self._file = 0
        self._at = 0
        self._number = 1

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        pieces: list[Piece] = []
        missing = rows
        while missing and self._file < len(self._files):
            path, length = self._files[self._file]
            end = min(length, self._at + missing)
            for start, stop in itertools.pairwise(_cuts(self._at, end, parts)):
                if stop > start:
                    count = stop - start
                    pieces.append(
                        ParquetPiece(self._source, self._number, count, path, start)
                    )
                    self._number += count
            missing -= end - self._at
            self._at = end
            if end == length:
                self._file, self._at = self._file + 1, 0
        self.ended = self._file == len(self._files)
        return pieces

    def position(self) -> Any:
        return {"file": self._file, "at": self._at, "number": self._number}

    def seek(self, position: Any) -> None:
        self._file, self._at = position["file"], position["at"]
        self._number = position["number"]
        self.ended = self._file >= len(self._files)
        if not self.ended and self._files[self._file][1] < self._at:
            path, rows = self._files[self._file]
            raise _shrunk(path, self._at, rows, "rows")


def _shrunk(what: str, wanted: int, found: int, noun: str) -> CheckpointError:
    return CheckpointError(
        f"a source must still have what was read from it; {what} was read up to "
        f"{wanted} {noun} and has {found}; put it back, or start with an empty "
        f"checkpoint",
    )


def _moved(source: str, wanted: str, found: Path | None) -> CheckpointError:
    there = "nothing" if found is None else found
    return CheckpointError(
        f"a source must have its files in the same order; {source} was reading "
        f"{wanted}, where {there} is now; put the files back, or start with an empty "
        f"checkpoint",
    )


def _cuts(start: int, end: int, parts: int) -> list[int]:
    """Return the ends of about equal parts of a range.

    >>> _cuts(0, 10, 3)
    [0, 3, 6, 10]
    """
    return [start + (end - start) * part // parts for part in range(parts + 1)]
