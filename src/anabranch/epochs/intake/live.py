"""The intake of followed directories and of offered load."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.connectors.files.follow import FileWatch
from anabranch.connectors.offered import Offer
from anabranch.connectors.reader import damage_of
from anabranch.connectors.storage import Location, locate
from anabranch.epochs.intake.files import FileIntake, ParquetIntake
from anabranch.epochs.intake.intake import Intake, Piece, ShippedPiece
from anabranch.epochs.pickle import Pickler
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import Offered, ReadFiles
from anabranch.runtime.births import Births, on_this_clock
from anabranch.runtime.failures import OnError


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


class OfferedIntake(Intake):
    """Items that are due; the driver has them all."""

    live = True

    def __init__(self, source: str, kind: Offered, pickler: Pickler) -> None:
        self._source = source
        self._pickler = pickler
        self._offer = Offer(kind)
        self._due_s: Sequence[float] = ()

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        first = self._offer.ahead
        items, self._due_s = self._offer.take(rows)
        self.ended = self._offer.ended
        size = max(1, -(-len(items) // parts))
        return [
            ShippedPiece(
                self._source,
                first + start + 1,
                len(items[start : start + size]),
                self._pickler.dumps(items[start : start + size]),
            )
            for start in range(0, len(items), size)
        ]

    def born_s(self) -> Sequence[float]:
        return self._due_s

    def waiting(self) -> int:
        return self._offer.count_arrivals() - self._offer.ahead

    def count_arrivals(self) -> int:
        return self._offer.count_arrivals()

    def position(self) -> Any:
        return {"at": self._offer.ahead}

    def seek(self, position: Any) -> None:
        self._offer.ahead = position["at"]
        self.ended = self._offer.ended
