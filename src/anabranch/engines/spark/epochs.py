"""Epochs: how rows go through the levels of the layout, one Spark job at a time.

An epoch goes through all levels in one Spark job (in several, where units in the
driver stand between); some levels may share a stage. How an epoch is divided among tasks
is decided anew for each: the states lie in buckets that any task can open, so nothing
has to be moved.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from anabranch.engines.spark.books import Books, Done
from anabranch.engines.spark.checkpoint_record import Begun, Record
from anabranch.engines.spark.cuts import why_not_cut
from anabranch.engines.spark.handing import row_by_row
from anabranch.engines.spark.intake import Piece
from anabranch.engines.spark.layout import Layout, Unit
from anabranch.engines.spark.losses import TRIES, is_loss
from anabranch.engines.spark.routing import Row, Rows
from anabranch.engines.spark.ship import packed
from anabranch.engines.spark.spec import Spec
from anabranch.engines.spark.stages import Division, as_told, divided
from anabranch.engines.spark.store import EMPTY, Stamp
from anabranch.engines.spark.task import (
    REPORT,
    ROW_SCHEMA,
    TO_DRIVER,
    EpochTask,
    Half,
    Report,
    Share,
)
from anabranch.engines.spark.widths import NOT_KNOWN, Work, times, widths, work_of
from anabranch.engines.spark.wire import decode, in_order
from anabranch.engines.spark.worker import Runner, run_task
from anabranch.runtime.columns import form_of
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.keys import in_key_order
from anabranch.runtime.positions import END

NONE = range(0)  # levels of the stage behind the last


class Epochs:
    """Runs epochs; knows Spark, but not where items come from or go to."""

    def __init__(
        self, spark: SparkSession, spec: Spec, degree: int, books: Books
    ) -> None:
        self.degree = degree
        self.exactly = (
            True  # as many replicas of every unit; else fewer where it is full
        )
        self.sparing = False  # no channels for units that had little to do
        self.cuts: frozenset[str] = frozenset()
        self.profiling = False
        self.reports: Sequence[Report] = ()  # of the last epoch
        self.runner = Runner(spec)
        self._spark = spark
        self._spec = spec
        self._layout: Layout = spec.layout
        self._books = books
        self._shipped: Broadcast[bytes] = spark.sparkContext.broadcast(packed(spec))
        self._base = EMPTY
        self._turn = 0
        self._ended = END
        self._finished: set[str] = set()
        self._snapshots: frozenset[tuple[str, int]] = frozenset()
        self._begun: Mapping[str, Begun] = {}
        self._last_division: Division | None = None
        self._row_work: Work = NOT_KNOWN  # of a row, as it was

    @property
    def stamp(self) -> Stamp:
        """The version of the states."""
        return self._base

    @property
    def channels(self) -> Mapping[str, int]:
        """How many channels each operator has in this epoch, or had in the last."""
        channels = self._division.channels
        units = self._layout.unit_of
        return {name: channels[unit.number] for name, unit in units.items()}

    @property
    def finishing(self) -> bool:
        """Whether operators have said their last words; no rows may follow them."""
        return bool(self._finished)

    def resume(self, record: Record | None, turn: int) -> None:
        """Go on from a record of a checkpoint; turns are numbered from `turn` on."""
        self._turn = turn
        if record is not None:
            self._base = record.stamp
            self._ended = END if record.ended is None else record.ended
            self._finished = set(record.finished)
            self._begun = record.begun

    def warm_up(self) -> None:
        """Start the workers and have them load the program, before any data comes."""
        task = replace(self._task(), warming=True)
        stages = self._division.stages
        workers = [levels for levels in stages if not self._is_in_driver(levels)]
        if workers:
            self._tried(lambda: self._job(workers[:1], task, {}))

    def run(self, pieces: Mapping[str, list[Piece]]) -> None:
        """Run the rows of one epoch through the program."""
        taken = list(itertools.chain.from_iterable(pieces.values()))
        rows = sum(piece.rows for piece in taken)
        self._last_division = self._divided(times(rows, self._row_work))
        shares: dict[tuple[int, int], Share] = {}
        for source, parts in pieces.items():
            unit = self._layout.unit_of[source]
            channels = self._division.channels[unit.number]
            for index, piece in enumerate(parts):
                place = unit.number, index * channels // len(parts)
                share = shares.get(place, Share())
                shares[place] = replace(share, pieces=(*share.pieces, piece))
        self._through(
            shares,
            first=min(piece.first for piece in taken),
            end=max(piece.first + piece.rows for piece in taken),
        )
        self._row_work = NOT_KNOWN
        if self.sparing and rows:
            self._row_work = times(1 / rows, work_of(self.reports))

    @property
    def _division(self) -> Division:
        """How this epoch is divided, or the last one was."""
        if self._last_division is None:
            self._last_division = self._divided(NOT_KNOWN)
        return self._last_division

    def _divided(self, work: Work) -> Division:
        """Return how an epoch is divided that has so much work."""
        exactly = self.exactly
        channels = widths(self._layout, self.degree, exactly=exactly, work=work)
        if exactly:
            return as_told(self._layout, channels)
        cores = self._spark.sparkContext.defaultParallelism
        return divided(self._layout, channels, work, cores, self._cuts())

    def finish(self) -> None:
        """End the stream: operators finish one by one, producers first."""
        for name in self._layout.graph.names:
            unit = self._layout.unit_of.get(name)
            if unit is None or not _may_finish(self._layout, name):
                continue
            if name in self._finished:
                continue
            asked, outputs = self._asked(name, unit)
            if not outputs and not any(report.failures for report in asked):
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
            self._through(shares, first, self._ended, after=name, asked=asked)

    def _asked(
        self, name: str, unit: Unit
    ) -> tuple[list[Report], dict[int, list[tuple[int, Any]]]]:
        """Return what an operator gives at the end: by channel, numbered by key."""

        def ask() -> list[Row]:
            task = self._task(finishing=name)
            here = range(unit.level, unit.level + 1)
            if unit.in_driver:
                return self._in_driver(replace(task, levels=here), {}, [])
            return self._job([here], task, {})

        reports = [
            report
            for report in self._reports(self._tried(ask))
            if report.unit == unit.number
        ]
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
        return reports, placed

    def _task(
        self,
        first: int = 0,
        end: int = 0,
        finishing: str | None = None,
        after: str | None = None,
    ) -> EpochTask:
        self._turn += 1
        return EpochTask(
            self._base.epoch + 1,
            self._division.stages[0],
            self._division.channels,
            first,
            end,
            finishing=finishing,
            after=after,
            base=self._base,
            turn=self._turn,
            snapshots=self._snapshots,
            cuts=self._cuts() if finishing is None and after is None else {},
            profiling=self.profiling,
            begun=self._begun,
        )

    def _cuts(self) -> dict[int, str]:
        """Return where units are cut; a unit has at most one cut, the first that fits."""
        found: dict[int, str] = {}
        for name in self._layout.graph.names:
            if name in self.cuts and why_not_cut(self._layout, name) is None:
                found.setdefault(self._layout.unit_of[name].number, name)
        return found

    def _through(
        self,
        shares: dict[tuple[int, int], Share],
        first: int,
        end: int,
        after: str | None = None,
        asked: Sequence[Report] = (),
    ) -> None:
        """Run an epoch through all levels, and have it entered in the books."""

        def go() -> list[Row]:
            task = self._task(first, end, after=after)
            stage = self._books.begin(Stamp(task.epoch, task.turn))
            return self._levels(replace(task, stage=stage), shares)

        rows = self._tried(go)
        ran = self._reports(rows)
        self.reports = reports = [*asked, *ran]
        units = self._layout.units
        self._begun = {units[r.unit].name: r.begun for r in ran if r.begun is not None}
        self._base = Stamp(self._base.epoch + 1, self._turn)
        sunk = self._sunk(rows)
        done = Done(self._base, reports, sunk, after, self._ended, self._begun)
        self._snapshots = self._books.took(done)

    def _tried(self, run: Callable[[], list[Row]]) -> list[Row]:
        """Run something again if a process that it needs was lost meanwhile."""
        for _ in range(TRIES - 1):
            try:
                return run()
            except Exception as error:
                # What a unit in the driver has done cannot be undone.
                if self._in_driver_too or not is_loss(error):
                    raise
        return run()

    @property
    def _in_driver_too(self) -> bool:
        return any(unit.in_driver for unit in self._layout.units)

    def _levels(
        self, task: EpochTask, shares: dict[tuple[int, int], Share]
    ) -> list[Row]:
        """Run one try of an epoch through all levels."""
        rows: list[Row] = []
        stages = self._division.stages
        for in_driver, some in itertools.groupby(stages, self._is_in_driver):
            part = list(some)
            if in_driver:
                for levels in part:
                    here = replace(task, levels=levels)
                    rows = self._in_driver(here, shares, rows)
            else:
                levels = range(part[0].start, part[-1].stop)
                later = [row for row in rows if not self._is_at(row, levels)]
                rows = later + self._job(part, task, self._handed(shares, rows))
        return rows

    def _is_in_driver(self, levels: range) -> bool:
        return self._layout.levels[levels[0]][0].in_driver

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
        stages: Sequence[range],
        task: EpochTask,
        shares: dict[tuple[int, int], Share],
    ) -> list[Row]:
        """Run some stages as one Spark job and return the rows that come out."""
        count = len(task.places(self._layout, stages[0]))
        spark = self._row_by_row if task.cuts else self._spark
        frame = spark.range(0, count, 1, count)
        for levels, then in itertools.zip_longest(stages, stages[1:], fillvalue=NONE):
            units = {u.number for level in levels for u in self._layout.levels[level]}
            own = {place: share for place, share in shares.items() if place[0] in units}
            here = replace(task, levels=levels, then=then, shares=own)
            if levels != stages[0]:
                count = len(task.places(self._layout, levels))
                frame = frame.repartitionById(count, "dest")
            halves: tuple[Half, ...] = ("whole",)
            if units.intersection(task.cuts):
                halves = ("first", "second")
            for half in halves:
                run = self._stage(replace(here, half=half))
                frame = frame.mapInArrow(run, ROW_SCHEMA)
        return _rows(frame.toArrow())

    @cached_property
    def _row_by_row(self) -> SparkSession:
        return row_by_row(self._spark)

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
        passed = [row for row in rows if not self._is_at(row, task.levels)]
        for ((unit, channel),) in task.places(self._layout, task.levels):
            if task.finishing is not None and task.finishing not in unit.operators:
                continue
            out = Rows()
            share = handed.get((unit.number, channel), Share())
            received: list[list[pa.Buffer]] = [[] for _ in unit.entries]
            self.runner.run_unit(task, (unit, channel), share, received, out)
            passed += out.listed()
        return passed

    def _is_at(self, row: Row, levels: range) -> bool:
        """Tell whether a row is for a unit on one of these levels."""
        return row[0] >= 0 and self._layout.units[row[0]].level in levels

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


def _may_finish(layout: Layout, name: str) -> bool:
    op = layout.graph[name]
    return bool(op.inputs) and kernel_of(op).finishes
