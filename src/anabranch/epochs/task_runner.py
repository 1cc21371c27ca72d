"""Runs the units of a job in this process, with a profiler: one after the other, rows
in, rows out.

An engine brings the rows: by its own exchange of stages, or by the connections of
resident tasks.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import socket
import sys
import threading
import time
import traceback
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from tempfile import gettempdir
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

import lmdb
import pyarrow as pa

from anabranch.connectors.partitions import has_offsets
from anabranch.epochs.faults import reach
from anabranch.epochs.item_files import Deliverer
from anabranch.epochs.layout import CutPart, EpochLayout, Unit
from anabranch.epochs.shuffle import TaskRows
from anabranch.epochs.task import (
    ALONG,
    ALONG_CHUNK,
    ALONG_END,
    ALONG_FILLER,
    REPORT,
    DeliverItems,
    EpochTask,
    Place,
    Report,
    Share,
    Spec,
    WorkerJob,
    WrittenPart,
    dump_report,
)
from anabranch.epochs.transport.pickle import Originals, PickledNames, Pickler
from anabranch.epochs.unit.egress import Exits
from anabranch.epochs.unit.progress import PROGRESS
from anabranch.epochs.unit.runner import Chunk, PartDone, UnitRunner
from anabranch.epochs.unit.states import UnitStates
from anabranch.epochs.wire import encode
from anabranch.errors import AnabranchError, EngineError, advise
from anabranch.graph.graph import Edge
from anabranch.graph.site import is_users_file
from anabranch.metrics.load import ThreadSamples
from anabranch.metrics.pipeline import Route
from anabranch.operators.sources import ReadSource
from anabranch.runtime.call_watch import limit_calls
from anabranch.runtime.codegen import find_punctuated_operators
from anabranch.runtime.failures import name_error
from anabranch.runtime.memory_reserve import ADVICE
from anabranch.runtime.profile import OwnSampler, Sampler, Watched, can_look_at_itself
from anabranch.runtime.program import Program
from anabranch.runtime.verify.verifier import Verifier

WHOLE = 32  # tasks between full garbage collections

_tasks = itertools.count(1)

# The work after the last operator, and behind a cut if there is one.
LEAVING = (Exits.leave.__code__, Exits.write.__code__, UnitStates.save.__code__)

Done = TypeVar("Done")


class ThreadWatch:
    """Profiles the present thread in its block, if the task asks for it.

    `operators` are those that the thread runs; it counts as at the last of them while
    it sends and writes their outputs.
    """

    def __init__(
        self,
        task: EpochTask,
        operators: Sequence[str],
        programs: Callable[[EpochTask], list[Program]],
    ) -> None:
        self._sampler: Sampler | OwnSampler | None = None
        self._seen: tuple[ThreadSamples, ...] = ()
        self.passed: dict[Edge, int] = {}  # items of each stream, once it is over
        self._programs: list[Program] = []
        self._before: list[tuple[int, Mapping[Edge, int]]] = []
        if not (task.profiling and operators):
            return
        whole: Route = tuple(operators)
        self._programs = programs(task)

        def at_the_end(_: FrameType) -> Route:
            return whole

        watched = Watched(
            threading.current_thread(),
            whole[0],
            self._programs,
            elsewhere=dict.fromkeys(LEAVING, at_the_end),
            task=threading.get_native_id(),  # workers are forked
        )
        alone = can_look_at_itself()
        self._sampler = OwnSampler(watched) if alone else Sampler([watched])

    def __enter__(self) -> Self:
        if self._sampler is not None:
            for program in self._programs:
                program.count_next(sys.maxsize)
            self._before = [(one.counted, one.counts) for one in self._programs]
            self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> tuple[ThreadSamples, ...]:
        """Stop, and return the samples."""
        if self._sampler is not None:
            self._seen, self._sampler = self._sampler.stop(), None
            for program, (counted, counts) in zip(
                self._programs, self._before, strict=True
            ):
                program.count_next(0)
                if program.counted > counted:  # else it was not used, or is compiled
                    self.passed |= {
                        edge: count - counts[edge]
                        for edge, count in program.counts.items()
                        if edge.producer.operator in program.operators
                    }
        return self._seen


@contextlib.contextmanager
def in_force(spec: Spec) -> Iterator[None]:
    """Apply a job's settings and call limits in this worker."""
    limit = limit_calls(spec.layout.graph, spec.item_timeout_s, ends_process=True)
    with spec.settings.in_force(), limit:
        yield


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Postpone garbage collection until after the block.

    A batch has many objects, hardly any of them in a cycle.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        collect_garbage()


def collect_garbage() -> None:
    """Collect garbage made by this task, and from time to time in all objects.

    States stay in this process, so the latter takes longer and longer.
    """
    whole = next(_tasks) % WHOLE == 0
    gc.collect(2 if whole else 1)


class Runner:
    """The units of a job in this process."""

    def __init__(
        self,
        spec: Spec,
        names: PickledNames | None = None,
        originals: Originals | None = None,
    ) -> None:
        graph = spec.layout.graph
        self.spec = spec
        self.layout = spec.layout
        lasting = spec.checkpoint is not None
        numbers = spec.type_numbers
        self.pickler = Pickler(
            graph, names, originals, lasting=lasting, numbers=numbers
        )
        self._units: dict[tuple[int, int], UnitRunner] = {}  # by unit and part
        self._verifier = Verifier(graph, spec.verdicts, spec.verify)
        marked = find_punctuated_operators(graph)
        rehearse = self._verifier.rehearse if self._verifier.is_on else None
        self._job = WorkerJob(spec, self.pickler, marked, rehearse)
        self._deliverer = Deliverer(self._job)

    def run_places(
        self, task: EpochTask, places: Sequence[Place], rows: TaskRows
    ) -> None:
        """Run units, one after the other, on their share of the rows."""
        self.begin(task)
        for place in places:
            self.run_unit(task, place, rows)

    def close_sinks(self) -> None:
        """Close the external sinks that are open in this process."""
        self._deliverer.close()

    def close_sources(self) -> None:
        """Close connections that may be opened again; brokers go on sending to them."""
        for op in self.spec.layout.graph.sources:
            source = op.kind.source if isinstance(op.kind, ReadSource) else None
            if source is not None and has_offsets(source):
                with contextlib.suppress(Exception):  # the driver reports it
                    source.close()

    def _deliver(self, work: DeliverItems, place: Place) -> Report:
        """Deliver the items of an epoch to the sink of this replica, if it has one."""
        unit, channel = place
        if unit.number != work.unit:
            return Report(unit.number, channel)
        sink = list(work.files)[channel]
        try:
            done = self._deliverer.deliver(sink, work)
        except _REPORTED as error:
            return self._tell_failed(place, error)
        written = (WrittenPart(sink, "", done.accepted),)
        return Report(unit.number, channel, {}, written, done.failures)

    def rest(self) -> None:
        """Do the periodic work due between two stages of a resident task."""
        collect_garbage()

    def begin(self, task: EpochTask) -> None:
        PROGRESS.begin(task.attempt)
        reach("begun", task.attempt.epoch)

    def run_first(
        self, task: EpochTask, place: Place, rows: TaskRows
    ) -> Generator[Chunk, None, bytes]:
        """Run the operators before the first cut, and pass on each chunk.

        Returns the results, for the part behind the cut.
        """
        unit, channel = place
        share = task.shares.get((unit.number, channel), Share())
        received = _with_blobs(rows.take_unit(unit), share)
        runner = self.unit(unit)
        part = runner.parts(task)[0]
        try:
            with ThreadWatch(task, part.operators, runner.programs.of) as watch:
                for given in runner.first_part(task, channel, share, received, rows):
                    yield [
                        (stream, pa.py_buffer(encode(batch, self.pickler)))
                        for stream, batch in enumerate(given)
                        if len(batch)
                    ]
                done = _with_samples(runner.parts_done, watch)
        except _REPORTED as error:
            done = [({}, self._tell_failed(place, error))]
        return self.pickler.dumps(self._with_refuted(done, part))

    def run_later(
        self,
        task: EpochTask,
        place: Place,
        chunks: Iterator[Chunk],
        end: Callable[[], Any],
        rows: TaskRows,
    ) -> Generator[Chunk, None, bytes | None]:
        """Run the operators behind a cut, while the parts before still work.

        After the last chunk, `end` returns the results of these. Returns the results so
        far, for the part behind the next cut; the last one reports them.
        """
        unit, channel = place
        runner = self.unit(unit, task.stage.part)
        part = runner.parts(task)[task.stage.part]
        earlier: list[PartDone] = []

        def receive() -> Iterator[Chunk]:
            yield from chunks
            earlier.extend(self.pickler.loads(end()))

        try:
            with ThreadWatch(task, part.operators, runner.programs.of) as watch:
                yield from runner.later_part(task, channel, receive(), earlier, rows)
                done = _with_samples(runner.parts_done, watch)
        except _REPORTED as error:
            done = [*earlier, ({}, self._tell_failed((unit, channel), error))]
        done = self._with_refuted(done, part)
        if len(task.cuts[unit.number]) > task.stage.part:
            return self.pickler.dumps(done)
        for _, report in done:
            rows.add(REPORT, channel, 0, dump_report(report, self.pickler))
        return None

    def _with_refuted(self, done: list[PartDone], part: CutPart) -> list[PartDone]:
        """Return the reports of parts, the last with the verdicts it has refuted."""
        *others, (changes, last) = done
        refuted = self._verifier.find(part.operators)
        rehearsed = self._verifier.take_samples(part.operators)
        told = replace(last, refuted=refuted, rehearsed=rehearsed)
        return [*others, (changes, told)]

    def _tell_failed(self, place: Place, error: Exception) -> Report:
        """Return the report of a failed task."""
        unit, channel = place
        converted = _convert_error(error)
        cause = converted.__cause__
        if cause is not None and not self.pickler.takes(cause):
            cause = RuntimeError(name_error(cause))
        return Report(unit.number, channel, error=converted, cause=cause)

    def unit(self, unit: Unit, part: int = 0) -> UnitRunner:
        """Return the runner of a unit, or of a part of it."""
        place = unit.number, part
        if place not in self._units:
            self._verifier.watch(unit.operators)
            self._units[place] = UnitRunner(self._job, unit)
        return self._units[place]

    def run_unit(self, task: EpochTask, place: Place, rows: TaskRows) -> None:
        """Run a replica of a unit; an error becomes part of the report."""
        unit, channel = place
        if isinstance(task.mode, DeliverItems):
            report = self._deliver(task.mode, place)
            rows.add(REPORT, channel, 0, dump_report(report, self.pickler))
            return
        share = task.shares.get((unit.number, channel), Share())
        received = _with_blobs(rows.take_unit(unit), share)
        started = time.perf_counter()
        runner = self.unit(unit)
        with ThreadWatch(task, unit.operators, runner.programs.of) as watch:
            try:
                report = runner.run(task, channel, share, received, rows)
            except _REPORTED as error:
                report = self._tell_failed(place, error)
            seconds = time.perf_counter() - started
            samples = watch.stop()
            refuted = self._verifier.find(unit.operators)
            report = replace(
                report,
                seconds=seconds,
                samples=samples,
                passed=watch.passed,
                refuted=refuted,
                rehearsed=self._verifier.take_samples(unit.operators),
            )
        rows.add(REPORT, channel, 0, dump_report(report, self.pickler))


def _with_blobs(received: list[list[pa.Buffer]], share: Share) -> list[list[pa.Buffer]]:
    """Return the blobs for each entry, including those from the driver."""
    for entry, blob in share.blobs:
        received[entry].append(pa.py_buffer(blob))
    return received


def _with_samples(done: Sequence[PartDone], watch: ThreadWatch) -> list[PartDone]:
    """Return the reports of parts, the last with its samples and counts."""
    *others, (changes, last) = done
    samples = last.samples + watch.stop()
    return [*others, (changes, replace(last, samples=samples, passed=watch.passed))]


# What a task reports; anything else is our fault, and the engine reports it.
_REPORTED = (AnabranchError, OSError, MemoryError, lmdb.Error)


def _convert_error(error: Exception) -> AnabranchError:
    """Return an error that can be pickled, with the user's own traceback."""
    if isinstance(error, ConnectionError):  # the driver is gone, or another task
        raise error
    if isinstance(error, MemoryError):
        return EngineError(
            f"a task must have enough memory; its process ran out of it on "
            f"{socket.gethostname()}; {ADVICE}"
        )
    if not isinstance(error, AnabranchError):
        advice = advise(
            error,
            "check the space and the permissions of its temporary directory (TMPDIR)",
        )
        named = isinstance(error, OSError) and error.filename is not None
        place = "" if named else f" (its temporary directory is {gettempdir()})"
        return EngineError(
            f"a task must be able to use the disk of its host; {error} on "
            f"{socket.gethostname()}{place}; {advice}"
        )
    if error.__cause__ is not None:
        error.add_note(_format_users(error.__cause__))
    return error


def _format_users(error: BaseException) -> str:
    """Return the traceback of an error in the user's code, without our frames.

    Our own errors, which tell where it was, may be between it and its causes.
    """
    cause = error
    while isinstance(cause, AnabranchError) and cause.__cause__ is not None:
        cause = cause.__cause__
    told = traceback.TracebackException.from_exception(cause)
    each: traceback.TracebackException | None = told
    while each is not None:
        frames = [
            one
            for one in each.stack
            if is_users_file(one.filename) and not one.filename.startswith("<anabranch")
        ]
        each.stack = traceback.StackSummary.from_list(frames)
        before = cause.__cause__ or cause.__context__
        if before is None or isinstance(before, AnabranchError):  # it was tried again
            each.__cause__ = each.__context__ = None
            break
        cause, each = before, each.__cause__ or each.__context__
    return "".join(told.format()).rstrip()


def run_partition(
    runner: Runner,
    task: EpochTask,
    partition: int,
    batches: Iterable[pa.RecordBatch],
    filler: bytes = b"",
) -> Iterator[pa.RecordBatch]:
    """Run the task of a partition and pass on rows for later stages.

    `filler` is enough to flush the engine's buffer behind a worker.
    """
    layout = runner.layout
    rows = TaskRows()
    runner.begin(task)
    places = task.stage.places(layout, task.stage.levels)[partition]
    if task.stage.part:
        yield from _run_later(runner, task, places[0], batches, rows, filler=filler)
        return
    for batch in batches:
        if batch.num_columns == len(rows.schema):  # not the number of a partition
            rows.add_rows(batch)
    for unit, channel in places:
        if unit.number in task.cuts:
            chunks = runner.run_first(task, (unit, channel), rows)
            done = yield from _hand_along(task, layout, channel, chunks, filler)
            rows.add(ALONG_END, channel, 0, done)
        else:
            runner.run_unit(task, (unit, channel), rows)
    yield from rows.batches(task, layout)


def _hand_along(
    task: EpochTask,
    layout: EpochLayout,
    channel: int,
    chunks: Generator[Chunk, None, Done],
    filler: bytes,
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
        end.add(ALONG_FILLER, channel, 0, filler)
        yield from end.batches(task, layout)


def _run_later(
    runner: Runner,
    task: EpochTask,
    place: Place,
    batches: Iterable[pa.RecordBatch],
    rows: TaskRows,
    *,
    filler: bytes,
) -> Iterator[pa.RecordBatch]:
    """Run the operators behind a cut in a worker of its own."""
    unit, channel = place
    if len(task.cuts.get(unit.number, ())) < task.stage.part:
        yield from batches
        return
    ends: list[pa.Buffer] = []
    given = _along(batches, rows, ends.append)
    chunks = runner.run_later(task, place, given, ends.pop, rows)
    done = yield from _hand_along(task, runner.layout, channel, chunks, filler)
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
