"""The intake of an epoch: each source is cut into pieces that tasks read themselves.

The driver decides which rows belong to an epoch, and hands out descriptors: a range of
a file, of item numbers, of offsets. Only rows that tasks cannot reach (those of a
query, lines that arrive at the driver) are read here and shipped.

Finding the bytes of the next rows costs the driver some hundredths of a second, in
which the tasks would be idle. So sources that can be read at any time are read one
epoch ahead; live rows are taken when they are needed, so that none waits longer than
necessary.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anabranch.connectors.files.survey import BlockSurvey
from anabranch.connectors.storage import Status
from anabranch.errors import CheckpointError
from anabranch.runtime.ambient import Ambient


@dataclass(frozen=True)
class Reached:
    """The progress in a partition: the position after its last row read.

    `index` counts the rows up to there; `before` is the position before that row, which
    older checkpoints do not have.
    """

    position: Any = None
    index: int = 0
    ended: bool = False
    before: Any = None


@dataclass(frozen=True)
class Piece:
    """Rows of a source, numbered from `first`; `rows` includes bad ones."""

    source: str
    first: int
    rows: int

    def before(self, end: float) -> Piece:
        """Return it without rows from number `end` on, if that is cheaper to read."""
        return self


@dataclass(frozen=True)
class ShippedPiece(Piece):
    """Items from the driver, pickled, with consecutive numbers."""

    items: bytes


@dataclass(frozen=True)
class FilePiece(Piece):
    """The bytes `start` to `end` of a file; its first row is `row` of that file.

    For a compressed file these are offsets of the uncompressed data.
    """

    path: str
    start: int
    end: int
    row: int
    line: int
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class SurveyPiece(Piece):
    """Blocks of a file whose rows a task finds for an epoch to come; it reads none.

    The file has `size` bytes.
    """

    path: str
    start: int
    end: int
    size: int


@dataclass(frozen=True)
class Surveyed:
    """The surveys of some blocks of a file."""

    path: str
    blocks: tuple[BlockSurvey, ...]


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """`rows` rows of a Parquet file, starting at `start`.

    Size and time of a store's file are known, so that tasks need not ask for them.
    """

    path: str
    start: int
    known: Status | None = None


class Intake(ABC):
    """Hands out the rows of a source, in order.

    The rows of a `live` source arrive by themselves.
    """

    ended = False
    any_time = False  # whether the same rows can be read at any time
    live = False

    @abstractmethod
    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        """Return the next rows in about `parts` pieces; empty at the end.

        If the sources of a program take turns, it must take `exactly` that many rows.
        """

    @abstractmethod
    def position(self) -> Any:
        """Return the position, as plain data for a checkpoint."""

    @abstractmethod
    def seek(self, position: Any) -> None:
        """Continue at a position of another intake of the same source."""

    def note_items(self, items: int) -> None:  # noqa: B027 - most know it beforehand
        """Record the number of items in the rows last taken."""

    def advance(self, reached: Mapping[str, Any]) -> None:  # noqa: B027 - as above
        """Record the workers' progress in each partition."""

    def learn(self, surveyed: Sequence[Surveyed]) -> None:  # noqa: B027 - as above
        """Take note of the rows that tasks have found ahead."""

    def waiting(self) -> int | None:
        """Return the approximate backlog in rows; None if unknown."""
        return None

    def born_s(self) -> Sequence[float] | npt.NDArray[np.float64] | None:
        """Return the birth time of each row last taken, if known.

        Births that only tasks know are in their reports.
        """
        return None

    def count_arrivals(self) -> int | None:
        """Return the number of rows that have arrived, taken or not, if known."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Release connections; nothing is taken any more."""


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


THREAD = "anabranch-taking"  # the name of the read-ahead thread
CLOSING_S = 5.0  # how long an ending job waits for the read-ahead


@dataclass(frozen=True)
class Taken:
    """The rows of an epoch, the position of each source after them, and the backlog.

    `asked` is the number of rows requested of each source. The sources stood `before`
    them, which is known where rows can be taken again.
    """

    asked: int
    pieces: Mapping[str, list[Piece]]
    positions: Mapping[str, Any]
    waiting: int | None
    before: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows, of all sources."""
        return sum(piece.rows for parts in self.pieces.values() for piece in parts)


class _Asked(NamedTuple):
    taken: Future[Taken]
    take: Callable[[], Taken]


class Taking:
    """Takes from all sources in turn; used by one thread."""

    def __init__(
        self, intakes: Mapping[str, Intake], begin: Callable[[], None] | None = None
    ) -> None:
        """Take from these; `begin` is called first in the read-ahead thread."""
        self._intakes = intakes
        # Whether rows may be taken before they are needed.
        self.is_early = all(intake.any_time for intake in intakes.values())
        self._at: Mapping[str, Any] = self._find_positions() if self.is_early else {}
        self._begin = begin
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._next: Future[Taken] | None = None
        # Not from a pool: a process does not exit before its pool threads do, and this
        # one may be in a user's iterator that does not return.
        self._thread = threading.Thread(
            target=self._take_ahead, name=THREAD, daemon=True
        )
        self._thread.start()

    def is_done(self, within_s: float) -> bool:
        """Tell whether nothing is being read ahead, now or soon."""
        return self._next is None or bool(wait([self._next], within_s).done)

    @property
    def has_rows(self) -> bool:
        """Whether rows were read ahead; a failure waits until their turn."""
        taken = self._next
        return taken is not None and taken.done() and taken.exception() is None

    def take(self, rows: int, parts: int) -> Taken:
        """Return the next rows, as far as they have arrived."""
        if self._next is not None:
            taken, self._next = self._next.result(), None
            return taken
        return self._take(rows, parts)

    def prepare(self, rows: int, parts: int) -> None:
        """Start reading the following rows in the background."""
        if self.is_early:
            self._next = Future()
            # A source may be a user's function.
            take = Ambient().bind(self._take)
            self._asked.put(_Asked(self._next, partial(take, rows, parts)))

    def go_back(self, taken: Taken) -> None:
        """Stand before rows that were taken, which will be taken again."""
        if self._next is not None:
            wait([self._next])
            self._next = None
        for name, position in taken.before.items():
            self._intakes[name].seek(position)
        self._at = taken.before

    def close(self) -> None:
        """Take no more."""
        self._asked.put(None)
        if self._next is not None:
            wait([self._next], CLOSING_S)

    def _take_ahead(self) -> None:
        if self._begin is not None:
            self._begin()
        while (asked := self._asked.get()) is not None:
            try:
                asked.taken.set_result(asked.take())
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                asked.taken.set_exception(error)

    def _take(self, rows: int, parts: int) -> Taken:
        exactly = len(self._intakes) > 1
        before = self._at
        pieces = {
            name: self._take_from(name, rows, parts, exactly=exactly)
            for name, intake in self._intakes.items()
            if not intake.ended
        }
        known = [intake.waiting() for intake in self._intakes.values()]
        counts = [count for count in known if count is not None]
        self._at = self._find_positions()
        return Taken(
            rows,
            {name: found for name, found in pieces.items() if found},
            self._at,
            sum(counts) if counts else None,
            before,
        )

    def _find_positions(self) -> dict[str, Any]:
        return {name: intake.position() for name, intake in self._intakes.items()}

    def _take_from(
        self, name: str, rows: int, parts: int, *, exactly: bool
    ) -> list[Piece]:
        return self._intakes[name].take(rows, parts, exactly=exactly)
