"""The sinks of a program on Spark, as the driver sees them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from anabranch.engines.spark.parts import write_part
from anabranch.engines.spark.task import Report
from anabranch.engines.spark.wire import Batch
from anabranch.graph.graph import Graph, Op
from anabranch.graph.sinks import ForEach, ToList, WriteFiles
from anabranch.runtime.failures import OnError, failure_of
from anabranch.runtime.writing.output import Output


class Outputs:
    """Delivers what comes to the driver, and makes written parts visible at the end."""

    def __init__(self, graph: Graph, on_error: OnError) -> None:
        self._graph = graph
        self._on_error = on_error
        self.delivered = {op.name: 0 for op in graph.sinks}
        self._outputs: dict[str, Output] = {}
        self.directories: dict[str, str] = {}
        for op in graph.sinks:
            match op.kind:
                case ToList(items=items):
                    items.clear()
                case WriteFiles():
                    output = self._outputs[op.name] = Output(op.kind)
                    parts = output.hidden
                    if op.kind.single:
                        parts = output.hidden.with_suffix(".parts")
                        parts.mkdir()
                    self.directories[op.name] = str(parts)

    def take(self, reports: Iterable[Report], sunk: dict[str, list[Any]]) -> None:
        """Deliver the results of an epoch."""
        for report in reports:
            for sink, count in report.written.items():
                self.delivered[sink] += count
        for op in self._graph.sinks:
            items = sunk.get(op.name, [])
            match op.kind:
                case ToList(items=collected):
                    collected.extend(items)
                    self.delivered[op.name] += len(items)
                case ForEach():
                    self._call(op, op.kind, items)

    def _call(self, op: Op, kind: ForEach, items: list[Any]) -> None:
        for item in items:
            number = self.delivered[op.name]
            try:
                kind.function(item)
            except Exception as error:  # noqa: BLE001 - the user's code
                where = f"item {number} of sink {op.name}"
                self._on_error(failure_of(op, item, where, error))
            self.delivered[op.name] += 1

    def commit(self) -> None:
        """Make the files visible, whole."""
        for name, output in self._outputs.items():
            op = self._graph[name]
            directory = Path(self.directories[name])
            parts = sorted(directory.glob(f"part-*.{op.kind.format}"))  # type: ignore[attr-defined]
            if not parts:  # an empty output has its columns, if they are known
                kind = self._graph[op.inputs[0].operator].type
                parts = [directory / f"part-000000-0000.{op.kind.format}"]  # type: ignore[attr-defined]
                write_part(
                    op, kind, Batch([], None, None, []), parts[0], self._on_error
                )
            if directory != output.hidden:
                _put_together(op, parts, output.hidden)
                shutil.rmtree(directory)
            output.commit()

    def abort(self) -> None:
        """Leave nothing behind."""
        for name, output in self._outputs.items():
            shutil.rmtree(self.directories[name], ignore_errors=True)
            output.abort()


def _put_together(op: Op, parts: list[Path], whole: Path) -> None:
    """Make one file of parts; only the first one's header stays."""
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    if op.kind.format == "parquet":
        with pq.ParquetWriter(whole, pq.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part).cast(writer.schema))
        return
    with whole.open("wb") as file:
        for number, part in enumerate(parts):
            with part.open("rb") as source:
                if number and op.kind.format == "csv":
                    source.readline()
                shutil.copyfileobj(source, file, 1 << 20)
