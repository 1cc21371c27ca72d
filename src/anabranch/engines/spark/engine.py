"""The Spark engine: runs the epochs of a program on a Spark session."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from anabranch.connectors.storage import Location
from anabranch.engines.spark.access import (
    SharedData,
    SparkAccess,
    access_of,
    find_result_limit,
)
from anabranch.engines.spark.connect import asks_for_connect, open_connect
from anabranch.engines.spark.dataframes import open_frame
from anabranch.engines.spark.session import open_session
from anabranch.engines.spark.spark_cluster import SparkCluster
from anabranch.engines.spark.workers import Tasks, engine_error, find_labels
from anabranch.epochs.epoch_run import EpochRun
from anabranch.epochs.intake.intake import Intake
from anabranch.epochs.intake.items import Chunks
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.task import Spec
from anabranch.graph.graph import Graph, Op
from anabranch.metrics.job_metrics import RunsOn
from anabranch.operators.sources import FromSpark
from anabranch.plan.plan import Plan
from anabranch.runtime.thread import Options

SHARED_S = 0.1  # that a task stays, so that none runs all of them


class SparkEngine:
    """Runs programs on Spark."""

    def start(self, graph: Graph, plan: Plan, options: Options) -> EpochRun:
        run = EpochRun(SparkBackend(graph, options.master), graph, plan, options)
        run.begin()
        return run


class SparkBackend:
    """A Spark session for one run; made by the user's thread, whose labels it takes."""

    name: RunsOn = "spark"

    def __init__(self, graph: Graph, master: str | None) -> None:
        self._graph = graph
        self._master = master
        self._labels = find_labels(graph)
        self._opened: tuple[SparkAccess, Tasks] | None = None

    @property
    def _access(self) -> SparkAccess:
        assert self._opened is not None  # noqa: S101 - `open` comes first
        return self._opened[0]

    @property
    def _tasks(self) -> Tasks | None:
        return None if self._opened is None else self._opened[1]

    def open(self, layout: EpochLayout, scratch: Path) -> None:
        access = access_of(self._find_session())
        self._opened = access, Tasks(access, layout, scratch, self._labels)
        self.join()

    def _find_session(self) -> SparkSession:
        """Return the session to run on: that of the user's DataFrames, if any."""
        for op in self._graph.sources:
            if isinstance(op.kind, FromSpark):
                session: SparkSession = op.kind.frame.sparkSession
                return session
        master = self._master
        return (
            open_connect(master) if asks_for_connect(master) else open_session(master)
        )

    def check_workers(self) -> None:
        self._access.check_python()

    def join(self) -> None:
        assert self._tasks is not None  # noqa: S101 - `open` comes first
        self._tasks.join()

    @property
    def cores(self) -> int:
        return self._access.cores

    @property
    def web_address(self) -> str | None:
        return self._access.web_address

    @property
    def is_on_this_machine(self) -> bool:
        return self._access.is_on_this_machine

    def why_not_one_host(self) -> str | None:
        return self._access.why_not_one_host()

    def find_result_limit(self) -> float:
        return find_result_limit(self._access)

    def open_cluster(
        self, spec: Spec, shipped: bytes, *, in_round: bool = False
    ) -> SparkCluster:
        tasks = self._tasks
        if tasks is None or in_round:
            scratch = Path(spec.scratch)
            tasks = Tasks(self._access, spec.layout, scratch, self._labels)
        tasks.layout = spec.layout
        return SparkCluster(self._access, spec, shipped, tasks)

    def share(self, chunks: Chunks) -> SharedData:
        return self._access.share(chunks)

    def open_frame(self, op: Op, scratch: Path, checkpoint: Location | None) -> Intake:
        return open_frame(op, scratch, checkpoint)

    def make_frame(self, table: pa.Table) -> DataFrame:
        return self._find_session().createDataFrame(table)

    def describe_error(self, error: BaseException) -> Exception | None:
        tasks = self._tasks
        return engine_error(error, [] if tasks is None else tasks.stage_operators)

    def count_done(self) -> dict[str, int]:
        return {} if self._tasks is None else self._tasks.count_done()

    def ask(self) -> None:
        if self._tasks is not None:
            self._tasks.ask()

    def find_busy(self) -> list[str]:
        return [] if self._tasks is None else self._tasks.operators()

    @property
    def cancelled(self) -> bool:
        return self._tasks is not None and self._tasks.cancelled

    def cancel(self) -> bool:
        if self._tasks is None:
            return False
        self._tasks.cancel()
        return True

    def abandon(self) -> None:
        if self._tasks is not None:
            self._tasks.abandoned = True

    def clear_hosts(self, scratch: str, states_name: str | None) -> None:
        if not self.is_on_this_machine:
            clear_hosts(self._access, scratch, states_name)

    def close(self) -> None:
        if self._opened is not None:
            self._access.close()


def clear_hosts(access: SparkAccess, scratch: str, identity: str | None) -> None:
    """Remove a job's files from the hosts that run tasks, as far as they answer.

    These are its scratch directory, and the states of the checkpoint `identity`, if
    given.
    """

    def clear(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        shutil.rmtree(scratch, ignore_errors=True)
        if identity is not None:
            shutil.rmtree(local_directory(identity), ignore_errors=True)
        time.sleep(SHARED_S)
        return batches

    with contextlib.suppress(Exception), access.own_python():  # Spark may be gone
        slots = access.cores
        tasks = access.queries.range(0, slots, 1, slots)
        tasks.mapInArrow(clear, "id long").toArrow()
