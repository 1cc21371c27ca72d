"""Runs the task of a Spark partition: rows in, one unit after the other, rows out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext

from anabranch.engines.spark.access import SharedData
from anabranch.engines.spark.session import filler
from anabranch.engines.spark.workers import answer_in
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.ship import unpack
from anabranch.epochs.shuffle import TaskRows
from anabranch.epochs.state.store import close_buckets
from anabranch.epochs.task import (
    ALONG,
    ALONG_CHUNK,
    ALONG_END,
    ALONG_FILLER,
    EpochTask,
    Place,
)
from anabranch.epochs.task_runner import Runner, in_force, without_garbage_collection
from anabranch.epochs.unit.runner import Chunk

Done = TypeVar("Done")

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
            yield from run_partition(runner, task, context.partitionId(), batches)
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


def run_partition(
    runner: Runner,
    task: EpochTask,
    partition: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the task of a partition and pass on rows for later stages."""
    layout = runner.layout
    rows = TaskRows()
    runner.begin(task)
    places = task.stage.places(layout, task.stage.levels)[partition]
    if task.stage.part:
        yield from _run_later(runner, task, places[0], batches, rows)
        return
    for batch in batches:
        if batch.num_columns == len(rows.schema):  # not the number of a partition
            rows.add_rows(batch)
    for unit, channel in places:
        if unit.number in task.cuts:
            chunks = runner.run_first(task, (unit, channel), rows)
            done = yield from _hand_along(task, layout, channel, chunks)
            rows.add(ALONG_END, channel, 0, done)
        else:
            runner.run_unit(task, (unit, channel), rows)
    yield from rows.batches(task, layout)


def _hand_along(
    task: EpochTask,
    layout: EpochLayout,
    channel: int,
    chunks: Generator[Chunk, None, Done],
) -> Generator[pa.RecordBatch, None, Done]:
    """Yield the rows of chunks, so that none waits in a buffer."""
    while True:
        try:
            chunk = next(chunks)
        except StopIteration as over:
            done: Done = over.value
            return done
        along = TaskRows()
        for stream, blob in chunk:
            along.add(ALONG, channel, stream, blob)
        yield from along.batches(task, layout)
        end = TaskRows()
        end.add(ALONG_CHUNK, channel, 0, b"")
        end.add(ALONG_FILLER, channel, 0, filler())
        yield from end.batches(task, layout)


def _run_later(
    runner: Runner,
    task: EpochTask,
    place: Place,
    batches: Iterable[pa.RecordBatch],
    rows: TaskRows,
) -> Iterator[pa.RecordBatch]:
    """Run the operators behind a cut in a worker of its own."""
    unit, channel = place
    if len(task.cuts.get(unit.number, ())) < task.stage.part:
        yield from batches
        return
    ends: list[pa.Buffer] = []
    given = _along(batches, rows, ends.append)
    chunks = runner.run_later(task, place, given, ends.pop, rows)
    done = yield from _hand_along(task, runner.layout, channel, chunks)
    if done is not None:
        rows.add(ALONG_END, channel, 0, done)
    yield from rows.batches(task, runner.layout)


def _along(
    batches: Iterable[pa.RecordBatch], rows: TaskRows, end: Callable[[pa.Buffer], None]
) -> Iterator[Chunk]:
    """Yield the chunks for the next part, as they come; pass on other rows.

    The results of the parts before come last, and are given to `end`.
    """
    chunk: Chunk = []
    for batch in batches:
        units = batch.column("unit").to_pylist()
        channels = batch.column("channel").to_pylist()
        entries = batch.column("entry").to_pylist()
        for index, unit in enumerate(units):
            payload = batch.column("payload")[index].as_buffer()
            if unit == ALONG:
                chunk.append((entries[index], payload))
            elif unit == ALONG_CHUNK:
                yield chunk
                chunk = []
            elif unit == ALONG_END:
                end(payload)
            elif unit != ALONG_FILLER:
                rows.add(unit, channels[index], entries[index], payload)
