"""Runs the task of a Spark partition, with the runner that this worker keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext

from anabranch.engines.spark.access import SharedData
from anabranch.engines.spark.session import filler
from anabranch.engines.spark.workers import answer_in
from anabranch.epochs.state.store import close_buckets
from anabranch.epochs.task import EpochTask
from anabranch.epochs.task_runner import (
    Runner,
    in_force,
    run_partition,
    without_garbage_collection,
)
from anabranch.epochs.transport.ship import unpack

_runners: dict[str, Runner] = {}  # by job; a worker serves one job at a time


def run_task(
    job: str,
    shipped: SharedData,
    task: EpochTask,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the task of this partition; `shipped` is the packed `Spec` of the job."""
    runner = open_runner(job, shipped)
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls us
    attempt = replace(task.attempt, attempt_id=context.taskAttemptId())
    task = replace(task, attempt=attempt)
    with without_garbage_collection(), in_force(runner.spec):
        try:
            yield from run_partition(
                runner, task, context.partitionId(), batches, filler()
            )
        finally:
            runner.close_sinks()


def open_runner(job: str, shipped: SharedData) -> Runner:
    """Return the units of a job in this process; `shipped` is the packed `Spec`."""
    if job not in _runners:
        for other in _runners.values():
            other.close_sources()
        _runners.clear()
        close_buckets()
        runner = _runners[job] = Runner(*unpack(shipped.value))
        answer_in(runner.spec.scratch)
        gc.freeze()  # present objects stay; they need not be visited again
    return _runners[job]
