"""Which connector reads which source, and writes which sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.connectors.base import Sink
from anabranch.connectors.delta import DeltaSink
from anabranch.connectors.external import ConnectorSink
from anabranch.connectors.files.follow import FollowReader
from anabranch.connectors.iceberg import IcebergSink
from anabranch.connectors.kafka import KafkaReader, KafkaSink
from anabranch.connectors.offered import OfferedReader
from anabranch.connectors.partitions import open_source
from anabranch.connectors.postgres import PostgresSink
from anabranch.connectors.reader import FileReader, ItemReader, Reader
from anabranch.connectors.socket import SocketReader, SocketSink
from anabranch.errors import EngineError
from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind
from anabranch.operators.sinks import (
    ToKafka,
    ToSocket,
    WriteDelta,
    WriteIceberg,
    WritePostgres,
    WriteSink,
)
from anabranch.operators.sources import (
    FromIterable,
    FromSpark,
    Generate,
    Kafka,
    Offered,
    ReadDelta,
    ReadFiles,
    ReadIceberg,
    ReadPostgres,
    ReadSource,
    Socket,
)
from anabranch.runtime.failures import OnError


def open_reader(op: Op, on_error: OnError) -> Reader:
    """Return the reader of a source; rows that cannot be read go to `on_error`.

    >>> reader = open_reader(Op("n", FromIterable("ab")), print)
    >>> list(reader), list(reader.read_numbered()), reader.where(2)
    (['a', 'b'], [('a', 1), ('b', 2)], 'item 2 of n')
    """
    match op.kind:
        case FromIterable(items):
            return ItemReader(op, lambda: items)
        case Generate(factory):
            return ItemReader(op, factory)
        case ReadFiles(follow=True):
            return FollowReader(op, on_error)
        case FromSpark():
            msg = (
                f"from_spark needs the Spark engine; {op.name!r} ({op.site}) was run "
                f"on another; say on='spark', or read the data with another source"
            )
            raise EngineError(msg)
    return _READERS[type(op.kind)](op, on_error)


_READERS: Mapping[type[Kind], Callable[[Op, OnError], Reader]] = {
    ReadFiles: FileReader,
    Socket: SocketReader,
    Kafka: KafkaReader,
    ReadPostgres: open_source,
    ReadDelta: open_source,
    ReadIceberg: open_source,
    ReadSource: open_source,
    Offered: OfferedReader,
}


SINKS: Mapping[type[Kind], Callable[[Any], Sink]] = {
    ToSocket: SocketSink,
    ToKafka: KafkaSink,
    WritePostgres: PostgresSink,
    WriteDelta: DeltaSink,
    WriteIceberg: IcebergSink,
}


def open_external(
    op: Op, item_type: Any, job: str, *, new: bool = False
) -> ConnectorSink:
    """Open a sink outside; `job` is the same for all runs of one job, or `new`."""
    match op.kind:
        case WriteSink(sink) if sink is not None:
            return ConnectorSink(op, sink, item_type, job, new=new)
    if type(op.kind) in SINKS:
        sink = SINKS[type(op.kind)](op.kind)
        return ConnectorSink(op, sink, item_type, job, new=new)
    msg = (
        f"{op.kind.label} needs the Spark engine; {op.name!r} ({op.site}) was run on "
        f"another; say on='spark', or use another sink"
    )
    raise EngineError(msg)
