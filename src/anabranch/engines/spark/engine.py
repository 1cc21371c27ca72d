"""The Spark engine: a program runs epoch after epoch.

An epoch takes some rows of each source. After the last one the operators finish one
by one, producers first, each in an epoch of its own.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anabranch.engines.engine import Options
from anabranch.engines.spark.epochs import Epochs
from anabranch.engines.spark.intake import Intake, Piece, intake_of
from anabranch.engines.spark.layout import lay_out
from anabranch.engines.spark.outputs import Outputs
from anabranch.engines.spark.session import open_session
from anabranch.engines.spark.task import Report
from anabranch.engines.spark.worker import Spec
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import stop

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
        self._degree = options.degree
        self.epoch_items = options.epoch_items or EPOCH_ITEMS
        self._epoch_s: list[float] = []
        self._warm_s = 0.0

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
            )
            degree = self._options.degree or spark.sparkContext.defaultParallelism
            epochs = Epochs(spark, spec, degree, self._took)
            epochs.warm_up()
            self._warm_s = self.elapsed_s
            self._all_epochs(epochs)
        except BaseException:
            self._outputs.abort()
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._outputs.commit()

    def _all_epochs(self, epochs: Epochs) -> None:
        pickler = epochs.runner.pickler
        intakes = {
            op.name: intake_of(op, pickler, self._options.on_error)
            for op in self._graph.sources
        }
        while not self._stopping.is_set():
            epochs.degree = self._degree or epochs.degree
            pieces = _taken(intakes, self.epoch_items, epochs.degree)
            if not pieces:
                break
            began_s = time.monotonic()
            epochs.run(pieces)
            self._epoch_s.append(time.monotonic() - began_s)
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
        read = sum(self._read.values())
        return {
            **super().metrics(),
            "read": dict(self._read),
            "delivered": dict(self._outputs.delivered),
            "epochs": len(self._epoch_s),
            "epoch_s": list(self._epoch_s),
            "start_s": self._warm_s,
            "items_per_s": read / max(self.elapsed_s - self._warm_s, 1e-9),
        }

    def set_degree(self, degree: int) -> None:
        """Change the number of replicas, from the next epoch on."""
        self._degree = degree


def _taken(intakes: dict[str, Intake], rows: int, parts: int) -> dict[str, list[Piece]]:
    """Take the next rows of each source; nothing when all have ended."""
    exactly = len(intakes) > 1
    taken = {
        name: intake.take(rows, parts, exactly=exactly)
        for name, intake in intakes.items()
        if not intake.ended
    }
    return {name: pieces for name, pieces in taken.items() if pieces}
