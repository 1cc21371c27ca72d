"""Spark as the cluster of the epoch loop: resident tasks if possible, jobs otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from anabranch.engines.spark.access import SharedData, SparkAccess
from anabranch.engines.spark.residence import Residence
from anabranch.engines.spark.session import RESULT_LIMIT
from anabranch.engines.spark.stage_plan import Run, StagePlans
from anabranch.engines.spark.worker import run_task
from anabranch.engines.spark.workers import Tasks, is_loss, is_too_large
from anabranch.epochs.cluster import StageShape
from anabranch.epochs.division import Work
from anabranch.epochs.shuffle import Row
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


class SparkCluster:
    """Runs the stages of a job on Spark."""

    result_limit = RESULT_LIMIT

    def __init__(
        self, access: SparkAccess, spec: Spec, shipped: bytes, tasks: Tasks
    ) -> None:
        self._access = access
        self._tasks = tasks
        packed = access.share(shipped)
        self._plans = StagePlans(run_shipped(spec.job, packed), access)
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
