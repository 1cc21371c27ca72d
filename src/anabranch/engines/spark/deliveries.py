"""Hands what an epoch has for sinks outside over to them, in the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.errors import OutputError
from anabranch.graph.graph import Graph, Op
from anabranch.graph.sinks import EpochSink, ToSpark
from anabranch.runtime.columns import form_of, to_table
from anabranch.runtime.failures import OnError, failure_of, stop
from anabranch.runtime.writing.columns import columns_of
from anabranch.runtime.writing.external import External, Refuse
from anabranch.runtime.writing.open_external import open_external
from anabranch.runtime.writing.parquet import arrow_types, table_of

Session = Callable[[], SparkSession]  # opens one, if there is none yet


class Deliveries:
    """The sinks outside; `job` is the same for all runs of one job."""

    def __init__(
        self, graph: Graph, on_error: OnError, job: str, session: Session
    ) -> None:
        self._on_error = on_error
        self._sinks: dict[str, External] = {}
        try:
            for op in graph.sinks:
                kind = graph[op.inputs[0].operator].type
                if isinstance(op.kind, ToSpark):
                    self._sinks[op.name] = FrameSink(op, kind, session)
                elif isinstance(op.kind, EpochSink):
                    self._sinks[op.name] = open_external(op, kind, job)
        except BaseException:
            self.close()
            raise

    def deliver(self, op: Op, epoch: int, items: Sequence[Any]) -> int:
        """Hand over the items of an epoch; return how many were taken."""

        def refuse(item: Any, error: Exception) -> None:
            where = f"an item of epoch {epoch}, sink {op.name}"
            self._on_error(failure_of(op, item, where, error))

        return self._sinks[op.name].write(epoch, items, refuse) if items else 0

    def close(self) -> None:
        """Let go of connections."""
        for sink in self._sinks.values():
            sink.close()


class FrameSink(External):
    """Calls a function of the user's with a DataFrame for each epoch."""

    def __init__(self, op: Op, item_type: Any, session: Session) -> None:
        assert isinstance(op.kind, ToSpark)  # noqa: S101
        self._op = op
        self._function = op.kind.function
        self._type = item_type
        self._session = session

    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        table = self._table(items, refuse)
        frame = self._session().createDataFrame(table)
        try:
            self._function(frame, epoch)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            # An epoch cannot be left out, whatever is done about items.
            stop(failure_of(self._op, f"epoch {epoch}", f"epoch {epoch}", error))
        return len(table)

    def close(self) -> None:
        """There is nothing to let go of: the session is the user's."""

    def _table(self, items: Sequence[Any], refuse: Refuse) -> pa.Table:
        form = None if self._type is None else form_of(self._type)
        made = None if form is None else to_table(items, form)
        if made is not None:
            return made
        names, types = columns_of(self._type), arrow_types(self._type)
        fitting = []
        for item in items:
            try:
                table_of([item], names, types)
                fitting.append(item)
            except OutputError as error:
                refuse(item, error)
        return table_of(fitting, names, types)
