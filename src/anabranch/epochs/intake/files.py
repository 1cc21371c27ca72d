"""The intake of files, also of a growing directory: ranges that tasks read themselves."""

from __future__ import annotations

import bisect
import itertools
import os
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from anabranch.connectors.files.follow import FileWatch
from anabranch.connectors.files.input_files import (
    BLOCK_BYTES,
    FileLook,
    InputDigest,
    PassedFiles,
    check_look,
    input_errors,
    is_compressed,
    let_go,
    open_file,
    read_range,
    why_no_file,
)
from anabranch.connectors.files.opening import Opening, opening_of, why_left_out
from anabranch.connectors.files.parquet import (
    UNREADABLE,
    count_parquet_rows,
    open_parquet,
)
from anabranch.connectors.files.splits import (
    PlainRows,
    RowFormat,
    count_rows,
    count_rows_and_lines,
    first_rows,
    last_row_end,
    layout_of,
)
from anabranch.connectors.files.survey import Cut, RowIndex, Stand, survey_block
from anabranch.connectors.reader import damage_of
from anabranch.connectors.storage import Location, Status, StorePath, locate
from anabranch.epochs.intake.intake import (
    FilePiece,
    Intake,
    ParquetPiece,
    Piece,
    Surveyed,
    SurveyPiece,
    cut,
    shrunk,
)
from anabranch.errors import CheckpointError, InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import ReadFiles
from anabranch.runtime.births import Births, on_this_clock
from anabranch.runtime.failures import OnError

_ENOUGH_BYTES = 1 << 26  # of long rows, per epoch: tasks hold them in memory
LEAST_BYTES = 4 * BLOCK_BYTES  # of an epoch, or a file, that is worth a survey
_FIRST_LAG = 3  # epochs until a survey comes back, before any has
_SAMPLE_BYTES = 1 << 16  # to estimate the row length before any were read


# returns to continue without it
LeaveOut: TypeAlias = Callable[[Location, InputError], None]


def refuse_to_leave_out(_: Location, why: InputError) -> None:
    """Raise the error for an input name that is not a file."""
    raise why


class SurveyPlan:
    """Which blocks of some files tasks survey, and the surveys that have come back.

    Tasks survey beside their work, so a survey comes back some epochs after it was asked
    for. `lag` is how many; blocks that the reader will have passed by then are left out.
    Surveys of a file that has changed since are dropped.
    """

    def __init__(self, files: Sequence[Location], sizes: Sequence[int]) -> None:
        self._files = list(files)
        self._starts = list(itertools.accumulate(sizes, initial=0))  # in all files
        self._sizes = list(sizes)
        self._came: SimpleQueue[Surveyed] = SimpleQueue()  # by another thread
        self._indexes: dict[str, RowIndex] = {}
        self._looks: dict[str, FileLook] = {}
        self._asked = 0  # up to here, in all files
        self._asked_in: dict[tuple[str, int], int] = {}  # in which take
        self._takes = 0
        self._lag = _FIRST_LAG

    def learn(self, surveyed: Sequence[Surveyed]) -> None:
        """Add surveys that tasks have made; any thread may call it."""
        for one in surveyed:
            self._came.put(one)

    def find(self, path: Location, look: FileLook | None) -> RowIndex | None:
        """Return the surveys of a file; None if there are none, or the file has changed.

        `look` is its current state, if that is known.
        """
        while not self._came.empty():
            self._add(self._came.get())
        name = str(path)
        index = self._indexes.get(name)
        if index is not None and (look or FileLook.at(path)) != self._looks[name]:
            del self._indexes[name]
            return None
        return index

    def _add(self, found: Surveyed) -> None:
        index = self._indexes.setdefault(found.path, RowIndex())
        index.add(found.blocks)
        if found.blocks:
            asked = self._asked_in.pop((found.path, found.blocks[0].start), self._takes)
            self._lag = max(self._lag, self._takes - asked + 1)

    def forget(self, path: Location) -> None:
        """Drop the surveys of a file that was read."""
        self._indexes.pop(str(path), None)

    def ask(self, file: int, offset: int, taken: int, parts: int) -> list[SurveySpan]:
        """Return what tasks survey in an epoch that has taken `taken` bytes."""
        self._takes += 1
        if taken < LEAST_BYTES or file >= len(self._files):
            return []
        here = self._starts[file] + offset
        begin = max(self._asked, here + self._lag * taken)
        end = min(here + (self._lag + 2) * taken, self._starts[-1])
        spans: list[SurveySpan] = []
        each = max(0, end - begin) // (parts * BLOCK_BYTES) * BLOCK_BYTES + BLOCK_BYTES
        while begin < end:
            number = bisect.bisect_right(self._starts, begin) - 1
            span, begin = self._span(number, begin, end, each)
            if span is not None:
                spans.append(span)
        self._asked = max(self._asked, begin)
        return spans

    def _span(
        self, number: int, begin: int, end: int, most: int
    ) -> tuple[SurveySpan | None, int]:
        """Return whole blocks of a file from `begin` on, and where they end."""
        path, size, first = (
            self._files[number],
            self._sizes[number],
            self._starts[number],
        )
        behind = first + size
        start = -(-(begin - first) // BLOCK_BYTES) * BLOCK_BYTES
        if size < LEAST_BYTES or is_compressed(path) or start >= size:
            return None, behind
        stop = min(start + most, -(-(end - first) // BLOCK_BYTES) * BLOCK_BYTES, size)
        if stop <= start:
            return None, first + stop
        name = str(path)
        if name not in self._looks:
            try:
                self._looks[name] = FileLook.at(path)
            except InputError:  # told when its turn comes
                return None, behind
        if self._looks[name].size != size:
            return None, behind
        self._asked_in[name, start] = self._takes
        return SurveySpan(name, start, stop, size), first + stop


@dataclass(frozen=True)
class SurveySpan:
    """Blocks of a file of `size` bytes that a task surveys."""

    path: str
    start: int
    end: int
    size: int


class FileIntake(Intake):
    """Ranges of text files that begin and end with a row.

    Where rows begin is found here, until tasks have found it for large files, `ahead` of
    the epochs that read them.
    """

    def __init__(
        self,
        source: str,
        kind: ReadFiles,
        files: Sequence[Location],
        leave_out: LeaveOut = refuse_to_leave_out,
        *,
        ahead: bool = False,
    ) -> None:
        self._source = source
        self._kind = kind
        self._layout: RowFormat = layout_of(kind)
        self._files = list(files)
        self._leave_out = leave_out
        self.any_time = _are_files(files)
        self._sizes = [_size_of(path) for path in files]
        self._surveys = SurveyPlan(files, self._sizes) if ahead else None
        self._stand: Stand | None = None  # where the surveys have led to
        self._row_bytes = 0.0
        self._number = 1
        self._passed: PassedFiles | None = PassedFiles()  # None: not known
        self._go_to_file(0)

    def _go_to_file(self, file: int) -> None:
        """Move to the start of a file; it is opened when its rows are needed."""
        self._file = file
        self._opening: Opening | None = None
        self._print: InputDigest | None = None  # None: of an older format
        self._offset, self._line, self._row = 0, 1, 1
        self._stand = None
        self.ended = file >= len(self._files)

    def _leave_file(self) -> None:
        """Move to the next file, and record this one."""
        if self._surveys is not None:
            self._surveys.forget(self._files[self._file])
        self._passed = _add_file(self._passed, self._print)
        self._go_to_file(self._file + 1)

    def _why_left_out(self, path: Location) -> InputError | None:
        return why_left_out(self._kind, path, len(self._files))

    def _is_no_file(self) -> bool:
        path = self._files[self._file]
        return self._opening is None and self._why_left_out(path) is not None

    def _open_file(self) -> None:
        """Detect the file's header and encoding, as every engine does, and go to its
        rows.
        """
        path = self._files[self._file]
        if (why := self._why_left_out(path)) is not None:
            self._leave_out(path, why)
            self._go_to_file(self._file + 1)
            return
        self._opening = opening_of(self._kind, path)
        if not self._offset:  # else it is a position that was sought
            self._offset, self._line = self._opening.offset, self._opening.line
            self._print = InputDigest(path)
            self._print.feed(read_range(path, 0, self._offset))

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        pieces = self._take(rows, parts, exactly=exactly)
        taken = [piece for piece in pieces if isinstance(piece, FilePiece)]
        if self._surveys is None or not taken:
            return pieces
        size = sum(piece.end - piece.start for piece in taken)
        spans = self._surveys.ask(self._file, self._offset, size, parts)
        return [*pieces, *(self._make_survey(taken[0], one) for one in spans)]

    def _make_survey(self, beside: Piece, span: SurveySpan) -> SurveyPiece:
        return SurveyPiece(self._source, beside.first, 0, **vars(span))

    def learn(self, surveyed: Sequence[Surveyed]) -> None:
        if self._surveys is not None:
            self._surveys.learn(surveyed)

    def _take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        if self._print is not None:
            self._print.look_again()
        pieces: list[Piece] = []
        missing = rows
        while missing > 0 and not self.ended:
            if pieces and not exactly and self._is_no_file():
                break  # so that it is reported after the rows before it
            before = self._offset
            try:
                if self._opening is None:
                    self._open_file()
                    continue
                share = max(1, round(parts * missing / rows))
                taken = (
                    self._take_surveyed(missing, share, exactly=exactly)
                    or ([] if exactly else self._take_plain(missing, share))
                    or self._take_read(missing, share, exactly=exactly)
                )
            except InputError:
                if pieces:  # they were intact; the next take reports the damage
                    break
                raise
            if taken is None:
                self._leave_file()
                continue
            pieces += taken
            missing -= sum(piece.rows for piece in taken)
            is_much = self._offset - before > _ENOUGH_BYTES
            if not exactly and (missing < rows // 4 or is_much):
                break
        return pieces

    def _take_read(
        self, rows: int, parts: int, *, exactly: bool
    ) -> list[FilePiece] | None:
        """Return about `rows` rows, or `exactly` that many, found by reading the file.

        None at the end of the file.
        """
        look = None if is_compressed(self._files[self._file]) else self._look_now()
        if look is not None and self._offset >= look.size:
            return None  # known without a request
        data = self._read(rows)
        if not data:
            return None
        return self._cut(
            first_rows(data, rows, self._layout) if exactly else data, parts
        )

    def _take_plain(self, rows: int, parts: int) -> list[FilePiece]:
        """Return about `rows` rows of a file on disk, if every newline there ends one.

        Nothing if not, or if they are too few to be worth it. Blocks are read one by one
        into the same memory: touching new memory takes longer than counting.
        """
        path = self._files[self._file]
        size = min(int(rows * self._row_bytes), 2 * _ENOUGH_BYTES)
        if size < BLOCK_BYTES or not isinstance(path, Path) or is_compressed(path):
            return []
        digest, counted = copy(self._print), []
        with open_file(path) as file:
            cuts = _find_line_ends(file, self._offset, size, parts)
            file.seek(self._offset)
            for start, end in itertools.pairwise([self._offset, *cuts]):
                found = PlainRows(self._layout)
                for at in range(start, end, BLOCK_BYTES):
                    length = min(BLOCK_BYTES, end - at)
                    block = file.read(length)
                    if len(block) < length or not found.add(block):
                        return []
                    if digest is not None:
                        digest.feed(block)
                counted.append((end - start, found))
        pieces = []
        for length, found in counted:
            pieces.append(self._piece(length, found.count))
            self._offset += length
            self._line += found.lines
            self._row += found.count
            self._number += found.count
        self._print = digest
        if pieces:
            taken = pieces[-1].end - pieces[0].start
            self._row_bytes = taken / sum(piece.rows for piece in pieces)
        return pieces

    def _take_surveyed(
        self, rows: int, parts: int, *, exactly: bool
    ) -> list[FilePiece]:
        """Return about `rows` rows, or `exactly` at most that many, found by surveys.

        Nothing if there are no surveys, or too few rows to be worth it.
        """
        size = int(min(rows * self._row_bytes, max(_ENOUGH_BYTES, parts * LEAST_BYTES)))
        stand = self._find_stand() if size >= LEAST_BYTES else None
        if stand is None or self._surveys is None:
            return []
        path = self._files[self._file]
        index = self._surveys.find(path, self._look_now()) or RowIndex()
        until = self._offset + size
        cuts = [
            one
            for one in index.find_cuts(stand, until, self._sizes[self._file])
            if (one.rows <= rows if exactly else one.offset <= until)
        ]
        if not cuts:
            return []
        digests = index.digests()
        offsets = [one.offset for one in cuts]
        span, first = offsets[-1] - self._offset, self._offset
        chosen = sorted(
            {
                max(0, bisect.bisect_right(offsets, first + span * part // parts) - 1)
                for part in range(1, parts + 1)
            }
        )
        pieces = []
        done = Cut(self._offset, 0, 0)
        for one in (cuts[number] for number in chosen):
            count = one.rows - done.rows
            if count:
                pieces.append(self._piece(one.offset - done.offset, count))
            self._offset = one.offset
            self._line += one.lines - done.lines
            self._row += count
            self._number += count
            self._stand = one.stand
            done = one
        if self._print is not None:
            self._print.skip(self._offset, digests)
        index.forget_before(self._offset)
        if done.rows:
            self._row_bytes = span / done.rows
        return pieces

    def _look_now(self) -> FileLook | None:
        """Return the look of a store's file at the beginning of this take, if known.

        On a disk it costs nothing to look again.
        """
        there = isinstance(self._files[self._file], StorePath)
        return self._print.look if there and self._print is not None else None

    def _find_stand(self) -> Stand | None:
        """Return where the intake stands in the surveys, if they go on from there."""
        if self._surveys is None:
            return None
        path, at = self._files[self._file], self._offset
        index = self._surveys.find(path, self._look_now())
        if index is None:
            return None
        if self._stand is not None and self._stand.offset == at:
            return self._stand
        end = at // BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES
        if not index.has(end):
            return None
        data = self._bytes(0, end + 1 - at)
        if len(data) < end + 1 - at:
            return None
        block = survey_block(
            data[:-1], at, b"\n", data[-1:], self._layout
        )  # its part from here on: a row begins here
        return Stand(at, block)

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
            "print": None if self._print is None else self._print.position(),
            "passed": None if self._passed is None else vars(self._passed),
        }

    def seek(self, position: Any) -> None:
        self._go_to_file(position["file"])
        path = None if self.ended else self._files[self._file]
        if position["path"] not in (None, str(path)):
            raise _describe_move(self._source, position["path"], path)
        if path is not None and not is_compressed(path):
            with input_errors(path):
                size = path.stat().st_size
            if size < position["offset"]:
                raise shrunk(str(path), position["offset"], size, "bytes")
        passed = self._files[: self._file]
        read = [one for one in passed if self._why_left_out(one) is None]
        self._passed = _resume_passed(position, read, by_content=True)
        if path is not None and position.get("print") is not None:
            sought = position["offset"], position["print"]
            self._print = InputDigest.resume(path, *sought)
        self._offset, self._line = position["offset"], position["line"]
        self._row, self._number = position["row"], position["number"]

    def close(self) -> None:
        let_go(self._files)

    def _read(self, rows: int) -> bytes:
        """Return about `rows` whole rows from the current offset.

        A row may be much longer than the ones before: each block is twice the last.
        """
        if not self._row_bytes:
            sample = self._bytes(0, _SAMPLE_BYTES)
            self._row_bytes = len(sample) / max(1, count_rows(sample, self._layout))
        size = min(max(1, int(rows * self._row_bytes)), 2 * _ENOUGH_BYTES)
        look = None if is_compressed(self._files[self._file]) else self._look_now()
        data = b""
        while True:
            try:
                block = self._bytes(len(data), size)
            except InputError:
                if end := last_row_end(data, self._layout):
                    return data[:end]  # the rows before the damage
                raise
            if not block:
                return data
            data += block
            if len(block) == size and (end := last_row_end(data, self._layout)):
                grown = len(data) > size
                return (
                    first_rows(data[:end], rows, self._layout) if grown else data[:end]
                )
            if look is not None and self._offset + len(data) >= look.size:
                return data  # known without a request
            size *= 2

    def _bytes(self, ahead: int, size: int) -> bytes:
        return read_range(self._files[self._file], self._offset + ahead, size)

    def _cut(self, data: bytes, parts: int) -> list[FilePiece]:
        """Cut whole rows into pieces and move behind them."""
        pieces = []
        start = 0
        for part in range(1, parts + 1):
            end = len(data)
            if part < parts:
                end = start + last_row_end(
                    data[start : end * part // parts], self._layout
                )
            chunk = data[start:end]
            rows, lines = count_rows_and_lines(chunk, self._layout)
            if rows:
                pieces.append(self._piece(len(chunk), rows))
            self._offset += len(chunk)
            self._line += lines
            self._row += rows
            self._number += rows
            start = end
        if self._print is not None:
            self._print.feed(data)
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
            None if self._opening is None else self._opening.columns,
        )


class ParquetIntake(Intake):
    """Rows of Parquet files, counted by their metadata."""

    def __init__(
        self,
        source: str,
        kind: ReadFiles,
        files: Sequence[Location],
        leave_out: LeaveOut = refuse_to_leave_out,
    ) -> None:
        self._source = source
        self._kind = kind
        self._files = list(files)
        self._leave_out = leave_out
        self.any_time = _are_files(files)
        self._lengths = [_length_of(path) for path in files]
        self._rows: int | None = None  # of the file; None: not opened yet
        self._look: FileLook | None = None  # of the file, when it was opened
        self._passed: PassedFiles | None = PassedFiles()  # None: not known
        self._file = 0
        self._at = 0
        self._number = 1

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        pieces: list[Piece] = []
        missing = rows
        while missing and not self.ended:
            if pieces and not exactly and self._is_no_file():
                break  # so that it is reported after the rows before it
            try:
                length = self._length()
            except InputError:
                if pieces:  # they were intact; the next take reports the damage
                    break
                raise
            end = min(length, self._at + missing)
            file = self._files[self._file]
            path = str(file)
            for start, stop in cut(self._at, end, parts):
                count = stop - start
                pieces.append(
                    ParquetPiece(
                        self._source, self._number, count, path, start, self._known
                    )
                )
                self._number += count
            missing -= end - self._at
            self._at = end
            if end == length:
                if self._passed is not None and self._look is not None:
                    self._passed = self._passed.with_file(file, self._look, "")
                self._file, self._at, self._rows = self._file + 1, 0, None
                self._look = None
            self.ended = self._file >= len(self._files)
        return pieces

    def _is_no_file(self) -> bool:
        path = self._files[self._file]
        return self._rows is None and why_no_file(path) is not None

    def _length(self) -> int:
        """Return the number of rows of the file; it is opened as every engine does."""
        if self._rows is None:
            path = self._files[self._file]
            if (why := why_no_file(path)) is not None:
                self._leave_out(path, why)
                return self._at
            self._look = FileLook.at(path)
            self._rows = count_parquet_rows(path, self._kind.type, self._known)
        return self._rows

    @property
    def _known(self) -> Status | None:
        """Size and time of a store's file, when it was opened."""
        if self._look is None or not isinstance(self._files[self._file], StorePath):
            return None
        return Status(self._look.size, self._look.time_ns)

    def waiting(self) -> int:
        return max(0, sum(self._lengths[self._file :]) - self._at)

    def position(self) -> Any:
        return {
            "file": self._file,
            "at": self._at,
            "number": self._number,
            "look": None if self._look is None else vars(self._look),
            "passed": None if self._passed is None else vars(self._passed),
        }

    def seek(self, position: Any) -> None:
        self._file, self._at = position["file"], position["at"]
        self._number = position["number"]
        self.ended = self._file >= len(self._files)
        passed = self._files[: self._file]
        read = [one for one in passed if why_no_file(one) is None]
        self._passed = _resume_passed(position, read, by_content=False)
        if self._at and not self.ended and position.get("look") is not None:
            check_look(self._files[self._file], position["look"])
        if self._at and not self.ended and self._length() < self._at:
            raise shrunk(str(self._files[self._file]), self._at, self._length(), "rows")


class FollowIntake(Intake):
    """The files of a growing directory, each as soon as it is complete."""

    live = True

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._on_error = on_error
        self._watch = FileWatch(op.kind.path)
        self._waiting: deque[Location] = deque()
        self._path: Location | None = None  # of the current file
        self._first = 1  # the number of its first row
        self._file: Intake | None = None
        self._number = 1
        self._born: list[
            tuple[int, float]
        ] = []  # rows, and their file's modification time

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        self._born = []
        if not self._waiting:
            self._waiting.extend(self._watch.new_files())
        pieces: list[Piece] = []
        while rows > 0 and (self._file is not None or self._waiting):
            try:
                taken = self._next_file().take(rows, parts, exactly=exactly)
            except InputError as error:
                assert self._path is not None  # noqa: S101
                self._on_error(damage_of(self._op, self._path, error))
                self._close_file()
                taken = []
            pieces += taken
            found = sum(piece.rows for piece in taken)
            if self._path is not None and found:
                modified_s = self._watch.look(self._path).modified_ns / 1e9
                self._born.append((found, modified_s))
            rows -= found
            if self._file is not None:
                self._number = self._file.position()["number"]
                if self._file.ended:
                    self._close_file()
        return pieces

    def born_s(self) -> npt.NDArray[np.float64]:
        times_s = [on_this_clock(Births(at_s, at_s)).oldest_s for _, at_s in self._born]
        return np.repeat(times_s, [count for count, _ in self._born])

    def waiting(self) -> int | None:
        """Return the remaining rows of the opened files."""
        if self._waiting:
            return None
        return 0 if self._file is None else self._file.waiting()

    def position(self) -> Any:
        return {
            "taken": {name: list(look) for name, look in self._watch.taken.items()},
            "waiting": [str(path) for path in self._waiting],
            "path": None if self._file is None else str(self._path),
            "first": self._first,
            "within": None if self._file is None else self._file.position(),
            "number": self._number,
        }

    def seek(self, position: Any) -> None:
        self._watch = FileWatch(self._kind.path, taken=position["taken"])
        self._waiting = deque(map(locate, position["waiting"]))
        self._number = position["number"]
        if position["path"] is not None:
            self._path, self._first = locate(position["path"]), position["first"]
            self._file = self._open_file(self._path, position["within"])

    def close(self) -> None:
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next_file(self) -> Intake:
        if self._file is None:
            self._path, self._first = self._waiting.popleft(), self._number
            self._file = self._open_file(self._path)
        return self._file

    def _open_file(self, path: Location, within: Any = None) -> Intake:
        """Return the intake of one file, from its beginning or from a position."""
        name = self._op.name
        intake: Intake
        if self._kind.format == "parquet":
            intake = ParquetIntake(name, self._kind, [path])
        else:
            intake = FileIntake(name, self._kind, [path])
        intake.seek(within or {**intake.position(), "number": self._first})
        return intake


def _add_file(
    passed: PassedFiles | None, read: InputDigest | None
) -> PassedFiles | None:
    """Return the files read plus one more; None if unknown."""
    if passed is None or read is None:
        return None
    return passed.with_file(read.path, read.look, read.content)


def _resume_passed(
    position: Any, paths: Sequence[Location], *, by_content: bool
) -> PassedFiles | None:
    """Return a position's record of the files read, if they are unchanged."""
    if position.get("passed") is None:  # of an older format
        return None if paths else PassedFiles()
    passed = PassedFiles(**position["passed"])
    passed.check(paths, by_content=by_content)
    return passed


def _find_line_ends(file: BinaryIO, start: int, size: int, parts: int) -> list[int]:
    """Return where about equal parts of some bytes of a file end, each after a newline.

    The last may be the end of the file. Nothing if lines are too long to tell.
    """

    def find(until: int) -> int:
        first = max(start, until - _SAMPLE_BYTES)
        file.seek(first)
        newline = file.read(until - first).rfind(b"\n")
        return start if newline < 0 else first + newline + 1

    length = file.seek(0, os.SEEK_END)
    end = length if start + size >= length else find(start + size)
    cuts = [find(start + (end - start) * part // parts) for part in range(1, parts)]
    if any(
        before >= behind for before, behind in itertools.pairwise([start, *cuts, end])
    ):
        return []
    return [*cuts, end]


def _are_files(paths: Sequence[Location]) -> bool:
    """Tell whether all can be read, so that there is nothing to report."""
    return all(
        isinstance(path, StorePath) or os.path.isfile(path)  # noqa: PTH113 - never raises
        for path in paths
    )


def _length_of(path: Location) -> int:
    """Return the rows of a Parquet file, if it is one: for estimates only."""
    if why_no_file(path) is not None:  # opening a pipe would block
        return 0
    try:
        with open_parquet(path) as (_, file, _):
            rows: int = file.metadata.num_rows
    except UNREADABLE:
        return 0
    return rows


def _size_of(path: Location) -> int:
    """Return the bytes of a file, if it exists: for estimates only."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _describe_move(source: str, wanted: str, found: Location | None) -> CheckpointError:
    there = "nothing" if found is None else found
    return CheckpointError(
        f"a source must have its files in the same order; {source} was reading "
        f"{wanted}, where {there} is now; put the files back, or start with an empty "
        f"checkpoint",
    )
