"""Reads a source: its items in order, each with a number that identifies its location.

The number costs nothing; `Reader.where` turns it into words for an error message.

A `LiveReader` reads items that arrive while the program runs. It is polled, and never
waits longer than the given time: between two polls the engine can stop, or serve its
sinks.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from anabranch.connectors.files.chunks import (
    Chunk,
    ChunkParser,
    Limit,
    TakesTables,
    gather,
)
from anabranch.connectors.files.input_files import input_files, read_pieces
from anabranch.connectors.files.opening import opening_in, row_parser, why_left_out
from anabranch.connectors.files.parquet import parse_parquet
from anabranch.connectors.files.rows import BadRow, Position, Unreadable
from anabranch.connectors.files.splits import layout_of
from anabranch.connectors.storage import Location
from anabranch.errors import AnabranchError, EngineError, InputError
from anabranch.graph.graph import Graph, Op
from anabranch.operators.clock import IdlePorts, find_idle_ports
from anabranch.operators.sources import Generate, ReadFiles
from anabranch.runtime.births import Births, births_of, on_this_clock
from anabranch.runtime.failures import Failure, OnError, failure_of
from anabranch.runtime.memory_reserve import ADVICE, release_for
from anabranch.runtime.verify.given import iterate_given

_FIRST_BYTES = 1 << 16  # soon there
_MOST_BYTES = 1 << 19  # fast, and still only a few milliseconds of work


class Reader(ABC):
    """The items of a source, in order, numbered from 1.

    An unreadable row has a number too, so numbers may be skipped.
    """

    def __iter__(self) -> Iterator[Any]:
        """Read from the beginning: the items alone."""
        return map(operator.itemgetter(0), self.read_numbered())

    @abstractmethod
    def read_numbered(self) -> Iterator[tuple[Any, int]]:
        """Read from the beginning: the items with their numbers."""

    def chunks(
        self, limit: Limit, takes_tables: TakesTables = lambda: False
    ) -> Generator[Chunk, None, None] | None:
        """Read from the beginning: up to `limit()` items at a time, with their numbers.

        If `takes_tables()` is true, the next ones may come as a much larger table. None
        if chunks are not possible: the next item may take long to arrive, and earlier
        ones must not wait for it.
        """
        return None

    @abstractmethod
    def where(self, number: int) -> str:
        """Return the location of an item that has been read, in words."""


class ItemReader(Reader):
    """Reads a user's collection or generator."""

    def __init__(self, op: Op, items: Callable[[], Iterable[Any]]) -> None:
        self._op = op
        self._items = items

    def read_numbered(self) -> Iterator[tuple[Any, int]]:
        number = 0
        items = self._start_guarded()
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except Exception as error:
                raise source_failed(self._op, number, error) from error
            number += 1
            yield item, number

    def where(self, number: int) -> str:
        return f"item {number} of {self._op.name}"

    def _start_guarded(self) -> Iterator[Any]:
        try:
            return iterate_given(self._op, self._items())
        except Exception as error:
            raise source_failed(self._op, 0, error) from error


def births_of_items(op: Op, items: Sequence[Any]) -> Births | None:
    """Return the births of a generator's items, if its `born` gives them."""
    kind = op.kind
    if not isinstance(kind, Generate) or kind.born is None:
        return None
    try:
        times_s = [float(kind.born(item)) for item in items]
    except Exception as error:
        msg = (
            f"source {op.name!r} ({op.site}) must know when an item came into being: "
            f"born(item) must return seconds since 1970; it failed with "
            f"{type(error).__name__}: {error}; correct born, or leave it out"
        )
        raise InputError(msg) from error
    births = births_of(times_s)
    return None if births is None else on_this_clock(births)


class FileReader(Reader):
    """Reads files one after another; the rows of each are counted from 1."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._on_error = on_error
        self._firsts: list[int] = []  # the number of each file's first row
        self._files: list[Location] = []

    def read_numbered(self) -> Iterator[tuple[Any, int]]:
        self._firsts, self._files = [], []
        first = 1
        files = input_files(self._kind.path, partitioned=self._kind.format == "parquet")
        for path in files:
            if not self._leave_out(path, len(files)):
                first = yield from self.read_file(path, first)

    def chunks(
        self, limit: Limit, takes_tables: TakesTables = lambda: False
    ) -> Generator[Chunk, None, None]:
        self._firsts, self._files = [], []
        first = 1
        files = input_files(self._kind.path, partitioned=self._kind.format == "parquet")
        for path in files:
            if not self._leave_out(path, len(files)):
                self._begin(path, first)
                first = yield from self._chunks_of(path, first, limit, takes_tables)

    def read_file(
        self, path: Location, first: int
    ) -> Generator[tuple[Any, int], None, int]:
        """Yield the items of one file, numbered from `first`; return the next
        number.
        """
        self._begin(path, first)
        return (yield from self._read(path, first))

    def where(self, number: int) -> str:
        file = bisect.bisect_right(self._firsts, number) - 1
        return f"{self._files[file]}, row {number - self._firsts[file] + 1}"

    def _leave_out(self, path: Location, files: int) -> bool:
        """Tell whether to skip something that is no file, or empty."""
        why = why_left_out(self._kind, path, files)
        if why is not None:
            self._on_error(damage_of(self._op, path, why))
        return why is not None

    def _begin(self, path: Location, first: int) -> None:
        self._firsts.append(first)
        self._files.append(path)

    def _read(
        self, path: Location, first: int
    ) -> Generator[tuple[Any, int], None, int]:
        kind = self._kind
        if kind.format == "parquet":
            end = yield from parse_parquet(path, kind.type, first, self._refuse)
            return end.row
        pieces = read_pieces(path, layout_of(kind))
        head = next(pieces, b"")
        begun = opening_in(kind, path, head)
        parser = row_parser(kind, begun.columns, path)
        at = Position(first, begun.line)
        for data in itertools.chain((head[begun.offset :],), pieces):
            at = yield from parser.parse(data, at, self._refuse)
        return at.row

    def _chunks_of(
        self, path: Location, first: int, limit: Limit, takes_tables: TakesTables
    ) -> Generator[Chunk, None, int]:
        kind = self._kind
        if kind.format == "parquet":
            found = parse_parquet(path, kind.type, first, self._refuse)
            end = yield from gather(found, limit)
            return end.row
        pieces = read_pieces(path, layout_of(kind), _FIRST_BYTES, _MOST_BYTES)
        head = next(pieces, b"")
        begun = opening_in(kind, path, head)
        parser = ChunkParser(kind, begun.columns, path)
        at = Position(first, begun.line)
        rows = itertools.chain((head[begun.offset :],), pieces)
        end = yield from parser.parse_pieces(
            rows, at, self._refuse, limit, takes_tables
        )
        return end.row

    def _refuse(self, bad: BadRow) -> None:
        file = bisect.bisect_right(self._firsts, bad.at.row) - 1
        row = bad.at.row - self._firsts[file] + 1
        self._on_error(refusal(self._op, str(self._files[file]), row, bad))


def source_failed(op: Op, given: int, error: Exception) -> AnabranchError:
    """Return the error of a collection or generator that failed after some items."""
    release_for(error)
    source = f"source {op.name!r} ({op.site})"
    made: AnabranchError
    if isinstance(error, MemoryError):
        made = EngineError(
            f"{source} must have enough memory for its items; it ran out of it after "
            f"{given} of them; {ADVICE}"
        )
    else:
        made = InputError(
            f"{source} must give items to its end; it failed after {given} of them: "
            f"{type(error).__name__}: {error}"
        )
    made.place = (given + 1,)
    return made


def refusal(op: Op, path: str, row: int, bad: BadRow) -> Failure:
    """Return the failure of a source on an unreadable row of a file."""
    assert isinstance(op.kind, ReadFiles)  # noqa: S101
    where = f"{path}, row {row}"
    if op.kind.format != "parquet":
        where += f" (line {bad.at.line})"
    return refusal_at(op, where, bad, "correct the file")


def refusal_at(op: Op, where: str, bad: BadRow, advice: str) -> Failure:
    """Return the failure of a source on an unreadable row."""
    error = InputError(
        f"{where}: {bad.text}; {advice}, or leave such rows out with "
        f'on_error="skip" or ab.dead_letter(...); read by {op.name!r} ({op.site})'
    )
    error.__cause__ = None if isinstance(bad.error, Unreadable) else bad.error
    return failure_of(op, bad.raw, where, error, (bad.at.row,))


def damage_of(op: Op, path: Location, error: InputError) -> Failure:
    """Return the failure of a source on a whole file."""
    return failure_of(op, str(path), str(path), error)


POLL_ITEMS = 10_000
SILENT_S = 0.02  # a shorter pause is no silence
POLL_S = 0.05


class LiveReader(Reader):
    """The items of a source as they arrive, numbered from 1.

    `births` are those of the items last polled, by `time.perf_counter`, if known.
    """

    ended = False
    births: Births | None = None

    @abstractmethod
    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        """Return up to `most` numbered items that have arrived, perhaps none.

        If there are none yet, wait for at most `wait_s`.
        """

    def close(self) -> None:
        """Release connections; nothing is read any more."""

    def count_arrivals(self) -> int | None:
        """Return the number of items that have arrived, read or not, if known."""
        return None

    def read_numbered(self) -> Iterator[tuple[Any, int]]:
        try:
            while not self.ended:
                yield from self.poll(POLL_ITEMS, POLL_S)
        finally:
            self.close()


class Feed:
    """Any source, one item at a time, without waiting for a live one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at_hand: Iterator[tuple[Any, int]] = iter(())
        if not isinstance(reader, LiveReader):
            self._at_hand = reader.read_numbered()
        self.ended = False

    def next(self) -> tuple[Any, int] | None:
        """Return the next item with its number; None if there is none (yet)."""
        row = next(self._at_hand, None)
        if row is not None or self.ended:
            return row
        if not isinstance(self._reader, LiveReader) or self._reader.ended:
            self.ended = True
            return None
        self._at_hand = iter(self._reader.poll(POLL_ITEMS, 0.0))
        return next(self._at_hand, None)

    def close(self) -> None:
        """Release connections."""
        if isinstance(self._reader, LiveReader):
            self._reader.close()


class Silence:
    """How long live sources have been silent, by the wall clock."""

    def __init__(self, graph: Graph, live: Iterable[str]) -> None:
        self._graph = graph
        self._last_s = dict.fromkeys(live, time.monotonic())
        self._looked_s = 0.0
        self._idle: IdlePorts = {}

    def note(self, source: str) -> None:
        """Record that a source has given something."""
        if source in self._last_s:
            now_s = time.monotonic()
            if now_s - self._last_s[source] > SILENT_S:
                self._looked_s = 0.0
            self._last_s[source] = now_s

    def find_idle_ports(self) -> IdlePorts:
        """Return the inputs that hold no clock back, as of now or a moment ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s > SILENT_S:
            self._looked_s = now_s
            silent_s = {name: now_s - last for name, last in self._last_s.items()}
            self._idle = find_idle_ports(self._graph, silent_s)
        return self._idle
