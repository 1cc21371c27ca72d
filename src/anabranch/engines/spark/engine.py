"""The Spark engine: epoch after epoch through the levels of the layout.

An epoch takes some rows of each source and runs them through all levels in one Spark
job (in several, where units in the driver stand between). After the last epoch the
operators finish one by one, producers first, each in an epoch of its own.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import Broadcast, cloudpickle
from pyspark.sql import SparkSession

from anabranch.engines.engine import Options
from anabranch.engines.modules import sent_by_value
from anabranch.engines.spark.intake import Intake, Piece, intake_of
from anabranch.engines.spark.layout import Layout, Unit, lay_out
from anabranch.engines.spark.outputs import Outputs
from anabranch.engines.spark.routing import Rows
from anabranch.engines.spark.session import open_session
from anabranch.engines.spark.task import (
    REPORT,
    ROW_SCHEMA,
    TO_DRIVER,
    EpochTask,
    Report,
    Share,
)
from anabranch.engines.spark.wire import decode, in_order
from anabranch.engines.spark.worker import Runner, Spec, run_task
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan
from anabranch.runtime.columns import form_of
from anabranch.runtime.failures import stop
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.keys import in_key_order
from anabranch.runtime.positions import END

EPOCH_ITEMS = 500_000


class SparkEngine:
    """Runs programs on Spark."""

    def start(self, graph: Graph, plan: Plan, options: Options) -> SparkRun:
        run = SparkRun(graph, plan, options)
        run.begin()
        return run


class SparkRun(RunningThread):
    """A program on Spark."""

    def __init__(self, graph: Graph, plan: Plan, options: Options) -> None:
        super().__init__("anabranch-spark")
        self._graph = graph
        self._options = options
        self._layout = lay_out(graph, plan)
        self._outputs = Outputs(graph, options.on_error)
        self._read = {op.name: 0 for op in graph.sources}
        self._epochs = 0

    def _run(self) -> None:
        scratch = Path(tempfile.mkdtemp(prefix="anabranch-"))
        try:
            spark = open_session(self._options.master)
            spec = Spec(
                job=uuid.uuid4().hex,
                layout=self._layout,
                resilient=self._options.on_error is not stop,
                state_directory=str(scratch / "state"),
                outputs=self._outputs.directories,
                directory=str(Path.cwd()),
            )
            degree = self._options.degree or spark.sparkContext.defaultParallelism
            epochs = Epochs(spark, spec, degree, self._took)
            self._all_epochs(epochs, spec)
        except BaseException:
            self._outputs.abort()
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._outputs.commit()

    def _all_epochs(self, epochs: Epochs, spec: Spec) -> None:
        pickler = epochs.runner.pickler
        intakes = {
            op.name: intake_of(op, pickler, self._options.on_error)
            for op in self._graph.sources
        }
        rows = self._options.epoch_items or EPOCH_ITEMS
        while not self._stopping.is_set():
            pieces = _taken(intakes, rows, epochs.degree)
            if not pieces:
                break
            epochs.run(pieces)
            self._epochs += 1
        if not self._stopping.is_set():
            epochs.finish()

    def _took(self, reports: Iterable[Report], sunk: dict[str, list[Any]]) -> None:
        """Take over the results of an epoch, once it has run to its end."""
        for report in reports:
            for source, count in report.read.items():
                self._read[source] += count
            for failure in report.failures:
                self._options.on_error(failure)
        self._outputs.take(reports, sunk)

    def metrics(self) -> dict[str, Any]:
        return {
            **super().metrics(),
            "read": dict(self._read),
            "delivered": dict(self._outputs.delivered),
            "epochs": self._epochs,
            "items_per_s": sum(self._read.values()) / max(self.elapsed_s, 1e-9),
        }


Took = Callable[[list[Report], dict[str, list[Any]]], None]


class Epochs:
    """Runs epochs; knows Spark, but not where items come from or go to."""

    def __init__(
        self, spark: SparkSession, spec: Spec, degree: int, took: Took
    ) -> None:
        self.degree = degree
        self.runner = Runner(spec)
        self._spark = spark
        self._spec = spec
        self._layout: Layout = spec.layout
        self._took = took
        for module in sent_by_value():
            cloudpickle.register_pickle_by_value(module)
        self._shipped: Broadcast[bytes] = spark.sparkContext.broadcast(
            cloudpickle.dumps(spec)
        )
        self._epoch = 0
        self._ended = END

    def run(self, pieces: dict[str, list[Piece]]) -> None:
        """Run the rows of one epoch through the program."""
        taken = list(itertools.chain.from_iterable(pieces.values()))
        shares: dict[tuple[int, int], Share] = {}
        for source, parts in pieces.items():
            unit = self._layout.unit_of[source]
            channels = self.degree if unit.replicated else 1
            for index, piece in enumerate(parts):
                place = unit.number, index * channels // len(parts)
                share = shares.get(place, Share())
                shares[place] = replace(share, pieces=(*share.pieces, piece))
        self._through(
            shares,
            first=min(piece.first for piece in taken),
            end=max(piece.first + piece.rows for piece in taken),
        )

    def finish(self) -> None:
        """End the stream: operators finish one by one, producers first."""
        for name in self._layout.graph.names:
            unit = self._layout.unit_of.get(name)
            if unit is None or not _may_finish(self._layout, name):
                continue
            outputs = self._asked(name, unit)
            if not outputs:
                continue
            width = self._layout.positions.after[name]
            shares = {}
            for channel, placed in outputs.items():
                items = [item for _, item in placed]
                columns = [[number for number, _ in placed]]
                columns += [[0] * len(items) for _ in range(width - 1)]
                injected = self.runner.pickler.dumps((items, columns))
                shares[unit.number, channel] = Share(injected=injected)
            first = self._ended
            self._ended += sum(len(placed) for placed in outputs.values())
            self._through(shares, first, self._ended, after=name)

    def _asked(self, name: str, unit: Unit) -> dict[int, list[tuple[int, Any]]]:
        """Return what an operator gives at the end: by channel, numbered by key."""
        task = self._task(unit.level, finishing=name)
        if unit.in_driver:
            rows = self._in_driver(task, {}, [])
        else:
            rows = self._job(unit.level, unit.level, task, {})
        reports = [
            report for report in self._reports(rows) if report.unit == unit.number
        ]
        self._took(reports, {})
        found = {
            key: (report.channel, outputs)
            for report in reports
            for key, outputs in report.finished
        }
        placed: dict[int, list[tuple[int, Any]]] = {}
        number = self._ended
        for key in in_key_order(found):
            channel, outputs = found[key]
            for output in outputs:
                placed.setdefault(channel, []).append((number, output))
                number += 1
        return placed

    def _task(
        self,
        level: int,
        first: int = 0,
        end: int = 0,
        finishing: str | None = None,
        after: str | None = None,
    ) -> EpochTask:
        channels = tuple(
            self.degree if unit.replicated else 1 for unit in self._layout.units
        )
        epoch = self._epoch + (1 if finishing is not None else 0)
        return EpochTask(epoch, level, channels, first, end, {}, finishing, after)

    def _through(
        self,
        shares: dict[tuple[int, int], Share],
        first: int,
        end: int,
        after: str | None = None,
    ) -> None:
        """Run an epoch through all levels."""
        self._epoch += 1
        task = self._task(0, first, end, None, after)
        rows: list[Row] = []
        level = 0
        while level < len(self._layout.levels):
            if self._layout.levels[level][0].in_driver:
                rows = self._in_driver(replace(task, level=level), shares, rows)
                level += 1
                continue
            last = level
            while (
                last + 1 < len(self._layout.levels)
                and not self._layout.levels[last + 1][0].in_driver
            ):
                last += 1
            later = [row for row in rows if not self._is_at(row, level, last)]
            rows = later + self._job(level, last, task, self._handed(shares, rows))
            level = last + 1
        self._took(self._reports(rows), self._sunk(rows))

    def _handed(
        self, shares: dict[tuple[int, int], Share], rows: list[Row]
    ) -> dict[tuple[int, int], Share]:
        """Return the shares of tasks, with what the driver has for them."""
        handed = dict(shares)
        for unit, channel, entry, payload in rows:
            if unit >= 0:
                share = handed.get((unit, channel), Share())
                blobs = (*share.blobs, (entry, payload))
                handed[unit, channel] = replace(share, blobs=blobs)
        return handed

    def _job(
        self,
        first: int,
        last: int,
        task: EpochTask,
        shares: dict[tuple[int, int], Share],
    ) -> list[Row]:
        """Run some levels as one Spark job and return the rows that come out."""
        count = len(task.places(self._layout, first))
        frame = self._spark.range(0, count, 1, count)
        for level in range(first, last + 1):
            units = {unit.number for unit in self._layout.levels[level]}
            own = {place: share for place, share in shares.items() if place[0] in units}
            run = self._stage(replace(task, level=level, shares=own))
            if level > first:
                count = len(task.places(self._layout, level))
                frame = frame.repartitionById(count, "dest")
            frame = frame.mapInArrow(run, ROW_SCHEMA)
        return _rows(frame.toArrow())

    def _stage(self, task: EpochTask) -> Callable[..., Any]:
        job, shipped = self._spec.job, self._shipped

        def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            return run_task(job, shipped, task, batches)

        return run

    def _in_driver(
        self,
        task: EpochTask,
        shares: dict[tuple[int, int], Share],
        rows: list[Row],
    ) -> list[Row]:
        """Run the units of a level in this process."""
        handed = self._handed(shares, rows)
        level = task.level
        passed = [row for row in rows if not self._is_at(row, level, level)]
        for unit, channel in task.places(self._layout, task.level):
            if task.finishing is not None and task.finishing not in unit.operators:
                continue
            out = Rows()
            share = handed.get((unit.number, channel), Share())
            received: list[list[pa.Buffer]] = [[] for _ in unit.entries]
            self.runner.run_unit(task, unit, channel, share, received, out)
            passed += out.listed()
        return passed

    def _is_at(self, row: Row, first: int, last: int) -> bool:
        """Tell whether a row is for a unit on one of these levels."""
        return row[0] >= 0 and first <= self._layout.units[row[0]].level <= last

    def _reports(self, rows: list[Row]) -> list[Report]:
        loads = self.runner.pickler.loads
        reports = [loads(payload) for unit, _, _, payload in rows if unit == REPORT]
        reports.sort(key=lambda report: (report.unit, report.channel))
        for report in reports:
            if report.error is not None:
                raise report.error
        return reports

    def _sunk(self, rows: list[Row]) -> dict[str, list[Any]]:
        """Return the items of the sinks that the driver serves, in order."""
        graph, pickler = self._layout.graph, self.runner.pickler
        found: dict[str, list[Any]] = {}
        for unit, _, entry, payload in rows:
            if unit == TO_DRIVER:
                found.setdefault(graph.names[entry], []).append(payload)
        sunk = {}
        for sink, blobs in found.items():
            kind = graph[graph[sink].inputs[0].operator].type
            form = None if kind is None else form_of(kind)
            batches = [decode(pa.py_buffer(blob), form, pickler) for blob in blobs]
            sunk[sink] = in_order(batches).items
        return sunk


Row = tuple[int, int, int, Any]  # unit, channel, entry, payload


def _rows(table: pa.Table) -> list[Row]:
    return list(
        zip(
            table.column("unit").to_pylist(),
            table.column("channel").to_pylist(),
            table.column("entry").to_pylist(),
            table.column("payload").to_pylist(),
            strict=True,
        )
    )


def _taken(intakes: dict[str, Intake], rows: int, parts: int) -> dict[str, list[Piece]]:
    """Take the next rows of each source; nothing when all have ended."""
    exactly = len(intakes) > 1
    taken = {
        name: intake.take(rows, parts, exactly=exactly)
        for name, intake in intakes.items()
        if not intake.ended
    }
    return {name: pieces for name, pieces in taken.items() if pieces}


def _may_finish(layout: Layout, name: str) -> bool:
    op = layout.graph[name]
    return bool(op.inputs) and kernel_of(op).finishes
