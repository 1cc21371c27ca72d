"""Read a source: its items in order, each with a number that tells where it stood.

The number costs nothing; `Reader.where` makes words of it when there is something to
say about the item.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.failures import Failure, OnError, failure_of
from anabranch.runtime.reading.chunks import Chunk, ChunkParser, Limit, gathered
from anabranch.runtime.reading.files import input_files, read_pieces
from anabranch.runtime.reading.opening import opening_in, row_parser
from anabranch.runtime.reading.parquet import parse_parquet
from anabranch.runtime.reading.rows import BadRow, Position, Unreadable
from anabranch.runtime.reading.splits import layout_of

_FIRST_BYTES = 1 << 16  # soon there
_MOST_BYTES = 1 << 19  # fast, and still only a few milliseconds of work


class Reader(ABC):
    """The items of a source, in order, numbered from 1.

    A row that cannot be read has a number too, so numbers may be left out.
    """

    def __iter__(self) -> Iterator[Any]:
        """Read from the beginning: the items alone."""
        return map(operator.itemgetter(0), self.numbered())

    @abstractmethod
    def numbered(self) -> Iterator[tuple[Any, int]]:
        """Read from the beginning: the items with their numbers."""

    def chunks(self, limit: Limit) -> Generator[Chunk, None, None] | None:
        """Read from the beginning: up to `limit()` items at a time, with their numbers.

        None where this is not to be had: where the next item may be long in coming, and
        those that are there must not wait for it.
        """
        return None

    @abstractmethod
    def where(self, number: int) -> str:
        """Return where an item that has been read stood, in words."""


class ItemReader(Reader):
    """Reads a collection or a generator of the user's."""

    def __init__(self, op: Op, items: Callable[[], Iterable[Any]]) -> None:
        self._op = op
        self._items = items

    def numbered(self) -> Iterator[tuple[Any, int]]:
        number = 0
        items = self._guarded_start()
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

    def _guarded_start(self) -> Iterator[Any]:
        try:
            return iter(self._items())
        except Exception as error:
            raise source_failed(self._op, 0, error) from error


class FileReader(Reader):
    """Reads files one after another; the rows of each are counted from 1."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._on_error = on_error
        self._firsts: list[int] = []  # the number of each file's first row
        self._files: list[Path] = []

    def numbered(self) -> Iterator[tuple[Any, int]]:
        self._firsts, self._files = [], []
        first = 1
        for path in input_files(self._kind.path):
            first = yield from self.read_file(path, first)

    def chunks(self, limit: Limit) -> Generator[Chunk, None, None]:
        self._firsts, self._files = [], []
        first = 1
        for path in input_files(self._kind.path):
            self._begin(path, first)
            first = yield from self._chunks_of(path, first, limit)

    def read_file(
        self, path: Path, first: int
    ) -> Generator[tuple[Any, int], None, int]:
        """Give the items of one file, numbered from `first`; return the next number."""
        self._begin(path, first)
        return (yield from self._read(path, first))

    def where(self, number: int) -> str:
        file = bisect.bisect_right(self._firsts, number) - 1
        return f"{self._files[file]}, row {number - self._firsts[file] + 1}"

    def _begin(self, path: Path, first: int) -> None:
        self._firsts.append(first)
        self._files.append(path)

    def _read(self, path: Path, first: int) -> Generator[tuple[Any, int], None, int]:
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
        self, path: Path, first: int, limit: Limit
    ) -> Generator[Chunk, None, int]:
        kind = self._kind
        if kind.format == "parquet":
            found = parse_parquet(path, kind.type, first, self._refuse)
            end = yield from gathered(found, limit)
            return end.row
        pieces = read_pieces(path, layout_of(kind), _FIRST_BYTES, _MOST_BYTES)
        head = next(pieces, b"")
        begun = opening_in(kind, path, head)
        parser = ChunkParser(kind, begun.columns, path)
        at = Position(first, begun.line)
        for data in itertools.chain((head[begun.offset :],), pieces):
            at = yield from parser.parse(data, at, self._refuse, limit)
        return at.row

    def _refuse(self, bad: BadRow) -> None:
        file = bisect.bisect_right(self._firsts, bad.at.row) - 1
        row = bad.at.row - self._firsts[file] + 1
        self._on_error(refusal(self._op, str(self._files[file]), row, bad))


def source_failed(op: Op, given: int, error: Exception) -> InputError:
    """Return the error of a collection or generator that failed after some items."""
    return InputError(
        f"source {op.name!r} ({op.site}) must give items to its end; "
        f"it failed after {given} of them: {type(error).__name__}: {error}"
    )


def refusal(op: Op, path: str, row: int, bad: BadRow) -> Failure:
    """Return the failure of a source on a row of a file that cannot be read."""
    assert isinstance(op.kind, ReadFiles)  # noqa: S101
    where = f"{path}, row {row}"
    if op.kind.format != "parquet":
        where += f" (line {bad.at.line})"
    return refusal_at(op, where, bad, "correct the file")


def refusal_at(op: Op, where: str, bad: BadRow, advice: str) -> Failure:
    """Return the failure of a source on a row that cannot be read."""
    error = InputError(
        f"{where}: {bad.text}; {advice}, or leave such rows out with "
        f'on_error="skip" or ab.dead_letter(...); read by {op.name!r} ({op.site})'
    )
    error.__cause__ = None if isinstance(bad.error, Unreadable) else bad.error
    return failure_of(op, bad.raw, where, error)
