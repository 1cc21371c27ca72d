"""Which sink outside is written how."""

from __future__ import annotations

from typing import Any

from anabranch.errors import EngineError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import ToKafka, ToSocket, WritePostgres
from anabranch.runtime.writing.external import External
from anabranch.runtime.writing.kafka import KafkaSink
from anabranch.runtime.writing.postgres import PostgresSink
from anabranch.runtime.writing.socket import SocketSink


def open_external(op: Op, item_type: Any, job: str) -> External:
    """Open a sink outside; `job` is the same for all runs of one job."""
    match op.kind:
        case ToSocket():
            return SocketSink(op, item_type)
        case ToKafka():
            return KafkaSink(op, item_type, job)
        case WritePostgres():
            return PostgresSink(op, item_type, job)
    msg = (
        f"{op.kind.label} needs the Spark engine; {op.name!r} ({op.site}) was run on "
        f"another; say on='spark', or use another sink"
    )
    raise EngineError(msg)
