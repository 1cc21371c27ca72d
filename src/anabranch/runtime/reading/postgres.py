"""Read a table, or the rows of a query, through one cursor: all of one snapshot.

A value must be of the attribute's type as psycopg gives it: int, float (any number),
bool, str, bytes; other attributes take what it gives. A null is bad unless the
attribute is `T | None`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from anabranch.errors import InputError
from anabranch.graph.attributes import there_is
from anabranch.graph.graph import Op
from anabranch.graph.sources import ReadPostgres
from anabranch.graph.types import optional_of, type_name
from anabranch.runtime.extras import required
from anabranch.runtime.failures import OnError
from anabranch.runtime.reading.reader import Reader, refusal_at
from anabranch.runtime.reading.rows import BadRow, Position, Unreadable
from anabranch.runtime.reading.values import attributes_of, maker

_FETCHED_ROWS = 10_000
_TABLE = re.compile(r'(?:[\w$]+|"[^"]+")(?:\.(?:[\w$]+|"[^"]+"))?')


class PostgresReader(Reader):
    """The rows of a table or query, in order."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadPostgres)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._on_error = on_error
        self._psycopg = required("psycopg", "postgres")

    def numbered(self) -> Iterator[tuple[Any, int]]:
        yield from self.numbered_from(1)

    def numbered_from(self, first: int) -> Iterator[tuple[Any, int]]:
        """Read from the row with number `first` on."""
        attributes = attributes_of(self._kind.type)
        take = [_taker(name, kind) for name, kind in attributes.items()]
        make = maker(self._kind.type)
        try:
            for number, values in enumerate(
                self._values(list(attributes), first), first
            ):
                try:
                    pairs = zip(take, values, strict=True)
                    item = make(tuple(one(value) for one, value in pairs))
                except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                    self._refuse(BadRow(Position(number, number), values, error))
                else:
                    yield item, number
        except self._psycopg.Error as error:
            msg = (
                f"source {self._op.name!r} ({self._op.site}) must be able to read "
                f"{self._kind.query!r}; {str(error).strip()}; check the connection "
                f"string, the query and the columns of order_by"
            )
            raise InputError(msg) from error

    def where(self, number: int) -> str:
        return f"row {number} of {self._kind.query!r}"

    def _values(self, names: list[str], first: int) -> Iterator[tuple[Any, ...]]:
        with (
            self._psycopg.connect(self._kind.dsn) as connection,
            connection.cursor(f"anabranch_{self._op.name}") as cursor,
        ):
            cursor.itersize = _FETCHED_ROWS
            cursor.execute(self._statement(first))
            columns = [column.name for column in cursor.description]
            places = [_place(self._op, name, columns) for name in names]
            for row in cursor:
                yield tuple(row[place] for place in places)

    def _statement(self, first: int) -> Any:
        sql = self._psycopg.sql
        query = self._kind.query
        if _TABLE.fullmatch(query.strip()):
            query = f"TABLE {query}"
        order = sql.SQL(", ").join(map(sql.Identifier, self._kind.order_by))
        text = "SELECT * FROM ({}) AS anabranch_rows ORDER BY {} OFFSET {}"
        return sql.SQL(text).format(sql.SQL(query), order, sql.Literal(first - 1))

    def _refuse(self, bad: BadRow) -> None:
        where = self.where(bad.at.row)
        self._on_error(refusal_at(self._op, where, bad, "correct the table"))


def _place(op: Op, name: str, columns: list[str]) -> int:
    if name in columns:
        return columns.index(name)
    msg = (
        f"source {op.name!r} ({op.site}): there must be a column {name!r}; there is "
        f"none; {there_is(name, columns, 'column')}"
    )
    raise InputError(msg)


def _taker(name: str, annotation: Any) -> Callable[[Any], Any]:
    """Return what makes an attribute of a value from the server, or refuses it."""
    inner = optional_of(annotation)
    wanted = annotation if inner is None else inner
    accepted = _ACCEPTED.get(wanted)

    def take(value: Any) -> Any:
        if value is None and (inner is not None or annotation is Any):
            return None
        if accepted is None and value is not None:
            return value
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
