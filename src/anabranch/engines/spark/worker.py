"""Runs a task: rows in, one unit after the other, rows out."""

from __future__ import annotations

import gc
import itertools
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import Broadcast, TaskContext

from anabranch.engines.spark.cuts import halves_of
from anabranch.engines.spark.handing import filler
from anabranch.engines.spark.layout import Unit
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.routing import Rows
from anabranch.engines.spark.ship import unpacked
from anabranch.engines.spark.spec import Job, Spec
from anabranch.engines.spark.store import close_buckets
from anabranch.engines.spark.task import (
    ALONG,
    ALONG_CHUNK,
    ALONG_END,
    ALONG_FILLER,
    REPORT,
    EpochTask,
    Place,
    Report,
    Share,
)
from anabranch.engines.spark.unit_runner import END_OF_HALF, UnitRunner
from anabranch.engines.spark.watch import Watch
from anabranch.errors import AnabranchError
from anabranch.runtime.punctuated import punctuated_operators

WHOLE = 32  # so many tasks until all objects are looked at for garbage

_runners: dict[str, Runner] = {}  # by job; a worker serves one job at a time
_tasks = itertools.count(1)


def run_task(
    job: str,
    shipped: Broadcast[bytes],
    task: EpochTask,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the task of this partition; `shipped` is the packed `Spec` of the job."""
    if job not in _runners:
        _runners.clear()
        close_buckets()
        _runners[job] = Runner(unpacked(shipped.value))
        gc.freeze()  # what is there now stays; it need not be looked at again
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls us
    gc.disable()  # a batch is a lot of objects, hardly any of them in a cycle
    try:
        yield from _runners[job].run(task, context.partitionId(), batches)
    finally:
        gc.enable()
        collect_garbage()


def collect_garbage() -> None:
    """Look for garbage in what this task has made, and now and then in all there is.

    States stay in this process, so the latter takes longer and longer.
    """
    whole = next(_tasks) % WHOLE == 0
    gc.collect(2 if whole else 1)


class Runner:
    """The units of a job in this process."""

    def __init__(self, spec: Spec) -> None:
        graph = spec.layout.graph
        self.spec = spec
        self.pickler = Pickler(graph)
        self._job = Job(spec, self.pickler, punctuated_operators(graph))
        self._units: dict[int, UnitRunner] = {}

    def run(
        self, task: EpochTask, partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Run the task of a partition and pass on what is for later stages."""
        layout = self.spec.layout
        rows = Rows()
        places = task.places(layout, task.levels)[partition]
        if task.half == "second":
            yield from self._second(task, places[0], batches, rows)
            return
        for batch in batches:
            if batch.num_columns == len(rows.schema):  # not the number of a partition
                rows.add_rows(batch)
        for unit, channel in places:
            received = rows.taken(unit)
            share = task.shares.get((unit.number, channel), Share())
            if task.half == "first" and unit.number in task.cuts:
                given = [
                    [*map(pa.py_buffer, _blobs(share, n)), *received[n]]
                    for n in range(len(received))
                ]
                yield from self._first(
                    task, (unit, channel), replace(share, blobs=()), given, rows
                )
            else:
                self.run_unit(task, (unit, channel), share, received, rows)
        yield from rows.batches(task, layout)

    def _first(
        self,
        task: EpochTask,
        place: Place,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> Iterator[pa.RecordBatch]:
        """Run what comes before a cut, and hand it on chunk by chunk."""
        unit, channel = place
        halves = halves_of(self.spec.layout, unit, task.cuts[unit.number])
        runner = self.unit(unit)
        try:
            with Watch(task, halves.first, runner.programs.of) as watch:
                for given in runner.first_half(task, channel, share, received, rows):
                    for stream, batch in enumerate(given):
                        along = Rows()  # one each: the order of batches is kept
                        along.add_batch(ALONG, channel, stream, batch, self.pickler)
                        yield from along.batches(task, self.spec.layout)
                    end = Rows()
                    end.add(ALONG_CHUNK, channel, 0, b"")
                    end.add(ALONG_FILLER, channel, 0, filler())
                    yield from end.batches(task, self.spec.layout)
                changes, report = runner.half_done
                ended = changes, replace(report, samples=watch.seen())
        except AnabranchError as error:
            ended = {}, Report(unit.number, channel, error=_told(error))
        rows.add(ALONG_END, channel, 0, self.pickler.dumps(ended))

    def _second(
        self,
        task: EpochTask,
        place: Place,
        batches: Iterable[pa.RecordBatch],
        rows: Rows,
    ) -> Iterator[pa.RecordBatch]:
        """Run what comes behind a cut, while the first half still works."""
        unit, channel = place
        if unit.number not in task.cuts:
            yield from batches
            return
        chunks = _along(batches, rows)
        halves = halves_of(self.spec.layout, unit, task.cuts[unit.number])
        runner = self.unit(unit)
        try:
            with Watch(task, halves.second, runner.programs.of) as watch:
                *others, last = runner.second_half(task, channel, chunks, rows)
                reports = (*others, replace(last, samples=last.samples + watch.seen()))
        except AnabranchError as error:
            reports = (Report(unit.number, channel, error=_told(error)),)
        for report in reports:
            rows.add(REPORT, channel, 0, self.pickler.dumps(report))
        yield from rows.batches(task, self.spec.layout)

    def unit(self, unit: Unit) -> UnitRunner:
        """Return the running side of a unit."""
        if unit.number not in self._units:
            self._units[unit.number] = UnitRunner(self._job, unit)
        return self._units[unit.number]

    def run_unit(
        self,
        task: EpochTask,
        place: Place,
        share: Share,
        received: list[list[pa.Buffer]],
        rows: Rows,
    ) -> None:
        """Run a channel of a unit; an error becomes part of the report."""
        unit, channel = place
        for entry, blob in share.blobs:
            received[entry].append(pa.py_buffer(blob))
        started = time.perf_counter()
        runner = self.unit(unit)
        with Watch(task, unit.operators, runner.programs.of) as watch:
            try:
                report = runner.run(task, channel, share, received, rows)
            except AnabranchError as error:
                report = Report(unit.number, channel, error=_told(error))
            seconds = time.perf_counter() - started
            report = replace(report, seconds=seconds, samples=watch.seen())
        rows.add(REPORT, channel, 0, self.pickler.dumps(report))


def _blobs(share: Share, entry: int) -> Iterator[bytes]:
    return (blob for number, blob in share.blobs if number == entry)


def _along(
    batches: Iterable[pa.RecordBatch], rows: Rows
) -> Iterator[list[tuple[int, pa.Buffer]]]:
    """Return the chunks for the second half, as they come; pass the other rows on.

    A chunk is its blobs with the number of their stream, the last one what the first
    half has to say.
    """
    chunk: list[tuple[int, pa.Buffer]] = []
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
                yield [(END_OF_HALF, payload)]
            elif unit != ALONG_FILLER:
                rows.add(unit, channels[index], entries[index], payload)


def _told(error: AnabranchError) -> AnabranchError:
    """Add the user's own traceback to an error that leaves the process."""
    if error.__cause__ is not None:
        lines = traceback.format_exception(error.__cause__)
        error.add_note("".join(lines))
    return error
