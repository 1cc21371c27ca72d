"""Items of files in chunks: as many at a time as an engine wants, fast.

A piece of a file is read in bulk: as an Arrow table if that is exact, else by the
parser of its format at once. Only a piece with a bad row is read row by row, so that
its location is reported and everything around it is kept, in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from anabranch.connectors.files.arrow_items import Form, form_of, to_items, values_of
from anabranch.connectors.files.columnar_csv import BEHIND, ColumnReader
from anabranch.connectors.files.csv import csv_table, is_arrows
from anabranch.connectors.files.opening import row_parser
from anabranch.connectors.files.rows import Numbered, Position, Refuse, behind
from anabranch.connectors.files.splits import count_rows, layout_of
from anabranch.connectors.files.values import maker, plain_tuple
from anabranch.connectors.storage import Location
from anabranch.operators.sources import ReadFiles
from anabranch.runtime.batch import TableItems

Limit: TypeAlias = Callable[[], int]  # the size of the next chunk
TakesTables: TypeAlias = Callable[[], bool]  # whether the next chunk may be a table
Chunk: TypeAlias = tuple[list[Any], Sequence[int]]  # items, never none; their numbers
Chunks: TypeAlias = Generator[Chunk, None, Position]


class _Piece(NamedTuple):
    """Whole rows of a file, and their table if it was `tried` and is exact."""

    data: bytes
    table: pa.Table | None = None
    tried: bool = False


class ChunkParser:
    r"""Parses pieces of a file, each made of whole rows, into chunks of items.

    >>> from pathlib import Path
    >>> kind = ReadFiles("lines.txt", "text", str)
    >>> parser = ChunkParser(kind, None, Path("lines.txt"))
    >>> list(parser.parse(b"a\nb\nc\n", Position(1, 1), print, lambda: 2))
    [(['a', 'b'], range(1, 3)), (['c'], range(3, 4))]
    """

    def __init__(
        self, kind: ReadFiles, columns: tuple[str, ...] | None, path: Location
    ) -> None:
        """Prepare for a file with these columns; missing ones are refused here."""
        self._kind = kind
        self._names = columns
        self._parser = row_parser(kind, columns, path)
        self._layout = layout_of(kind)
        self._make = maker(kind.type)
        form = form_of(kind.type) if kind.format == "csv" else None
        self._form = form if is_arrows(form) else None
        self._plain = plain_tuple(kind.type)
        self._reader: ColumnReader | None = None

    def parse_pieces(
        self,
        pieces: Iterator[bytes],
        at: Position,
        refuse: Refuse,
        limit: Limit,
        takes_tables: TakesTables = lambda: False,
    ) -> Chunks:
        """Yield the items of pieces of rows that begin at `at`; return the next
        position.

        A consumer of tables gets one per piece. While it processes that, another thread
        reads the next piece.
        """
        with ThreadPoolExecutor(1) as beside:
            ahead: Future[_Piece | None] | None = None
            while True:
                piece = self._next_piece(pieces) if ahead is None else ahead.result()
                if piece is None:
                    return at
                ahead = None
                if self._form is not None and self._plain and takes_tables():
                    if not piece.tried:
                        piece = self._read_table(piece.data)
                    ahead = beside.submit(self._next_table, pieces)
                    if piece.table is not None and piece.table.num_rows:
                        at = yield from self._give_table(piece, at, self._form)
                        continue
                at = yield from self.parse(piece.data, at, refuse, limit)

    def _next_piece(self, pieces: Iterator[bytes]) -> _Piece | None:
        data = next(pieces, None)
        return None if data is None else _Piece(data)

    def _next_table(self, pieces: Iterator[bytes]) -> _Piece | None:
        data = next(pieces, None)
        return None if data is None else self._read_table(data)

    def _read_table(self, data: bytes) -> _Piece:
        assert self._form is not None  # noqa: S101 - see above
        return _Piece(data, self._table_of(data, self._form), tried=True)

    def _give_table(self, piece: _Piece, at: Position, form: Form) -> Chunks:
        assert piece.table is not None  # noqa: S101 - see above
        rows = piece.table.num_rows
        make = partial(_list_items, piece.table, form)
        chunk: Any = TableItems(piece.table, make)
        yield chunk, range(at.row, at.row + rows)
        return behind(piece.data, at, rows)

    def parse(self, data: bytes, at: Position, refuse: Refuse, limit: Limit) -> Chunks:
        """Yield the items of the rows that begin at `at`; return the next position."""
        items = self._in_bulk(data)
        if items is None:
            slowly = self._parser.one_by_one(data, at, refuse)
            return (yield from gather(slowly, limit))
        following = yield from slice_items(items, at.row, limit)
        return behind(data, at, following - at.row)

    def _in_bulk(self, data: bytes) -> Iterator[Any] | None:
        """Return the items of all rows; None if one of them is bad."""
        columns = self._columns_of(data)
        if columns is None:
            found = self._parser.at_once(data)
            return None if found is None else iter(found)
        values = zip(*columns, strict=True)
        if plain_tuple(self._kind.type):
            # No user code is called, so nothing can fail later: each item is made on
            # demand, which suits the cache and the garbage collector.
            return map(tuple.__new__, itertools.repeat(self._kind.type), values)
        try:
            return iter(list(map(self._make, values)))
        except Exception:  # noqa: BLE001 - whatever it is, row by row it has a place
            return None

    def _table_of(self, data: bytes, form: Form) -> pa.Table | None:
        """Return the columns read by kernels, or by Arrow, if that is exact."""
        if self._reader is None:
            self._reader = ColumnReader(form, self._names, self._kind.delimiter)
        rows = count_rows(data, self._layout)
        table = self._reader.read(data + bytes(BEHIND), len(data), rows)
        if table is not None and table.num_rows == rows:
            return table
        delimiter = self._kind.delimiter
        return csv_table(data, form, rows, columns=self._names, delimiter=delimiter)

    def _columns_of(self, data: bytes) -> list[list[Any]] | None:
        """Return the columns read by Arrow, if that is exact."""
        form = self._form
        if form is None:
            return None
        rows = count_rows(data, self._layout)
        delimiter = self._kind.delimiter
        table = csv_table(data, form, rows, columns=self._names, delimiter=delimiter)
        if table is None:
            return None
        return [values_of(table.column(name)) for name in form.names]


def _list_items(table: pa.Table, form: Form, start: int, stop: int) -> list[Any]:
    return to_items(table.slice(start, stop - start), form)


def slice_items(
    items: Iterator[Any], first: int, limit: Limit
) -> Generator[Chunk, None, int]:
    """Yield items in chunks, numbered from `first`; return the next number.

    >>> list(slice_items(iter("abc"), 7, lambda: 2))
    [(['a', 'b'], range(7, 9)), (['c'], range(9, 10))]
    """
    while chunk := list(itertools.islice(items, limit())):
        yield chunk, range(first, first + len(chunk))
        first += len(chunk)
    return first


def gather(found: Numbered, limit: Limit) -> Chunks:
    """Yield single items in chunks.

    Items before a fatal row are yielded first.
    """
    while True:
        items: list[Any] = []
        numbers: list[int] = []
        ended: Position | None = None
        failed: Exception | None = None
        try:
            for _ in range(limit()):
                item, number = next(found)
                items.append(item)
                numbers.append(number)
        except StopIteration as end:
            ended = end.value
        except Exception as error:  # noqa: BLE001 - raised below
            failed = error
        if items:
            yield items, numbers
        if failed is not None:
            raise failed
        if ended is not None:
            return ended
