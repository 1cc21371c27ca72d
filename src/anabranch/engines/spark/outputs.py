"""The sinks of a program on Spark, as the driver sees them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anabranch.engines.spark.deliveries import Deliveries, Session
from anabranch.engines.spark.file_outputs import FileOutput, StagedOutput, WholeOutput
from anabranch.engines.spark.task import Report
from anabranch.graph.graph import Graph, Op
from anabranch.graph.sinks import EpochSink, ForEach, ToList, WriteFiles
from anabranch.runtime.failures import OnError, failure_of


class Outputs:
    """Delivers what comes to the driver, and makes written parts visible.

    `identity` is that of the checkpoint, if there is one; `new` tells whether it is.
    """

    def __init__(
        self,
        graph: Graph,
        on_error: OnError,
        session: Session,
        identity: str | None = None,
        *,
        new: bool = True,
    ) -> None:
        job = identity or uuid.uuid4().hex[:12]
        self._outside = Deliveries(graph, on_error, job, session)
        self._graph = graph
        self._on_error = on_error
        self.delivered = {op.name: 0 for op in graph.sinks}
        self._files: dict[str, FileOutput] = {}
        for op in graph.sinks:
            match op.kind:
                case ToList(items=items):
                    items.clear()
                case WriteFiles():
                    kind = graph[op.inputs[0].operator].type
                    self._files[op.name] = (
                        WholeOutput(op, kind, on_error)
                        if identity is None
                        else StagedOutput(op, kind, on_error, identity, new=new)
                    )

    @property
    def directories(self) -> dict[str, str]:
        """Where tasks write the parts of each file sink."""
        return {name: str(file.directory) for name, file in self._files.items()}

    def begin(self, stage: str) -> None:
        """Get ready for the parts of a try of an epoch."""
        for file in self._files.values():
            file.begin(stage)

    def publish(self, stage: str, parts: Mapping[str, Sequence[str]]) -> None:
        """Show the parts of an epoch that has been committed."""
        for name, file in self._files.items():
            file.publish(stage, parts.get(name, ()))

    def check(self, part_counts: Mapping[str, int]) -> None:
        """Refuse to go on with outputs that are not as the last run left them."""
        for name, file in self._files.items():
            if isinstance(file, StagedOutput):
                file.check(part_counts.get(name, 0))

    def count(self, reports: Iterable[Report]) -> None:
        """Count what tasks have written."""
        for report in reports:
            for sink, count in report.written.items():
                self.delivered[sink] += count

    def deliver(self, epoch: int, sunk: Mapping[str, list[Any]]) -> None:
        """Hand over what an epoch has for sinks in the driver.

        After a kill an epoch may come again; its number tells.
        """
        for op in self._graph.sinks:
            items = sunk.get(op.name, [])
            match op.kind:
                case ToList(items=collected):
                    collected.extend(items)
                    self.delivered[op.name] += len(items)
                case ForEach():
                    self._call(op, op.kind, items)
                case EpochSink():
                    taken = self._outside.deliver(op, epoch, items)
                    self.delivered[op.name] += taken

    def _call(self, op: Op, kind: ForEach, items: list[Any]) -> None:
        for item in items:
            number = self.delivered[op.name]
            try:
                kind.function(item)
            except Exception as error:  # noqa: BLE001 - the user's code
                where = f"item {number} of sink {op.name}"
                self._on_error(failure_of(op, item, where, error))
            self.delivered[op.name] += 1

    def complete(self) -> None:
        """Round the files off at the end of the job."""
        for file in self._files.values():
            file.complete()

    def abort(self) -> None:
        """Leave nothing behind that the next run would stumble over."""
        for file in self._files.values():
            file.abort()

    def close(self) -> None:
        """Let go of the sinks outside."""
        self._outside.close()
