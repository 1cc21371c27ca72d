"""The functions that start a program on what other systems hold or send."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from anabranch.graph.sources import FromSpark, Kafka, ReadPostgres, RowFormat, Socket
from anabranch.graph.stream import Stream, source

_SPARK_TYPES = {
    "boolean": bool,
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "binary": bytes,
}


def socket(
    host: str,
    port: int,
    type: Any = str,
    *,
    format: RowFormat | None = None,  # noqa: A002
    delimiter: str = ",",
    reconnect: bool = False,
    name: str | None = None,
) -> Stream:
    r"""Read the lines that the server at `host` and `port` sends.

    `format` says how a line is written: "text" (for str), "jsonl" (for other types) or
    "csv" (without a header, columns by position). Where the server hangs up, the
    stream ends; with `reconnect` it goes on when the server is back. What a server
    sent is gone: a job that is run again reads what comes from then on.

    >>> import anabranch as ab, socket
    >>> with socket.create_server(("localhost", 0)) as server:
    ...     out = ab.socket(*server.getsockname(), int).to_list()
    ...     job = ab.start(out, on="sequential")
    ...     connection, _ = server.accept()
    ...     with connection:
    ...         connection.sendall(b"1\n2\n")
    ...     _ = job.wait(timeout=60)
    >>> out.items
    [1, 2]
    """
    kind = Socket(host, port, type, _format(format, type), delimiter, reconnect)
    return source(kind, type, name)


def kafka(
    servers: str,
    topic: str,
    type: Any = str,
    *,
    format: RowFormat | None = None,  # noqa: A002
    delimiter: str = ",",
    start: Literal["earliest", "latest"] = "earliest",
    follow: bool = True,
    patience_s: float = 60.0,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Stream:
    """Read the messages of a Kafka topic, one item each (`pip install anabranch[kafka]`).

    Within a partition the order is that of the offsets. What is taken at a time goes
    partition by partition. Without `follow` the stream ends behind what was there at
    the start. A broker may be away for `patience_s` seconds. `options` are settings of
    librdkafka, such as security settings.

    >>> import anabranch as ab
    >>> ab.kafka("localhost:9092", "trades", int).map(abs).draft.kind.label
    'map'
    """
    kind = Kafka(
        servers,
        topic,
        type,
        _format(format, type),
        delimiter,
        start,
        follow,
        patience_s,
        tuple(sorted((options or {}).items())),
    )
    return source(kind, type, name)


def read_postgres(
    dsn: str,
    query: str,
    type: Any,
    *,
    order_by: str | Sequence[str],
    name: str | None = None,
) -> Stream:
    """Read a table or the rows of a query (`pip install anabranch[postgres]`).

    Columns are matched to attributes by name. A table has no order of its own:
    `order_by` names the columns that give it one; together they must be unique. All
    rows come from one snapshot; what changes later is not seen.

    >>> import anabranch as ab
    >>> orders = ab.read_postgres("dbname=shop", "orders", int, order_by="id")
    >>> orders.draft.kind.order_by
    ('id',)
    """
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    return source(ReadPostgres(dsn, query, type, order), type, name)


def from_spark(
    frame: Any,
    type: Any = None,
    *,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Stream:
    """Read a DataFrame of Spark's, streaming or not.

    Each micro-batch of a streaming DataFrame is an epoch. Order is Spark's: the
    partitions of a batch by number, the rows of a partition as they stand. `trigger`
    is what `DataStreamWriter.trigger` takes; the stream ends where the query does,
    as with `{"availableNow": True}`. Without a `type`, items are named tuples with the
    columns as attributes.

    >>> import anabranch as ab
    >>> out = ab.from_spark(None, int).to_list()
    >>> ab.run(out, on="sequential")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    anabranch.errors.EngineError: from_spark needs the Spark engine; ...
    """
    made = _row_type(frame.schema) if type is None else type
    given = tuple(sorted((trigger or {}).items()))
    return source(FromSpark(frame, given), made, name)


def _format(given: RowFormat | None, kind: Any) -> RowFormat:
    """Return how rows are written where the user did not say."""
    return given or ("text" if kind is str else "jsonl")


def _row_type(schema: Any) -> Any:
    """Return the named tuple for the rows of a Spark schema."""
    fields = []
    for field in schema.fields:
        plain = _SPARK_TYPES.get(field.dataType.typeName())
        kind: Any = Any if plain is None else plain
        if plain is not None and field.nullable:
            kind = plain | None
        fields.append((field.name, kind))
    return typing.NamedTuple("Row", fields)
