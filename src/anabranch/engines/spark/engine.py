"""The Spark engine: a program runs epoch after epoch.

An epoch takes some rows of each source. After the last one the operators finish one
by one, producers first, each in an epoch of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.engines.engine import Options
from anabranch.engines.spark.actuator import SparkActuator
from anabranch.engines.spark.admission import FIRST_ITEMS, FIRST_TO_WAIT_FOR, next_items
from anabranch.engines.spark.arrivals import Arrivals, tasks_of
from anabranch.engines.spark.books import Books
from anabranch.engines.spark.checkpoint import TURNS, Checkpoint
from anabranch.engines.spark.checkpoint_program import program_of, refuse_hidden_state
from anabranch.engines.spark.checkpoint_record import Record
from anabranch.engines.spark.cuts import why_not_cut
from anabranch.engines.spark.epoch_log import EpochLog
from anabranch.engines.spark.epochs import Epochs
from anabranch.engines.spark.faults import reach
from anabranch.engines.spark.intake import Intake
from anabranch.engines.spark.intakes import intake_of
from anabranch.engines.spark.latency_actuator import SparkLatencyActuator
from anabranch.engines.spark.layout import lay_out
from anabranch.engines.spark.outputs import Outputs
from anabranch.engines.spark.restoring import local_directory
from anabranch.engines.spark.session import open_session
from anabranch.engines.spark.spec import Spec
from anabranch.engines.spark.taking import Taking
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph
from anabranch.graph.sources import FromSpark
from anabranch.metrics.latency import counted_ms, summary
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import stop

IDLE_S = 0.02


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
        self._regions = {region.name: region.operators[0] for region in plan.regions}
        resilient = options.on_error is not stop
        self._layout = lay_out(graph, plan, resilient=resilient)
        self._checkpoint = self._opened(plan)
        try:
            self._outputs = self._sinks()
        except BaseException:
            self._close()
            raise
        self._books = Books(graph, options.on_error, self._outputs, self._checkpoint)
        self._degree = options.degree
        self._cores: int | None = None  # known once there is a session
        self._cuts: frozenset[str] = frozenset()
        self._channels: Mapping[str, int] = {}  # by operator, in the last epoch
        self._sparing = False  # no replicas where there is little to do
        self._epoch_items = options.epoch_items or FIRST_ITEMS
        self._admits = options.epoch_items is None  # as many as is good
        self._epoch_log = EpochLog()
        self._arrivals = Arrivals()
        self._backlog: int | None = None
        self._warm_s = 0.0

    def _opened(self, plan: Plan) -> Checkpoint | None:
        if self._options.checkpoint is None:
            return None
        refuse_hidden_state(self._layout, plan)
        return Checkpoint(self._options.checkpoint, program_of(self._layout))

    def _sinks(self) -> Outputs:
        if self._checkpoint is None:
            return Outputs(self._graph, self._options.on_error, self._session)
        return Outputs(
            self._graph,
            self._options.on_error,
            self._session,
            self._checkpoint.identity,
            new=self._checkpoint.last is None,
        )

    def _session(self) -> SparkSession:
        """Return the session to run on: that of the user's DataFrames, if any."""
        for op in self._graph.sources:
            if isinstance(op.kind, FromSpark):
                session: SparkSession = op.kind.frame.sparkSession
                return session
        return open_session(self._options.master)

    def _close(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.close()

    def _run(self) -> None:
        scratch = Path(tempfile.mkdtemp(prefix="anabranch-"))
        try:
            record = self._books.resume()
            if record is None or not record.complete:
                self._go_on(scratch, record)
            if self._checkpoint is None or not self._stopping.is_set():
                self._outputs.complete()
                self._forget_states()
        except BaseException:
            self._outputs.abort()
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            self._outputs.close()
            self._close()

    def _go_on(self, scratch: Path, record: Record | None) -> None:
        """Run all epochs that are left."""
        spark = self._session()
        checkpoint = self._checkpoint
        spec = Spec(
            job=uuid.uuid4().hex,
            layout=self._layout,
            resilient=self._options.on_error is not stop,
            state_directory=str(scratch / "state"),
            outputs=self._outputs.directories,
            checkpoint=None if checkpoint is None else str(checkpoint.directory),
            identity="" if checkpoint is None else checkpoint.identity,
        )
        self._cores = spark.sparkContext.defaultParallelism
        degree = self._options.degree or self._cores
        epochs = Epochs(spark, spec, degree, self._books)
        epochs.exactly = self._options.degree is not None
        epochs.resume(record, 0 if checkpoint is None else checkpoint.run * TURNS)
        epochs.warm_up()
        self._warm_s = self.elapsed_s
        directory = None if checkpoint is None else checkpoint.directory
        pickler, on_error = epochs.runner.pickler, self._books.could_not_read
        share = spark.sparkContext.broadcast
        intakes: dict[str, Intake] = {}
        try:
            for op in self._graph.sources:
                intakes[op.name] = intake_of(
                    op, pickler, on_error, share, scratch=scratch, checkpoint=directory
                )
            for name, position in self._books.positions.items():
                intakes[name].seek(position)
            if self._admits and any(one.own_pace for one in intakes.values()):
                self._epoch_items = FIRST_TO_WAIT_FOR
            with contextlib.closing(Taking(intakes)) as taking:
                self._all_epochs(epochs, intakes, taking)
        finally:
            for intake in intakes.values():
                intake.close()

    def _all_epochs(
        self, epochs: Epochs, intakes: dict[str, Intake], taking: Taking
    ) -> None:
        self._books.not_read.clear()  # the run that first came by has told about them
        while not self._stopping.is_set() and not epochs.finishing:
            self._epoch_log.begin()
            epochs.degree = self._degree or epochs.degree
            epochs.cuts = self._cuts
            epochs.sparing = self._sparing
            epochs.profiling = self._epoch_log.profiling
            taken = taking.take(self._epoch_items, epochs.degree)
            if not taken.pieces:
                if all(intake.ended for intake in intakes.values()):
                    break
                self._stopping.wait(IDLE_S)  # for what has not arrived yet
                continue
            self._books.positions = dict(taken.positions)
            reach("taken", epochs.stamp.epoch + 1)
            self._backlog = taken.waiting
            self._arrivals.taken(intakes, taken.pieces, epochs.degree)
            if self._epoch_log.seconds or not self._admits:  # the size is not a guess
                taking.prepare(self._epoch_items, epochs.degree)
            usual = taken.asked == self._epoch_items
            with self._epoch_log.epoch(epochs, usual=usual):
                epochs.run(taken.pieces)
            self._channels = epochs.channels
            for name in taken.pieces:
                read = sum(report.read.get(name, 0) for report in epochs.reports)
                intakes[name].gave(read)
            self._arrivals.delivered(*tasks_of(self._layout, epochs.reports))
            if self._admits:
                rows = sum(p.rows for pieces in taken.pieces.values() for p in pieces)
                seconds = self._epoch_log.seconds[-1]
                self._epoch_items = next_items(self._epoch_items, rows, seconds)
        if not self._stopping.is_set():
            epochs.finish()
            self._books.finish(epochs.stamp)

    def _forget_states(self) -> None:
        """Remove this host's copy of the states; nobody will go on from it."""
        if self._checkpoint is not None:
            directory = local_directory(self._checkpoint.identity)
            shutil.rmtree(directory, ignore_errors=True)

    def metrics(self) -> dict[str, Any]:
        read = sum(self._books.read.values())
        return {
            **super().metrics(),
            "read": dict(self._books.read),
            "delivered": dict(self._outputs.delivered),
            "epochs": len(self._epoch_log.seconds),
            "epoch_s": list(self._epoch_log.seconds),
            "epoch_items": list(self._epoch_log.items),
            "start_s": self._warm_s,
            "latency": summary([self._arrivals.latencies]),
            "latency_counts": counted_ms([self._arrivals.latencies]),
            "backlog": self._backlog,
            "degrees": {
                region: self._channels.get(first, self.degree)
                for region, first in self._regions.items()
            },
            "cuts": sorted(self._cuts),
            "items_per_s": read / max(self.elapsed_s - self._warm_s, 1e-9),
        }

    def actuator(self) -> SparkActuator:
        """Return what a controller sees of it, and changes."""
        self._sparing = True
        return SparkActuator(self, self._layout, self._epoch_log)

    @property
    def cores(self) -> int:
        """How many tasks run at a time: those of the session, once there is one."""
        return self._cores or os.cpu_count() or 1

    @property
    def degree(self) -> int:
        """How many replicas there are in the epochs that begin now."""
        return self._degree or self.cores

    def latency_actuator(self) -> SparkLatencyActuator:
        """Return what keeps it within a bound sees of it, and changes."""
        return SparkLatencyActuator(self, self._layout, self._arrivals)

    @property
    def epoch_items(self) -> int:
        """How many items of each source an epoch takes; once set, it stays so."""
        return self._epoch_items

    @epoch_items.setter
    def epoch_items(self, items: int) -> None:
        self._epoch_items, self._admits = items, False

    def set_degree(self, degree: int) -> None:
        """Change the number of replicas, from the next epoch on."""
        self._degree = degree

    def set_cuts(self, operators: Collection[str]) -> None:
        """Cut elements before these operators, from the next epoch on.

        A cut lets the two parts of an element run at the same time; see `cuts`.
        """
        for name in operators:
            if (why_not := why_not_cut(self._layout, name)) is not None:
                msg = f"there can be no cut before {name!r}: {why_not}"
                raise ValueError(msg)
        self._cuts = frozenset(operators)
