"""Add items to a table: the rows of an epoch and its number in one transaction.

The number stands in the table `anabranch_epochs`, which is made where it is missing.
An epoch that comes again finds its number there and adds nothing. For the same reason
a lost connection does no harm: the epoch is written again, and if the server had taken
it after all, it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import WritePostgres
from anabranch.graph.types import fields_of, optional_of
from anabranch.runtime.extras import required
from anabranch.runtime.writing.columns import Rows, columns_of
from anabranch.runtime.writing.external import External, Refuse

_EPOCHS = """\
CREATE TABLE IF NOT EXISTS anabranch_epochs (
    job text, sink text, epoch bigint NOT NULL, PRIMARY KEY (job, sink))"""
_CLAIM = """\
INSERT INTO anabranch_epochs AS known (job, sink, epoch) VALUES (%s, %s, %s)
ON CONFLICT (job, sink) DO UPDATE SET epoch = excluded.epoch
WHERE known.epoch < excluded.epoch"""
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


class PostgresSink(External):
    """A table that grows by epochs; `job` tells one job's epochs from another's."""

    def __init__(self, op: Op, item_type: Any, job: str) -> None:
        assert isinstance(op.kind, WritePostgres)  # noqa: S101
        self._psycopg = required("psycopg", "postgres")
        self._op = op
        self._kind = op.kind
        self._job = job
        self._type = item_type
        self._rows = Rows(columns_of(item_type))
        self._connection: Any = None
        try:
            self._retried(self._check)
        except BaseException:
            self.close()
            raise

    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        rows = []
        for item in items:
            try:
                rows.append((item, self._rows.values(item)))
            except OutputError as error:
                refuse(item, error)
        if not rows:
            return 0
        return self._retried(lambda: self._written(epoch, rows, refuse))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _written(
        self, epoch: int, rows: Sequence[tuple[Any, Sequence[Any]]], refuse: Refuse
    ) -> int:
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(_CLAIM, (self._job, self._op.name, epoch))
            if cursor.rowcount == 0:
                return len(rows)  # it has been written before
            try:
                with connection.transaction():
                    self._copy(cursor, [values for _, values in rows])
            except self._psycopg.OperationalError:
                raise
            except self._psycopg.Error:  # find out which one it is
                return self._one_by_one(connection, cursor, rows, refuse)
            return len(rows)

    def _copy(self, cursor: Any, rows: Sequence[Sequence[Any]]) -> None:
        sql = self._psycopg.sql
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
            self._table, sql.SQL(", ").join(map(sql.Identifier, self._rows.names or ()))
        )
        with cursor.copy(statement) as copy:
            for values in rows:
                copy.write_row(values)

    def _one_by_one(
        self,
        connection: Any,
        cursor: Any,
        rows: Sequence[tuple[Any, Sequence[Any]]],
        refuse: Refuse,
    ) -> int:
        taken = 0
        for item, values in rows:
            try:
                with connection.transaction():
                    self._copy(cursor, [values])
            except self._psycopg.OperationalError:
                raise
            except self._psycopg.Error as error:
                msg = f"{self._kind.table} does not take {item!r}: {str(error).strip()}"
                refuse(item, OutputError(msg))
            else:
                taken += 1
        return taken

    @property
    def _table(self) -> Any:
        sql = self._psycopg.sql
        return sql.Identifier(*self._kind.table.replace('"', "").split("."))

    def _check(self) -> None:
        """See to it that there is a table for the items, and one for the epochs."""
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(7014242)")  # one at a time
            cursor.execute(_EPOCHS)
            cursor.execute(_FIND, (self._table.as_string(connection),))
            found = {name for (name,) in cursor}
        wanted = self._rows.names
        missing = [name for name in wanted or () if name not in found]
        if not found or missing:
            lacks = f"it has no column {missing[0]!r}" if found else "there is none"
            msg = (
                f"sink {self._op.name!r} ({self._op.site}) must find a table "
                f"{self._kind.table} with a column for each attribute; {lacks}; "
                f"make it with {self._definition()}"
            )
            raise OutputError(msg)

    def _definition(self) -> str:
        """Return the statement that makes a table for the items."""
        fields = fields_of(self._type) or {"value": self._type}
        columns = [
            f"{name} {_SQL_TYPES.get(optional_of(kind) or kind, 'text')}"
            + ("" if optional_of(kind) else " NOT NULL")
            for name, kind in fields.items()
        ]
        return f"CREATE TABLE {self._kind.table} ({', '.join(columns)})"

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._psycopg.connect(self._kind.dsn, autocommit=True)
        return self._connection

    def _retried(self, act: Callable[[], T]) -> T:
        """Do something; where the server is away, again, while there is patience."""
        until_s = time.monotonic() + self._kind.patience_s
        while True:
            try:
                return act()
            except self._psycopg.OperationalError as error:
                self.close()
                if time.monotonic() + _RETRY_S < until_s:
                    time.sleep(_RETRY_S)
                    continue
                raise self._failed(error) from error
            except self._psycopg.Error as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> OutputError:
        return OutputError(
            f"sink {self._op.name!r} ({self._op.site}) must be able to write to "
            f"{self._kind.table}; {str(error).strip()}; check the connection string "
            f"and what the user may do"
        )
