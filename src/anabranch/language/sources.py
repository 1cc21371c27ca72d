"""The functions that start a program: one per kind of source."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from anabranch.connectors.base import Source, advise_instance, load_connector
from anabranch.errors import ArgumentError
from anabranch.graph.paths import plain_path
from anabranch.graph.site import call_site
from anabranch.language.stream import (
    Stream,
    catalog_options,
    source,
)
from anabranch.language.stream import source as start_stream
from anabranch.operators.sources import (
    FromIterable,
    FromSpark,
    Generate,
    ReadFiles,
    ReadSource,
    RowFormat,
    ValueFormat,
)


def read(source: Source, type: Any = None, *, name: str | None = None) -> Stream:
    """Read a source of your own: an instance of a subclass of `ab.Source`.

    `type` is the type of its items, as for other sources.

    >>> import anabranch as ab
    >>> class Letters(ab.Source):
    ...     def read(self, partition, position):
    ...         for place in range(position or 0, 3):
    ...             yield "abc"[place], place + 1
    >>> ab.testing.outputs(ab.read(Letters(), str))
    ['a', 'b', 'c']
    """
    if not isinstance(source, Source):
        msg = (
            f"{call_site()}: read must be given an instance of a class that inherits "
            f"from ab.Source; got {source!r}; {advise_instance(source, Source)}"
        )
        raise ArgumentError(msg)
    return start_stream(ReadSource(source), type, name)


def from_iterable(
    items: Iterable[Any],
    type: Any = None,
    *,
    name: str | None = None,
) -> Stream:
    """Read a collection that can be read again, such as a list.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.from_iterable([1, 2]))
    [1, 2]
    """
    if isinstance(items, Stream):
        msg = (
            f"{call_site()}: from_iterable must be given a collection; got {items!r}, "
            f"which is a stream already; use it as it is"
        )
        raise ArgumentError(msg)
    return source(FromIterable(items), type, name)


def generate(
    factory: Callable[[], Iterator[Any]],
    type: Any = None,
    *,
    born: Callable[[Any], float] | None = None,
    name: str | None = None,
) -> Stream:
    """Read the iterator that `factory()` returns; it may be endless.

    Each call must return a new iterator over the same items. `born(item)` is the time
    at which an item was created, in seconds since 1970: latency is measured from then,
    by default from when the item was read. It must not change anything.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.generate(lambda: iter(range(3))))
    [0, 1, 2]
    """
    return source(Generate(factory, born), type, name)


def read_csv(
    path: str | os.PathLike[str],
    type: Any,
    *,
    header: bool = True,
    delimiter: str = ",",
    follow: bool = False,
    name: str | None = None,
) -> Stream:
    r"""Read comma-separated values; columns are matched to attributes by name.

    Without a `header` columns are matched by position. `path` is a file, a directory or
    a pattern, plain or as a `file:` URL; several files are read in the order of their
    names. With `follow` a directory or pattern is watched until the job is stopped: a
    new file is read once it has not changed for a second. Files whose names begin with
    `.` or `_` are ignored until they are renamed.

    >>> import anabranch as ab, pathlib, tempfile
    >>> from typing import NamedTuple
    >>> class Trade(NamedTuple):
    ...     symbol: str
    ...     volume: int
    >>> path = tempfile.mkdtemp() + "/trades.csv"
    >>> _ = pathlib.Path(path).write_text("symbol,volume\nA,1\n")
    >>> ab.testing.outputs(ab.read_csv(path, Trade))
    [Trade(symbol='A', volume=1)]
    """
    kind = ReadFiles(plain_path(path), "csv", type, header, delimiter, follow)
    return source(kind, type, name)


def read_jsonl(
    path: str | os.PathLike[str],
    type: Any,
    *,
    follow: bool = False,
    name: str | None = None,
) -> Stream:
    r"""Read JSON lines, one object (or, for a scalar type, one value) per line.

    With `follow` a directory is watched, as by `ab.read_csv`.

    >>> import anabranch as ab, pathlib, tempfile
    >>> path = tempfile.mkdtemp() + "/numbers.jsonl"
    >>> _ = pathlib.Path(path).write_text("1\n2\n")
    >>> ab.testing.outputs(ab.read_jsonl(path, int))
    [1, 2]
    """
    return source(ReadFiles(plain_path(path), "jsonl", type, follow=follow), type, name)


def read_text(
    path: str | os.PathLike[str], *, follow: bool = False, name: str | None = None
) -> Stream:
    r"""Read lines of text, without their line ends.

    With `follow` a directory is watched, as by `ab.read_csv`.

    >>> import anabranch as ab, pathlib, tempfile
    >>> path = tempfile.mkdtemp() + "/words.txt"
    >>> _ = pathlib.Path(path).write_text("one\ntwo\n")
    >>> ab.testing.outputs(ab.read_text(path))
    ['one', 'two']
    """
    return source(ReadFiles(plain_path(path), "text", str, follow=follow), str, name)


def read_parquet(
    path: str | os.PathLike[str],
    type: Any,
    *,
    follow: bool = False,
    name: str | None = None,
) -> Stream:
    """Read Parquet; columns are matched to attributes by name.

    With `follow` a directory is watched, as by `ab.read_csv`.

    >>> import anabranch as ab, pyarrow as pa, pyarrow.parquet, tempfile
    >>> path = tempfile.mkdtemp() + "/numbers.parquet"
    >>> pa.parquet.write_table(pa.table({"value": [1, 2]}), path)
    >>> ab.testing.outputs(ab.read_parquet(path, int))
    [1, 2]
    """
    kind = ReadFiles(plain_path(path), "parquet", type, follow=follow)
    return source(kind, type, name)


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

    `format` is the format of a line: "text" (for str), "jsonl" (for other types) or
    "csv" (without a header, columns by position). The stream ends when the server
    closes the connection; with `reconnect` it continues when the server is back. Lines
    already sent are gone: a job that is run again reads those that arrive from then on.

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
    made = load_connector("socket").SocketSource(
        host, port, type, _format(format, type), delimiter, reconnect
    )
    return source(ReadSource(made), type, name)


def kafka(
    servers: str,
    topic: str | Sequence[str],
    type: Any = str,
    *,
    format: ValueFormat | None = None,  # noqa: A002
    delimiter: str = ",",
    schema: str | Mapping[str, Any] | None = None,
    registry: str | None = None,
    start: Literal["earliest", "latest"] | datetime = "earliest",
    follow: bool = True,
    patience_s: float = 60.0,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Stream:
    """Read the messages of Kafka topics, one item each (`pip install anabranch[kafka]`).

    `topic` is a name, a list of names, or a pattern of names that begins with `^`. A
    new job begins at `start`: with the first messages, after the last ones, or with the
    first at a time or later. Items are the values of messages; with the type
    `ab.KafkaMessage` they are the messages, with key, headers and time.

    With `format="avro"` (`pip install anabranch[avro]`) values are Avro: with the URL
    of a schema `registry`, in the schema that each names; else in `schema`, or in the
    one derived from the type.

    Within a partition the order is that of the offsets. Messages read together go
    partition by partition. Without `follow` the stream ends after the messages present
    at the start. A broker may be unavailable for `patience_s` seconds. `options` are
    settings of librdkafka, such as security settings.

    >>> import anabranch as ab
    >>> ab.kafka("localhost:9092", "trades", int).map(abs).draft.kind.label
    'map'
    """
    made = load_connector("kafka").KafkaSource(
        servers,
        *(topic, type, format, delimiter, start, follow, patience_s),
        *(options, schema, registry),
    )
    return source(ReadSource(made), type, name)


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
    `order_by` names the columns that define it; together they must be unique. All rows
    come from one snapshot; later changes are not seen.

    >>> import anabranch as ab
    >>> orders = ab.read_postgres("dbname=shop", "orders", int, order_by="id")
    >>> orders.draft.kind.source.order_by
    ('id',)
    """
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    made = load_connector("postgres").PostgresSource(dsn, query, type, order)
    return source(ReadSource(made), type, name)


def read_delta(
    path: str | os.PathLike[str],
    type: Any,
    *,
    version: int | None = None,
    since: int | None = None,
    follow: bool = False,
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Stream:
    """Read a Delta Lake table (`pip install anabranch[delta]`).

    By default, all rows of the newest version; `version` names another one. `since=3`
    reads the rows added by the versions after 3. `follow=True` continues with those of
    later versions, until the job is stopped. If only added rows are read, a version
    that changes or removes rows is refused.

    Versions come in order; within one, data files in the order of their paths. Columns
    are matched to attributes by name. `options` are the storage options of `deltalake`.

    >>> import anabranch as ab
    >>> ab.read_delta("s3://lake/trades", int, since=3).draft.kind.source.since
    3
    """
    _refuse_both(version, since)
    given = tuple(sorted((options or {}).items()))
    made = load_connector("delta").DeltaSource(
        os.fspath(path), type, version, since, follow, given
    )
    return source(ReadSource(made), type, name)


def read_iceberg(
    table: str,
    type: Any,
    *,
    catalog: str | Mapping[str, str] | None = None,
    snapshot: int | None = None,
    since: int | None = None,
    follow: bool = False,
    name: str | None = None,
) -> Stream:
    """Read an Iceberg table (`pip install anabranch[iceberg]`).

    By default, all rows of the current snapshot; `snapshot` names another one by its
    id. `since` reads the rows appended by the snapshots after that one, and
    `follow=True` continues with later ones, until the job is stopped. If only appended
    rows are read, a snapshot that changes or removes rows is refused.

    `catalog` is the name of one in PyIceberg's configuration, or its properties, with
    its name as "name".

    >>> import anabranch as ab
    >>> ab.read_iceberg("shop.orders", int, catalog="prod").draft.kind.source.options
    (('name', 'prod'),)
    """
    _refuse_both(snapshot, since)
    made = load_connector("iceberg").IcebergSource(
        table, type, snapshot, since, follow, catalog_options(catalog)
    )
    return source(ReadSource(made), type, name)


def _refuse_both(version: int | None, since: int | None) -> None:
    if version is not None and since is not None:
        msg = (
            f"{call_site()}: a table is read whole in one version, or what was added "
            f"since one; got both {version} and since={since}; leave one out"
        )
        raise ArgumentError(msg)


def from_spark(
    frame: Any,
    type: Any = None,
    *,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Stream:
    """Read a Spark DataFrame, streaming or not.

    Each micro-batch of a streaming DataFrame is an epoch. Order is Spark's: the
    partitions of a batch by number, the rows of a partition as they are. `trigger` is
    the argument of `DataStreamWriter.trigger`; the stream ends when the query does, as
    with `{"availableNow": True}`. Without a `type`, items are named tuples with the
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
    """Return the default row format."""
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
