"""Has tasks deliver the items of a committed epoch to external sinks."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.epochs.cluster import TRIES
from anabranch.epochs.commit import FilesOfSinks
from anabranch.epochs.epoch_stages import EpochStages, raise_first
from anabranch.epochs.item_files import Delivered
from anabranch.epochs.shuffle import Row
from anabranch.epochs.state.buckets import Stamp
from anabranch.epochs.task import DeliverItems, EpochAttempt, EpochTask, TaskStage
from anabranch.errors import FencedError


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
            sink: Delivered(accepted, report.failures)
            for report in reports
            for sink, accepted in report.written.items()
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
