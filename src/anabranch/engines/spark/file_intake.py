"""What an epoch takes in of files: ranges that tasks read themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from anabranch.engines.spark.intake import (
    FilePiece,
    Intake,
    ParquetPiece,
    Piece,
    cut,
    shrunk,
)
from anabranch.errors import CheckpointError, InputError
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.reading.files import is_compressed
from anabranch.runtime.reading.opening import opening_of
from anabranch.runtime.reading.ranges import let_go, read_range
from anabranch.runtime.reading.splits import (
    Layout,
    count_rows,
    first_rows,
    last_row_end,
    layout_of,
)

_ENOUGH_BYTES = 1 << 26  # of long rows, for one epoch: tasks hold them in memory
_SAMPLE_BYTES = 1 << 16  # tells how long the rows are, before any were read


class FileIntake(Intake):
    """Ranges of text files that begin and end with a row."""

    any_time = True

    def __init__(self, source: str, kind: ReadFiles, files: Sequence[Path]) -> None:
        self._source = source
        self._kind = kind
        self._layout: Layout = layout_of(kind)
        self._files = list(files)
        self._openings = [opening_of(kind, path) for path in files]
        self._sizes = [path.stat().st_size for path in files]
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
            try:
                data = self._read(missing)
            except InputError:
                if pieces:  # which were whole; the next take comes by here again
                    break
                raise
            if not data:
                self._file += 1
                self._offset, self._line, self._row = self._start(self._file)
                continue
            if exactly:
                data = first_rows(data, missing, self._layout)
            taken = self._cut(data, max(1, round(parts * missing / rows)))
            pieces += taken
            missing -= sum(piece.rows for piece in taken)
            if not exactly and (missing < rows // 4 or len(data) > _ENOUGH_BYTES):
                break
        return pieces

    def waiting(self) -> int | None:
        if self.ended:
            return 0
        if not self._row_bytes or any(map(is_compressed, self._files)):
            return None
        left = sum(self._sizes[self._file :]) - self._offset
        return max(0, int(left / self._row_bytes))

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
        if path is not None and not is_compressed(path):
            size = path.stat().st_size
            if size < position["offset"]:
                raise shrunk(str(path), position["offset"], size, "bytes")
        self._offset, self._line = position["offset"], position["line"]
        self._row, self._number = position["row"], position["number"]

    def close(self) -> None:
        let_go(self._files)

    def _read(self, rows: int) -> bytes:
        """Return about so many whole rows from where the intake stands."""
        if not self._row_bytes:
            sample = self._bytes(0, _SAMPLE_BYTES)
            self._row_bytes = len(sample) / max(1, count_rows(sample, self._layout))
        size = min(max(1, int(rows * self._row_bytes)), 2 * _ENOUGH_BYTES)
        data = b""
        while True:
            try:
                block = self._bytes(len(data), size)
            except InputError:
                if end := last_row_end(data, self._layout):
                    return data[:end]  # what comes before the damage
                raise
            if not block:
                return data
            data += block
            if len(block) == size and (end := last_row_end(data, self._layout)):
                return data[:end]

    def _bytes(self, ahead: int, size: int) -> bytes:
        return read_range(self._files[self._file], self._offset + ahead, size)

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

    any_time = True

    def __init__(self, source: str, files: Sequence[Path]) -> None:
        self._source = source
        self._files: list[tuple[str, int]] = [
            (str(f), pq.read_metadata(f).num_rows) for f in files
        ]
        self._file = 0
        self._at = 0
        self._number = 1

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        pieces: list[Piece] = []
        missing = rows
        while missing and self._file < len(self._files):
            path, length = self._files[self._file]
            end = min(length, self._at + missing)
            for start, stop in cut(self._at, end, parts):
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

    def waiting(self) -> int:
        return sum(rows for _, rows in self._files[self._file :]) - self._at

    def position(self) -> Any:
        return {"file": self._file, "at": self._at, "number": self._number}

    def seek(self, position: Any) -> None:
        self._file, self._at = position["file"], position["at"]
        self._number = position["number"]
        self.ended = self._file >= len(self._files)
        if not self.ended and self._files[self._file][1] < self._at:
            path, rows = self._files[self._file]
            raise shrunk(path, self._at, rows, "rows")


def _moved(source: str, wanted: str, found: Path | None) -> CheckpointError:
    there = "nothing" if found is None else found
    return CheckpointError(
        f"a source must have its files in the same order; {source} was reading "
        f"{wanted}, where {there} is now; put the files back, or start with an empty "
        f"checkpoint",
    )
