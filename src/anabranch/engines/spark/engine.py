"""The Spark engine: runs the epochs of a program on a Spark session.

`SparkBackend` is the session of one run, `SparkCluster` runs the stages of one layout: in
resident tasks if possible, as Spark jobs otherwise.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.connectors.storage import Location
from anabranch.engines.spark.access import (
    SharedData,
    SparkAccess,
    access_of,
    find_result_limit,
)
from anabranch.engines.spark.anchors import Anchors
from anabranch.engines.spark.connect import asks_for_connect, open_connect
from anabranch.engines.spark.dataframes import open_frame
from anabranch.engines.spark.residence import Residence
from anabranch.engines.spark.session import RESULT_LIMIT, open_session
from anabranch.engines.spark.stage_plan import Run, StagePlans
from anabranch.engines.spark.worker import run_task
from anabranch.engines.spark.workers import (
    Tasks,
    engine_error,
    find_labels,
    is_loss,
    is_too_large,
)
from anabranch.epochs.cluster import StageShape
from anabranch.epochs.division import Work
from anabranch.epochs.epoch_run import EpochRun
from anabranch.epochs.intake.intake import Intake
from anabranch.epochs.intake.items import Chunks
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.shuffle import Row
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.task import (
    DeliverItems,
    EpochAttempt,
    EpochTask,
    ProcessRows,
    Shares,
    Spec,
    WarmUp,
    pause_collection,
)
from anabranch.epochs.unit.states import find_stored
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
        # Else Spark would take datetimes without a zone for those of its session.
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return self._find_session().createDataFrame(table, schema)

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


class SparkCluster:
    """Runs the stages of a job on Spark."""

    result_limit = RESULT_LIMIT

    def __init__(
        self, access: SparkAccess, spec: Spec, shipped: bytes, tasks: Tasks
    ) -> None:
        self._access = access
        self._tasks = tasks
        packed = access.share(shipped)
        apart = not access.is_on_this_machine and find_stored(spec.layout)
        anchors = Anchors(spec.job) if apart else None
        self._plans = StagePlans(run_shipped(spec.job, packed), access, anchors)
        self._residence = Residence(access, spec.layout, spec.job, packed, tasks)

    @property
    def cores(self) -> int:
        return self._access.cores

    @property
    def stays(self) -> bool:
        return self._residence.stays

    @property
    def cancelled(self) -> bool:
        return self._tasks.cancelled

    def note(self, stages: Sequence[range], attempt: EpochAttempt) -> None:
        self._tasks.note(stages, attempt)

    def refuse_if_abandoned(self) -> None:
        self._tasks.refuse_if_abandoned()

    def run(
        self,
        shapes: Sequence[StageShape],
        tasks: Sequence[EpochTask],
        shares: Shares,
        work: Work,
    ) -> list[Row]:
        rows = self._residence.run(tasks, shares, work)
        if rows is not None:
            return rows
        self._residence.leave()  # it may need its slots
        self._tasks.describe_stages(_name_step(tasks[0]))
        access = self._access
        spark = access.row_by_row if tasks[0].cuts else access.queries
        return _list_rows(self._plans.collect(spark, shapes, tasks))

    def begin(
        self,
        tasks: Sequence[EpochTask],
        shares: Shares,
        work: Work,
        *,
        behind: int | None,
    ) -> int | None:
        return self._residence.begin(tasks, shares, work, behind=behind)

    def is_done(self, run: int) -> bool:
        return self._residence.is_done(run)

    def collect(self, run: int) -> list[Row]:
        return self._residence.collect(run)

    def deliver(
        self, shape: StageShape, task: EpochTask, *, behind: int | None
    ) -> list[Row]:
        rows = self._residence.deliver(task, behind=behind)
        if rows is not None:
            return rows
        self._residence.leave()  # it may need its slots
        assert isinstance(task.mode, DeliverItems)  # noqa: S101 - its caller made it
        self._tasks.describe(_name_step(task), list(task.mode.files))
        return _list_rows(self._plans.collect(self._access.queries, [shape], [task]))

    def leave(self) -> None:
        self._residence.leave()
        self._plans.close()

    def find_homes(self) -> dict[tuple[int, int], int]:
        return self._residence.find_homes()

    def is_loss(self, error: BaseException) -> bool:
        return is_loss(error)

    def is_too_large(self, error: BaseException) -> bool:
        return is_too_large(error)

    def describe_start(self, error: Exception) -> Exception | None:
        return self._access.describe_python(error)


def run_shipped(job: str, shipped: SharedData) -> Run:
    """Return the function that runs the tasks of a job in a worker."""

    def run(
        task: EpochTask, batches: Iterable[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        return run_task(job, shipped, task, batches)

    return run


def _name_step(task: EpochTask) -> str:
    """Return the name of a Spark job's step, for Spark's pages."""
    match task.mode:
        case WarmUp():
            return "warm-up"
        case ProcessRows():
            return f"epoch {task.attempt.epoch}"
        case DeliverItems():
            return f"delivery of epoch {task.attempt.epoch}"
    return f"epoch {task.attempt.epoch}, end of the stream"


def _list_rows(table: pa.Table) -> list[Row]:
    columns = (table.column(name) for name in ("unit", "channel", "entry", "payload"))
    with pause_collection():
        return list(zip(*(one.to_numpy().tolist() for one in columns), strict=True))
