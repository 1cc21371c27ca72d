"""What a stream may end in: the methods of `Stream` that give a `Sink`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.graph.drafts import Draft, Sink
from anabranch.graph.sinks import (
    ForEach,
    SinkKind,
    ToKafka,
    ToList,
    ToSocket,
    ToSpark,
    WriteFiles,
    WritePostgres,
)
from anabranch.graph.site import call_site
from anabranch.graph.sources import RowFormat


class Endings:
    """The sinks that can be put on a stream."""

    draft: Draft
    port: int
    key: tuple[str, ...]
    type: Any

    def _sink(self, kind: SinkKind, name: str | None) -> Sink:
        origin = ((self.draft, self.port),)
        return Sink(Draft(kind, origin, self.key, None, call_site(), name))

    def to_list(self, *, name: str | None = None) -> Sink:
        """Collect the items; they are in `.items` after the run.

        >>> import anabranch as ab
        >>> out = ab.from_iterable("ab").to_list()
        >>> _ = ab.run(out, on="sequential")
        >>> out.items
        ['a', 'b']
        """
        return self._sink(ToList(), name)

    def for_each(self, f: Callable[[Any], Any], *, name: str | None = None) -> Sink:
        """Call `f(item)` for each item, in order, in this process.

        >>> import anabranch as ab
        >>> _ = ab.run(ab.from_iterable("ab").for_each(print), on="sequential")
        a
        b
        """
        return self._sink(ForEach(f), name)

    def write_csv(self, path: str, *, name: str | None = None) -> Sink:
        r"""Write comma-separated values: a directory of parts, or one `.csv` file.

        >>> import anabranch as ab, pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.csv"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_csv(path), on="sequential")
        >>> pathlib.Path(path).read_text()
        'value\n1\n2\n'
        """
        return self._sink(WriteFiles(str(path), "csv"), name)

    def write_jsonl(self, path: str, *, name: str | None = None) -> Sink:
        r"""Write JSON lines: a directory of parts, or one `.jsonl` file.

        >>> import anabranch as ab, pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.jsonl"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_jsonl(path), on="sequential")
        >>> pathlib.Path(path).read_text()
        '1\n2\n'
        """
        return self._sink(WriteFiles(str(path), "jsonl"), name)

    def write_parquet(self, path: str, *, name: str | None = None) -> Sink:
        """Write Parquet: a directory of parts, or one `.parquet` file.

        >>> import anabranch as ab, pyarrow.parquet, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.parquet"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_parquet(path), on="sequential")
        >>> pyarrow.parquet.read_table(path).to_pydict()
        {'value': [1, 2]}
        """
        return self._sink(WriteFiles(str(path), "parquet"), name)

    def to_socket(
        self,
        host: str,
        port: int,
        *,
        format: RowFormat = "jsonl",  # noqa: A002
        name: str | None = None,
    ) -> Sink:
        r"""Send the items as lines to a server that listens at `host` and `port`.

        >>> import anabranch as ab, socket
        >>> with socket.create_server(("localhost", 0)) as server:
        ...     out = ab.from_iterable([1, 2]).to_socket(*server.getsockname())
        ...     _ = ab.run(out, on="sequential")
        ...     with server.accept()[0] as connection:
        ...         connection.recv(100)
        b'1\n2\n'
        """
        return self._sink(ToSocket(host, port, format), name)

    def to_kafka(
        self,
        servers: str,
        topic: str,
        *,
        format: RowFormat = "jsonl",  # noqa: A002
        key: str | None = None,
        patience_s: float = 60.0,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Sink:
        """Send the items as messages to a topic, those of an epoch in one transaction.

        `key` names the attribute that becomes the key of the messages; items with the
        same key stay in order. Without it all go to the first partition, in order.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).to_kafka("localhost:9092", "numbers").draft.kind.label
        'to_kafka'
        """
        given = tuple(sorted((options or {}).items()))
        kind = ToKafka(servers, topic, format, key, patience_s, given)
        return self._sink(kind, name)

    def write_postgres(
        self,
        dsn: str,
        table: str,
        *,
        patience_s: float = 60.0,
        name: str | None = None,
    ) -> Sink:
        """Add the items to a table that has a column for each attribute.

        The items of an epoch and its number are written in one transaction, so an
        epoch that is run again adds nothing twice.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).write_postgres("dbname=test", "n").draft.kind.table
        'n'
        """
        return self._sink(WritePostgres(dsn, table, patience_s), name)

    def to_spark(
        self, f: Callable[[Any, int], Any], *, name: str | None = None
    ) -> Sink:
        """Call `f(DataFrame, epoch)` for each epoch that has items, in order.

        After a failure the last epoch may come again: the same rows, the same number.

        >>> import anabranch as ab
        >>> out = ab.from_iterable([1, 2], int).to_spark(lambda rows, epoch: rows.show())
        >>> ab.run(out, on="sequential")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        anabranch.errors.EngineError: to_spark needs the Spark engine; ...
        """
        return self._sink(ToSpark(f), name)
