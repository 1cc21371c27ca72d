"""Postgres: read a query in one snapshot; write the rows of an epoch in one
transaction.

Reading: all rows come through one cursor, and so from one snapshot. A value must be of
the attribute's type as psycopg gives it: int, float (any number), bool, str, bytes;
other attributes take what it gives. A null is bad unless the attribute is `T | None`.

Writing: the number of an epoch is written in the transaction of its rows, to the table
`anabranch_epochs`, which is created if missing. A repeated epoch finds its number there
and adds nothing. For the same reason a lost connection is harmless: the epoch is
written again, and if the server had committed it after all, its number is there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

from anabranch.connectors.base import Malformed, Sink, Source, require
from anabranch.connectors.files.columns import RowValues, columns_of
from anabranch.connectors.files.nested import Misfit, converter
from anabranch.connectors.files.rows import Unreadable
from anabranch.connectors.files.values import attributes_of, maker
from anabranch.errors import InputError, OutputError
from anabranch.graph.shapes import may_be_none, shape_of
from anabranch.graph.types import fields_of, optional_of, there_is, type_name

_FETCHED_ROWS = 10_000
_TABLE = re.compile(r'(?:[\w$]+|"[^"]+")(?:\.(?:[\w$]+|"[^"]+"))?')


@dataclass(eq=False)
class PostgresSource(Source):
    """The rows of a table or query, in order; a position is the number of rows read.

    It has one partition, so that one process reads all rows through one cursor.
    """

    dsn: str
    query: str
    type: Any
    order_by: tuple[str, ...]

    label: ClassVar[str] = "read_postgres"

    def read(self, partition: str, position: int | None) -> Iterator[tuple[Any, int]]:
        psycopg = require("psycopg", "postgres")
        attributes = attributes_of(self.type)
        take = [_taker(name, kind) for name, kind in attributes.items()]
        make = maker(self.type)
        read = position or 0
        try:
            for number, values in enumerate(
                self._values(psycopg, list(attributes), read), read + 1
            ):
                try:
                    pairs = zip(take, values, strict=True)
                    item = make(tuple(one(value) for one, value in pairs))
                except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                    where = f"row {number} of {self.query!r}"
                    item = Malformed(values, error, where, "correct the table")
                yield item, number
        except psycopg.Error as error:
            msg = (
                f"must be able to read {self.query!r}; {str(error).strip()}; "
                f"check the connection string, the query and the columns of order_by"
            )
            raise InputError(msg) from error

    def _values(
        self, psycopg: Any, names: list[str], skipped: int
    ) -> Iterator[tuple[Any, ...]]:
        with (
            psycopg.connect(self.dsn) as connection,
            connection.cursor("anabranch") as cursor,
        ):
            cursor.itersize = _FETCHED_ROWS
            cursor.execute(self._make_statement(psycopg.sql, skipped))
            columns = [column.name for column in cursor.description]
            places = [_place(name, columns) for name in names]
            for row in cursor:
                yield tuple(row[place] for place in places)

    def _make_statement(self, sql: Any, skipped: int) -> Any:
        query = self.query
        if _TABLE.fullmatch(query.strip()):
            query = f"TABLE {query}"
        order = sql.SQL(", ").join(map(sql.Identifier, self.order_by))
        text = "SELECT * FROM ({}) AS anabranch_rows ORDER BY {} OFFSET {}"
        return sql.SQL(text).format(sql.SQL(query), order, sql.Literal(skipped))


def _place(name: str, columns: list[str]) -> int:
    if name in columns:
        return columns.index(name)
    msg = (
        f"must find a column {name!r}; there is none; "
        f"{there_is(name, columns, 'column')}"
    )
    raise InputError(msg)


def _taker(name: str, annotation: Any) -> Callable[[Any], Any]:
    """Return the converter from a server value to an attribute."""
    inner = optional_of(annotation)
    wanted = annotation if inner is None else inner
    accepted = _ACCEPTED.get(wanted)
    convert = converter(shape_of(annotation))

    def take(value: Any) -> Any:
        if value is None and may_be_none(shape_of(annotation)):
            return None
        if accepted is None and value is not None:
            try:
                return convert(value)
            except Misfit as misfit:
                raise misfit.refusal(name) from None
        if accepted is None or type(value) not in accepted:
            msg = f"column {name!r} must be {type_name(annotation)}; got {value!r}"
            raise Unreadable(msg)
        return float(value) if wanted is float else value

    return take


_ACCEPTED: dict[Any, frozenset[type]] = {
    int: frozenset({int}),
    float: frozenset({int, float, Decimal}),
    bool: frozenset({bool}),
    str: frozenset({str}),
    bytes: frozenset({bytes}),
}


_EPOCHS = """\
CREATE TABLE IF NOT EXISTS anabranch_epochs (
    job text, sink text, epoch bigint NOT NULL, PRIMARY KEY (job, sink))"""
_CLAIM = """\
INSERT INTO anabranch_epochs AS known (job, sink, epoch) VALUES (%s, %s, %s)
ON CONFLICT (job, sink) DO UPDATE SET epoch = excluded.epoch
WHERE known.epoch < excluded.epoch"""
_WAIT = "SELECT set_config('lock_timeout', %s, true)"  # in this transaction
_LAST = "SELECT epoch FROM anabranch_epochs WHERE job = %s AND sink = %s"
_FIND = """\
SELECT a.attname FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped"""
_RETRY_S = 0.5
_SQL_TYPES = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    str: "text",
    bytes: "bytea",
}

T = TypeVar("T")
Row = tuple[Any, Sequence[Any]]  # an item and its values


@dataclass(eq=False)
class PostgresSink(Sink):
    """A table that grows epoch by epoch."""

    dsn: str
    table: str
    patience_s: float = 60.0

    label: ClassVar[str] = "write_postgres"
    in_workers = True

    def __post_init__(self) -> None:
        self._psycopg: Any = None
        self._job, self._sink = "", ""
        self._type: Any = None
        self._columns = RowValues(None)
        self._pending: list[Row] = []  # of the current epoch
        self._connection: Any = None

    def open(self, job: str, type: Any) -> int:
        self._psycopg = require("psycopg", "postgres")
        self._job, _, self._sink = job.partition("-")
        self._type = type
        self._columns = RowValues(columns_of(type))
        try:
            return self._retry(self._check)
        except BaseException:
            self.close()
            raise

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        self._pending = []
        refused = []
        for item in items:
            try:
                self._pending.append((item, self._columns.values(item)))
            except OutputError as error:
                refused.append(Malformed(item, error))
        return refused + self._retry(self._copy_all)

    def prepare(self, epoch: int) -> None:
        self._retry(lambda: self._claim(epoch))

    def commit(self, epoch: int) -> None:
        self._retry(lambda: self._commit(epoch))

    def abort(self, epoch: int) -> None:
        if self._connection is not None:
            self._connection.rollback()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _copy_all(self) -> list[Malformed]:
        """Insert the pending rows, in a transaction; return those that are refused."""
        connection = self._connect()
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")  # a transaction below becomes a savepoint
            try:
                with connection.transaction():
                    self._copy(cursor, [values for _, values in self._pending])
            except self._psycopg.OperationalError:
                raise
            except self._psycopg.Error:  # find out which one it is
                return self._copy_one_by_one(connection, cursor)
        return []

    def _copy_one_by_one(self, connection: Any, cursor: Any) -> list[Malformed]:
        refused, fitting = [], []
        for item, values in self._pending:
            try:
                with connection.transaction():
                    self._copy(cursor, [values])
            except self._psycopg.OperationalError:
                raise
            except self._psycopg.Error as error:
                msg = f"{self.table} does not take {item!r}: {str(error).strip()}"
                refused.append(Malformed(item, OutputError(msg)))
            else:
                fitting.append((item, values))
        self._pending = fitting
        return refused

    def _copy(self, cursor: Any, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        sql = self._psycopg.sql
        names = map(sql.Identifier, self._columns.names or ())
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
            self._table, sql.SQL(", ").join(names)
        )
        with cursor.copy(statement) as copy:
            for values in rows:
                copy.write_row(values)

    def _claim(self, epoch: int) -> None:
        """Record the epoch's number with its rows; discard them if it is already
        there.

        A process that is writing the same epoch has to commit, or end, first. One that
        cannot be reached any more may keep us waiting; then patience runs out.
        """
        if self._connection is None:  # it was lost, with the transaction
            self._copy_all()
        connection = self._connect()
        connection.execute(_WAIT, (f"{max(1, round(self.patience_s * 1000))}ms",))
        claim = connection.execute(_CLAIM, (self._job, self._sink, epoch))
        if claim.rowcount == 0:
            connection.rollback()

    def _commit(self, epoch: int) -> None:
        if self._connection is None:  # unknown whether the server has committed it
            self._claim(epoch)
        self._connection.commit()

    @property
    def _table(self) -> Any:
        sql = self._psycopg.sql
        return sql.Identifier(*self.table.replace('"', "").split("."))

    def _check(self) -> int:
        """Make sure that both tables exist; return the last epoch."""
        connection = self._connect()
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(7014242)")  # one at a time
            cursor.execute(_EPOCHS)
            cursor.execute(_FIND, (self._table.as_string(connection),))
            found = {name for (name,) in cursor}
            cursor.execute(_LAST, (self._job, self._sink))
            (last,) = cursor.fetchone() or (0,)
        missing = [name for name in self._columns.names or () if name not in found]
        if not found or missing:
            lacks = f"it has no column {missing[0]!r}" if found else "there is none"
            msg = (
                f"must find a table {self.table} with a column for each "
                f"attribute; {lacks}; make it with {self._definition()}"
            )
            raise OutputError(msg)
        return int(last)

    def _definition(self) -> str:
        """Return the statement that creates a table for the items."""
        fields = fields_of(self._type) or {"value": self._type}
        columns = [
            f"{name} {_SQL_TYPES.get(optional_of(kind) or kind, 'text')}"
            + ("" if optional_of(kind) else " NOT NULL")
            for name, kind in fields.items()
        ]
        return f"CREATE TABLE {self.table} ({', '.join(columns)})"

    def _connect(self) -> Any:
        if self._connection is None:
            self._connection = self._psycopg.connect(self.dsn, autocommit=True)
        return self._connection

    def _retry(self, act: Callable[[], T]) -> T:
        """Do something; while the server is unavailable, retry until patience runs
        out.
        """
        until_s = time.monotonic() + self.patience_s
        while True:
            try:
                return act()
            except self._psycopg.OperationalError as error:
                self.close()
                if time.monotonic() + _RETRY_S < until_s:
                    time.sleep(_RETRY_S)
                    continue
                raise self._describe_failure(error) from error
            except self._psycopg.Error as error:
                raise self._describe_failure(error) from error

    def _describe_failure(self, error: Exception) -> OutputError:
        return OutputError(
            f"must be able to write to {self.table}; {str(error).strip()}; "
            f"check the connection string and what the user may do"
        )
