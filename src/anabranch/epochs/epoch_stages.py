"""Runs the stages of one try of an epoch, on the cluster or in the driver's process.

Most units run in tasks of the cluster. A unit whose effects must be seen in this process
runs here. Both exchange rows of the same form, and end with a report of each task. Tasks
also deliver the items of committed epochs to external sinks.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pyarrow as pa

from anabranch.connectors.files.arrow_items import form_of
from anabranch.epochs.cluster import TRIES, Cluster, StageShape
from anabranch.epochs.commit import FilesOfSinks
from anabranch.epochs.division import Division, Work
from anabranch.epochs.item_files import Delivered
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.shuffle import Row, TaskRows
from anabranch.epochs.state.buckets import Stamp
from anabranch.epochs.task import (
    REPORT,
    TO_DRIVER,
    DeliverItems,
    EpochAttempt,
    EpochTask,
    FinishOperators,
    Report,
    Share,
    Shares,
    TaskStage,
    load_report,
    pause_collection,
)
from anabranch.epochs.task_runner import Runner
from anabranch.epochs.wire import decode, end_to_end, in_order
from anabranch.errors import AnabranchError, EngineError, FencedError
from anabranch.operators.sinks import is_unordered

NONE = range(0)  # levels of the stage behind the last


class EpochStages:
    """Runs the stages of epochs; `runner` runs the units of this process."""

    def __init__(self, cluster: Cluster, layout: EpochLayout, runner: Runner) -> None:
        self.cluster = cluster
        self.layout = layout
        self.runner = runner
        # a division, and its units with their replicas
        self._places: tuple[Division, list[tuple[int, int]]] | None = None

    @property
    def in_driver_too(self) -> bool:
        """Whether the driver runs units too, which cannot run again."""
        return any(unit.in_driver for unit in self.layout.units)

    def is_in_driver(self, levels: range) -> bool:
        """Tell whether the units of a stage run in this process."""
        return self.layout.levels[levels[0]][0].in_driver

    def retry(self, run: Callable[[], list[Row]]) -> list[Row]:
        """Run something again if a process it needs was lost meanwhile."""
        cluster = self.cluster
        for _ in range(TRIES - 1):
            try:
                return run()
            except Exception as error:
                # The effects of a unit in the driver cannot be undone; and cancelled
                # workers are not lost.
                lost = cluster.is_loss(error) and not cluster.cancelled
                if self.in_driver_too or not lost:
                    raise
        return run()

    def run_all(
        self, stages: Sequence[range], task: EpochTask, shares: Shares, work: Work
    ) -> list[Row]:
        """Run one try of an epoch through all its stages."""
        rows: list[Row] = []
        for in_driver, some in itertools.groupby(stages, self.is_in_driver):
            part = list(some)
            if in_driver:
                for levels in part:
                    rows = self.run_here(_at(task, levels), shares, rows)
            else:
                levels = range(part[0].start, part[-1].stop)
                later = [row for row in rows if not self._is_at(row, levels)]
                given = _hand_out(shares, rows)
                rows = later + self.run_there(part, task, given, work)
        return rows

    def run_there(
        self, stages: Sequence[range], task: EpochTask, shares: Shares, work: Work
    ) -> list[Row]:
        """Run some stages on the cluster; return the rows for the driver."""
        self.cluster.note(stages, task.attempt)
        shapes, tasks = self.prepare(stages, task, shares)
        return self.cluster.run(shapes, tasks, shares, work)

    def run_here(self, task: EpochTask, shares: Shares, rows: list[Row]) -> list[Row]:
        """Run the units of a level in this process."""
        task = replace(task, shares=_hand_out(shares, rows))
        passed = [row for row in rows if not self._is_at(row, task.stage.levels)]
        for ((unit, channel),) in task.stage.places(self.layout, task.stage.levels):
            match task.mode:
                case FinishOperators(some) if not {*some}.intersection(unit.operators):
                    continue
            out = TaskRows()
            self.runner.run_unit(task, (unit, channel), out)
            passed += out.list_blobs()
        return passed

    def prepare(
        self, stages: Sequence[range], task: EpochTask, shares: Shares
    ) -> tuple[list[StageShape], list[EpochTask]]:
        """Return the shape of each stage, and its task."""
        layout = self.layout
        shapes, tasks = [], []
        for levels, then in itertools.zip_longest(stages, stages[1:], fillvalue=NONE):
            units = {u.number for level in levels for u in layout.levels[level]}
            own = {place: share for place, share in shares.items() if place[0] in units}
            names = {layout.units[number].name for number in units}
            versions = {
                name: found
                for name, found in task.attempt.versions.items()
                if name in names
            }
            attempt = replace(task.attempt, versions=versions)
            stage = replace(task.stage, levels=levels, then=then)
            tasks.append(replace(task, stage=stage, attempt=attempt, shares=own))
            together = layout.together(levels)
            count = sum(task.stage.channels[some[0].number] for some in together)
            cuts = max(len(task.cuts.get(number, ())) for number in units)
            name = ", ".join(layout.units[number].name for number in sorted(units))
            shapes.append(StageShape(count, 1 + cuts, name))
        return shapes, tasks

    def _is_at(self, row: Row, levels: range) -> bool:
        """Tell whether a row is for a unit on one of these levels."""
        return row[0] >= 0 and self.layout.units[row[0]].level in levels

    def load_reports(self, rows: Sequence[Row]) -> list[Report]:
        """Return the reports among the rows of an epoch, by unit and replica."""
        pickler = self.runner.pickler
        with pause_collection():
            reports = [
                load_report(payload, pickler)
                for unit, _, _, payload in rows
                if unit == REPORT
            ]
        return sorted(reports, key=attrgetter("unit", "channel"))

    def refuse_missing(
        self,
        division: Division,
        reports: Sequence[Report],
        cuts: Mapping[int, Sequence[str]],
    ) -> None:
        """Refuse an epoch unless each task has reported once, or once per part."""
        expected = self._list_places(division)
        found = [(report.unit, report.channel) for report in reports]  # sorted
        if found == expected:
            return
        counts = Counter(found)
        if sorted(counts) == expected and all(
            count <= 1 + len(cuts.get(unit, ())) for (unit, _), count in counts.items()
        ):
            return
        msg = (
            f"each task must report once; of {expected} (unit, replica) the "
            f"reports were {dict(counts)}; this is a fault of Anabranch, please report it"
        )
        raise EngineError(msg)

    def _list_places(self, division: Division) -> list[tuple[int, int]]:
        """Return the unit and replica of each task, sorted."""
        if self._places is None or self._places[0] != division:
            places = sorted(
                (unit.number, channel)
                for levels in division.stages
                for together in self.layout.together(levels)
                for unit in together
                for channel in range(division.channels[together[0].number])
            )
            self._places = division, places
        return self._places[1]

    def collect_sinks(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """Return the items of driver sinks, in order unless a sink takes any."""
        graph, pickler = self.layout.graph, self.runner.pickler
        found: dict[str, list[Any]] = {}
        for unit, _, entry, payload in rows:
            if unit == TO_DRIVER:
                found.setdefault(graph.names[entry], []).append(payload)
        sunk = {}
        for sink, blobs in found.items():
            kind = graph[graph[sink].inputs[0].operator].type
            form = None if kind is None else form_of(kind)
            batches = [decode(pa.py_buffer(blob), form, pickler) for blob in blobs]
            join = end_to_end if is_unordered(graph[sink]) else in_order
            sunk[sink] = join(batches).items
        return sunk


def raise_first(reports: list[Report]) -> list[Report]:
    """Raise the first error in reports, by place; return them if there is none."""
    failed = [(r.error, r.cause) for r in reports if r.error is not None]
    if failed:
        error, cause = min(failed, key=lambda one: _place_of(one[0]))
        raise error from cause
    return reports


def _place_of(error: BaseException) -> tuple[tuple[float, ...], bytes]:
    if not isinstance(error, AnabranchError):
        return (math.inf,), b""
    return (math.inf,) if error.place is None else error.place, error.rank


def _hand_out(shares: Shares, rows: Sequence[Row]) -> dict[tuple[int, int], Share]:
    """Return the shares of tasks, with the driver's rows for them."""
    handed = dict(shares)
    for unit, channel, entry, payload in rows:
        if unit >= 0:
            share = handed.get((unit, channel), Share())
            blobs = (*share.blobs, (entry, payload))
            handed[unit, channel] = replace(share, blobs=blobs)
    return handed


def _at(task: EpochTask, levels: range) -> EpochTask:
    """Return a task as units on other levels get it."""
    return replace(task, stage=replace(task.stage, levels=levels))


class DeliveryTasks:
    """Delivers epoch by epoch, while later epochs run.

    If a process is lost, or another one has taken over a sink, a delivery is tried
    again, unless another run has the checkpoint: the sinks know which epochs they have.
    """

    def __init__(
        self,
        stages: EpochStages,
        refuse_other_run: Callable[[], None],
        next_turn: Callable[[], int],
        find_oldest_run: Callable[[], int | None],
    ) -> None:
        self._stages = stages
        self._refuse_other_run = refuse_other_run
        self._next_turn = next_turn
        self._find_oldest_run = find_oldest_run
        self._last: dict[str, int] = {}  # epoch by sink
        self._done: tuple[str, ...] = ()  # files that the next delivery removes

    def deliver(self, stamp: Stamp, files: FilesOfSinks) -> dict[str, Delivered]:
        """Have tasks deliver the items of an epoch; return what sinks have accepted."""
        cluster = self._stages.cluster
        for tries in range(TRIES):
            task = self._make_task(stamp, files, again=tries > 0)
            try:
                reports = raise_first(self._stages.load_reports(self._run(task)))
            except Exception as error:
                self._refuse_other_run()
                lost = isinstance(error, FencedError) or cluster.is_loss(error)
                if cluster.cancelled or not lost or tries == TRIES - 1:
                    raise
            else:
                break
        self._last |= dict.fromkeys(files, stamp.epoch)
        self._done = tuple(one.file for some in files.values() for one in some)
        return {
            one.sink: Delivered(one.items, report.failures)
            for report in reports
            for one in report.written
        }

    def _make_task(
        self, stamp: Stamp, files: FilesOfSinks, *, again: bool
    ) -> EpochTask:
        """Return the task that delivers an epoch: one replica of a unit per sink."""
        layout = self._stages.layout
        units = [unit for unit in layout.units if not unit.in_driver]
        unit = min(units, key=lambda one: len(layout.levels[one.level]))
        channels = [1] * len(layout.units)
        channels[unit.number] = len(files)
        return EpochTask(
            TaskStage(range(unit.level, unit.level + 1), tuple(channels)),
            EpochAttempt(Stamp(stamp.epoch - 1, 0), self._next_turn()),
            DeliverItems(
                stamp, unit.number, files, dict(self._last), self._done, again
            ),
        )

    def _run(self, task: EpochTask) -> list[Row]:
        ((shape,), (task,)) = self._stages.prepare([task.stage.levels], task, {})
        return self._stages.cluster.deliver(shape, task, behind=self._find_oldest_run())
