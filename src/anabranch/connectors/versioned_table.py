"""Versioned tables: the common part of Delta Lake and Iceberg.

A source reads one version completely, or the rows that each later version added,
version by version. Within a version it reads data files in the order of their paths, so
that the rows of a version have one order. A position names a version and the number of
its rows that have been read; a job that resumes reads the same version again, even if
the table has newer ones.

A sink makes one commit per epoch. The number of the epoch is part of the commit, so
that a repeated epoch finds its number and adds nothing.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.base import Malformed, Sink, Source
from anabranch.connectors.files.columns import RowValues, columns_of
from anabranch.connectors.files.parquet import arrow_types, parse_table, table_of
from anabranch.connectors.files.rows import BadRow
from anabranch.errors import InputError, OutputError

_WHOLE, _ADDED = "whole", "added"  # what is read of the version in a position
_LOOK_S = 1.0  # how often a live source checks for new versions


@dataclass(eq=False)
class TableSource(Source):
    """A versioned table, in the order of its versions.

    It gives all rows of one version, or those added since one; with `follow` also those
    that later versions add. `options` are those of the store or the catalog.

    It has one partition. A position is `[part, version, rows read]`, where `part` tells
    whether the whole version is read, or only the rows it added.
    """

    table: str
    type: Any
    version: int | None = None
    since: int | None = None
    follow: bool = False
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        self.live = self.follow
        self._behind: list[Any] | None = None  # the position after a whole version
        self._looked_s = float("-inf")

    @abstractmethod
    def find_newest(self) -> int | None:
        """Return the newest version; None if the table has none yet."""

    @abstractmethod
    def find_later(self, version: int | None) -> Iterable[int]:
        """Return the versions after `version`, oldest first."""

    @abstractmethod
    def read_whole(self, version: int) -> Iterator[Any]:
        """Yield the rows of a version, as Arrow tables."""

    @abstractmethod
    def read_added(self, version: int) -> Iterator[Any]:
        """Yield the rows that a version added, as Arrow tables; refuse other changes."""

    def read(self, partition: str, position: Any) -> Iterator[tuple[Any, Any]]:
        if self.live and time.monotonic() < self._looked_s + _LOOK_S:
            return
        part, version, skipped = position or self._find_start()
        begun = part == _WHOLE or skipped > 0
        ended = position is not None and position == self._behind
        if version is not None and begun and not ended:
            yield from self._parse(part, version, skipped)
        if part == _ADDED or self.live:
            for later in self.find_later(version):
                yield from self._parse(_ADDED, later, 0)
        self._looked_s = time.monotonic()

    def _find_start(self) -> tuple[str, int | None, int]:
        if self.since is not None:
            return _ADDED, self.since, 0
        if self.version is not None:
            return _WHOLE, self.version, 0
        return _WHOLE, self.find_newest(), 0

    def _parse(
        self, part: str, version: int, skipped: int
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Yield the items of a version from a row on, with the positions after them."""
        place = f"version {version} of {self.table}"
        read = self.read_whole if part == _WHOLE else self.read_added
        first = 1
        self._behind = None
        for table in read(version):
            count = table.num_rows
            if first + count > skipped + 1:
                begin = max(skipped + 1 - first, 0)
                rows = table.slice(begin)
                for item, row in self._parse_rows(rows, place, first + begin):
                    yield item, [part, version, row]
            first += count
        self._behind = [part, version, first - 1]

    def _parse_rows(
        self, table: Any, place: str, first_row: int
    ) -> Iterator[tuple[Any, int]]:
        bad: list[BadRow] = []
        for item, row in parse_table(table, place, self.type, first_row, bad.append):
            yield from _describe(bad, place)
            bad.clear()
            yield item, row
        yield from _describe(bad, place)


def _describe(bad: Sequence[BadRow], place: str) -> Iterator[tuple[Malformed, int]]:
    for one in bad:
        where = f"row {one.at.row} of {place}"
        yield Malformed(one.raw, one.error, where, "correct the table"), one.at.row


def refuse_change(table: str, version: int, operation: str) -> InputError:
    """Return the error about a version that did more than add rows."""
    return InputError(
        f"must be able to read what each version added to {table}; version {version} "
        f"({operation}) changed or removed rows; read the table whole, or begin with "
        f"since={version}"
    )


@dataclass(eq=False)
class TableSink(Sink):
    """A versioned table that gets one commit per epoch with items.

    With `by`, an item replaces the row with the same values there.
    """

    table: str
    by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        self._job = ""
        self._columns = RowValues(None)
        self._types: Mapping[str, Any] = {}
        self._pending: Any = None  # the rows of the epoch, as an Arrow table

    @abstractmethod
    def find_epoch(self) -> int:
        """Return the last epoch of this job in the table; 0 if there is none."""

    @abstractmethod
    def add(self, rows: Any, epoch: int) -> None:
        """Commit rows with the number of their epoch; create the table first."""

    def open(self, job: str, type: Any) -> int:
        self._job = job
        names = columns_of(type)
        self._columns = RowValues(names)
        self._types = arrow_types(type)
        for name in self.by:
            if names is not None and name not in names:
                msg = (
                    f"must find the attributes of by= in its items; there is no "
                    f"{name!r}; there are {', '.join(names)}"
                )
                raise OutputError(msg)
        return self.find_epoch()

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        try:
            self._pending = self._make_table(items)
        except OutputError:  # find out which one it is
            refused, fitting = self._split(items)
            self._pending = self._make_table(fitting) if fitting else None
            return refused
        return []

    def commit(self, epoch: int) -> None:
        if self._pending is not None and self.find_epoch() < epoch:
            rows = _keep_last(self._pending, self.by)
            self.add(rows, epoch)
        self._pending = None

    def abort(self, epoch: int) -> None:
        self._pending = None

    def _make_table(self, items: Sequence[Any]) -> Any:
        table = table_of(items, self._columns.names, self._types)
        if self._columns.names is None:
            self._columns = RowValues(tuple(table.column_names))
        return table

    def _split(self, items: Sequence[Any]) -> tuple[list[Malformed], list[Any]]:
        refused, fitting = [], []
        for item in items:
            try:
                self._make_table([item])
            except OutputError as error:
                refused.append(Malformed(item, error))
            else:
                fitting.append(item)
        if not refused:  # each fits alone, but not together with the others
            self._make_table(items)
        return refused, fitting


def _keep_last(rows: Any, by: tuple[str, ...]) -> Any:
    """Return the last of the rows that have the same values there, in order.

    >>> import pyarrow as pa
    >>> table = pa.table({"k": [1, 2, 1], "n": [10, 20, 30]})
    >>> _keep_last(table, ("k",)).to_pydict()
    {'k': [2, 1], 'n': [20, 30]}
    """
    if not by:
        return rows
    keys = zip(*(rows.column(name).to_pylist() for name in by), strict=True)
    last = {key: place for place, key in enumerate(keys)}
    return rows.take(sorted(last.values()))
