"""What leaves a unit: sent on to other units or to the driver, or written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anabranch.engines.spark.durable import sync
from anabranch.engines.spark.groups import in_groups
from anabranch.engines.spark.layout import Route
from anabranch.engines.spark.parts import write_part
from anabranch.engines.spark.routing import Rows, by_key, by_range
from anabranch.engines.spark.spec import Job
from anabranch.engines.spark.task import TO_DRIVER, EpochTask
from anabranch.engines.spark.wire import Batch, end_to_end
from anabranch.graph.graph import Edge
from anabranch.runtime.columns import form_of
from anabranch.runtime.failures import OnError
from anabranch.runtime.punctuation import WINDOW


class Exits:
    """Takes what leaves the units of a job to where it goes."""

    def __init__(self, job: Job, on_error: OnError) -> None:
        self._job = job
        self._layout = job.spec.layout
        self._on_error = on_error

    def leave(
        self,
        left: dict[Edge, list[Batch]],
        task: EpochTask,
        channel: int,
        rows: Rows,
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Send on or write what has left; return what was written, and to which part."""
        written: dict[str, int] = {}
        for edge, batches in left.items():
            batch = end_to_end(batches)
            route = self._layout.routes[edge]
            if route.how != "write":
                self._send(edge, batch, route, task, rows)
            elif len(batch):
                sink = edge.consumer.operator
                written[sink] = self.write(sink, batch, task, channel)
        return written, {sink: self.part(sink, task, channel) for sink in written}

    def unmarked(self, edge: Edge, batch: Batch) -> Batch:
        """Leave out punctuations on the way to a sink."""
        to_sink = edge.consumer.operator not in self._layout.unit_of
        if not to_sink or edge.producer.operator not in self._job.marked:
            return batch
        kept = [i for i, item in enumerate(batch.items) if item is not WINDOW]
        return batch.take(np.array(kept, np.int64))

    def _send(
        self, edge: Edge, batch: Batch, route: Route, task: EpochTask, rows: Rows
    ) -> None:
        pickler = self._job.pickler
        if not len(batch):
            return
        if route.how == "driver":
            sink = self._layout.graph.names.index(edge.consumer.operator)
            rows.add_batch(TO_DRIVER, 0, sink, batch, pickler)
            return
        if route.how == "one":
            rows.add_batch(route.unit, 0, route.entry, batch, pickler)
            return
        unit = self._layout.units[route.unit]
        if route.how == "key":
            divided = by_key(batch, unit.key, task, unit.number)
        elif route.how == "group":
            counts, divided = in_groups(batch, task, unit)
            for channel in range(task.channels[unit.number]):
                rows.add(unit.number, channel, route.entry, counts)
        else:
            divided = by_range(batch, task, unit.number)
        for channel, part in divided:
            rows.add_batch(route.unit, channel, route.entry, part, pickler)

    def write(self, sink: str, batch: Batch, task: EpochTask, channel: int) -> int:
        op = self._layout.graph[sink]
        directory = Path(self._job.spec.outputs[sink]) / task.stage
        path = directory / self.part(sink, task, channel)
        item_type = self._layout.graph[op.inputs[0].operator].type
        written = write_part(op, item_type, batch, path, self._on_error)
        if task.stage:
            sync(path)
        return written

    def part(self, sink: str, task: EpochTask, channel: int) -> str:
        kind = self._layout.graph[sink].kind
        return f"part-{task.epoch:09}-{channel:04}.{kind.format}"  # type: ignore[attr-defined]

    def form(self, operator: str) -> Any:
        kind = self._layout.graph[operator].type
        return None if kind is None else form_of(kind)
