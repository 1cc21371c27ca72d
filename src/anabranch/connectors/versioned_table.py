"""Versioned tables: the common part of Delta Lake and Iceberg.

A source reads one version completely, or the rows that each later version added,
version by version. Within a version it reads data files in the order of their paths, so
that the rows of a version have one order. A position names a version and the number of
its rows that have been read; a job that resumes reads the same version again, even if
the table has newer ones.

A sink makes one commit per epoch, of data files that tasks have written. The number of
the epoch is part of the commit, so that a repeated epoch finds its number and adds
nothing.
"""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.connectors.base import Malformed, Sink, Source
from anabranch.connectors.files.arrow_values import list_parts
from anabranch.connectors.files.columns import columns_of
from anabranch.connectors.files.parquet import (
    arrow_types,
    fill_table,
    join_schemas,
    likely_types,
    parse_table,
    table_of,
)
from anabranch.connectors.files.rows import BadRow
from anabranch.errors import AnabranchError, InputError, OutputError
from anabranch.operators.sinks import SinkPart
from anabranch.runtime.failures import name_error

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


class DataFile(NamedTuple):
    """A file with the rows of a part; as a data file it has a schema and statistics.

    `schema` is that of Arrow, in Base64. `nulls`, `least` and `most` are by column.
    """

    path: str
    size: int
    rows: int = 0
    schema: str = ""
    nulls: Mapping[str, int] = MappingProxyType({})
    least: Mapping[str, Any] = MappingProxyType({})
    most: Mapping[str, Any] = MappingProxyType({})


def describe_file(path: str, data: bytes) -> DataFile:
    """Return the description of a file, with the statistics of a data file."""
    if not path.endswith(_READY):
        return DataFile(path, len(data), 0, "", {}, {}, {})
    found = pq.read_metadata(pa.BufferReader(data))
    schema = pq.read_schema(pa.BufferReader(data)).remove_metadata()
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for name, place in _find_flat(found):
        groups = [found.row_group(n).column(place) for n in range(found.num_row_groups)]
        known = [one.statistics for one in groups if one.is_stats_set]
        if len(known) < len(groups):
            continue
        nulls[name] = sum(one.null_count for one in known)
        bounds = [(one.min, one.max) for one in known if one.has_min_max]
        if bounds and all(type(low) in {int, str} for low, _ in bounds):
            least[name] = min(low for low, _ in bounds)
            most[name] = max(high for _, high in bounds)
    text = b64encode(schema.serialize()).decode()
    return DataFile(path, len(data), found.num_rows, text, nulls, least, most)


def _find_flat(found: Any) -> Iterator[tuple[str, int]]:
    """Yield the columns of a Parquet file that have no parts, with their places."""
    for place in range(found.num_columns):
        path = found.schema.column(place).path
        if "." not in path:
            yield path, place


_READY = ".parquet"  # a part that may become a data file; others are Arrow files


@dataclass(eq=False)
class TableSink(Sink):
    """A versioned table that gets one commit per epoch with items.

    With `by`, an item replaces the row with the same values there. Tasks write parts of
    an epoch. If all of them have the columns of the table, they become its data files.
    Otherwise, and with `by`, the rows are read again and added by one process.
    """

    table: str
    by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    in_workers: ClassVar[bool] = True  # type: ignore[misc]
    takes_tables: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        self._job = ""
        self._likely: Mapping[str, Any] = {}

    @abstractmethod
    def find_epoch(self) -> int:
        """Return the last epoch of this job in the table; 0 if there is none."""

    @abstractmethod
    def find_types(self) -> Mapping[str, Any] | None:
        """Return the Arrow types of the table's columns; None if there is no table."""

    @abstractmethod
    def why_not_held(self, held: Any) -> str | None:
        """Return why no table can hold values of an Arrow type, or None."""

    @abstractmethod
    def fit(self, rows: Any) -> Any:
        """Return rows as a data file of the table has them, or None."""

    @abstractmethod
    def store(self, name: str, data: bytes) -> str:
        """Store a file where the data files of the table are; return its path."""

    @abstractmethod
    def load(self, path: str) -> bytes:
        """Return the content of a file."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file."""

    @abstractmethod
    def add_files(self, files: Sequence[DataFile], schema: Any, epoch: int) -> bool:
        """Commit data files with the number of their epoch, as `add` does.

        Return False if the table has to be given the rows instead.
        """

    @abstractmethod
    def add(self, rows: Any, epoch: int) -> None:
        """Commit rows with the number of their epoch; create the table first."""

    def open(self, job: str, type: Any) -> int:
        self._job = job
        self._likely = likely_types(type)
        return self.find_epoch()

    def find_faults(self, type: Any) -> Iterator[tuple[str, str]]:
        names = columns_of(type)
        for name in self.by:
            if names is not None and name not in names:
                yield (
                    f"it must find the attributes of by= in its items; there is no {name!r}",
                    f"choose among {', '.join(names)}",
                )
        for name, held in likely_types(type).items():
            if (why := self._why_not_held(name, held)) is not None:
                yield why

    def write_part(self, part: SinkPart, items: Sequence[Any]) -> list[Any]:
        rows = _make_rows(part, items)
        if rows is None:
            return []
        if any(map(_is_unknown, rows.schema.types)):
            known = {**likely_types(part.type), **(self.find_types() or {})}
            rows = fill_table(rows, known)
        ready = None if self.by or self._lacks_types(rows) else self.fit(rows)
        buffer = pa.BufferOutputStream()
        if ready is not None:
            pq.write_table(ready, buffer)
        else:
            with pa.ipc.new_file(buffer, rows.schema) as writer:
                writer.write_table(rows)
        data = buffer.getvalue().to_pybytes()
        name = f"part-{part.name}{'.arrow' if ready is None else _READY}"
        with self._explain():
            return [*describe_file(self.store(name, data), data)]

    def commit_parts(self, epoch: int, parts: Sequence[list[Any]]) -> None:
        files = [DataFile(*part) for part in parts if part]
        if not files or self.find_epoch() >= epoch:
            return
        if all(file.path.endswith(_READY) for file in files):
            first, *others = {file.schema for file in files}
            schema = pa.ipc.read_schema(pa.py_buffer(b64decode(first)))
            if not others and self.add_files(files, schema, epoch):
                return
        with self._explain():
            rows = _join([self._read(file.path) for file in files])
        rows = self._fill_types(_keep_last(rows, self.by))
        self._refuse_types(dict(zip(rows.column_names, rows.schema.types, strict=True)))
        self.add(rows, epoch)
        for file in files:
            with contextlib.suppress(Exception):  # it counts for nobody
                self.remove(file.path)

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        """Name the table in errors of its store."""
        try:
            yield
        except AnabranchError:
            raise
        except Exception as error:
            msg = (
                f"must be able to write files of {self.table}; {name_error(error)}; check "
                f"the store, and what the user may do"
            )
            raise OutputError(msg) from error

    def _lacks_types(self, rows: Any) -> bool:
        """Tell whether rows lack a type, or have one that no table can hold."""
        return any(
            _is_unknown(one.type) or self._why_not_held(one.name, one.type)
            for one in rows.schema
        )

    def _read(self, path: str) -> Any:
        data = pa.BufferReader(self.load(path))
        if path.endswith(_READY):
            return pq.read_table(data)
        with pa.ipc.open_file(data) as file:
            return file.read_all()

    def _fill_types(self, rows: Any) -> Any:
        """Give a type to what has no values yet: a table needs one from the start."""
        if not any(map(_is_unknown, rows.schema.types)):
            return rows
        there = self.find_types()
        filled = fill_table(rows, {**self._likely, **(there or {})})
        for field in filled.schema:
            if there is None and _is_unknown(field.type):
                msg = (
                    f"a new table must know the type of each column; {field.name!r} has "
                    f"no values yet, and its annotation does not tell (a datetime may "
                    f"have a zone or none); create the table first, or map the attribute"
                )
                raise OutputError(msg)
        return filled

    def _refuse_types(self, types: Mapping[str, Any]) -> None:
        for name, held in types.items():
            if (why := self._why_not_held(name, held)) is not None:
                raise OutputError("; ".join(why))

    def _why_not_held(self, name: str, held: Any) -> tuple[str, str] | None:
        """Return why the table cannot hold a column, and what to do; or None."""
        for part in list_parts(held):
            if (why := self.why_not_held(part)) is not None:
                must = f"column {name!r} must be of a type that the table can hold"
                return f"{must}; {why}", "map it to a number or a text first"
        return None


def _make_rows(part: SinkPart, items: Sequence[Any]) -> Any:
    """Return items as an Arrow table without those that do not fit; None: none fits."""
    names, types = columns_of(part.type), arrow_types(part.type)
    table = getattr(items, "table", None)
    if table is not None and types == dict(
        zip(table.column_names, table.schema.types, strict=True)
    ):
        return table
    try:
        return table_of(items, names, types)
    except OutputError:  # find out which one it is
        fitting = []
        for number, item in enumerate(items):
            try:
                table_of([item], names, types)
                fitting.append(item)
            except OutputError as error:
                part.refuse(number, error)
        if len(fitting) == len(items):  # each fits alone, but not with the others
            raise
    return table_of(fitting, names, types) if fitting else None


def _join(tables: Sequence[Any]) -> Any:
    """Return the rows of tables, with columns of types that fit all of them.

    >>> _join([pa.table({"n": [1]}), pa.table({"n": [0.5]})]).to_pydict()
    {'n': [1.0, 0.5]}
    """
    try:
        joined = pa.concat_tables(tables, promote_options="permissive")
        return joined.combine_chunks()  # Delta Lake writes chunks in any order
    except pa.ArrowException:
        reduce(join_schemas, (one.schema for one in tables))  # names the column
        raise


def _is_unknown(held: Any) -> bool:
    """Tell whether a part of a type had no values to infer it from."""
    return any(map(pa.types.is_null, list_parts(held)))


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
