"""The cluster that runs the stages of epochs, as the epoch loop sees it.

An engine for epochs implements this protocol; the loop knows nothing else of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.epochs.division import Work
from anabranch.epochs.shuffle import Row
from anabranch.epochs.task import EpochAttempt, EpochTask, Shares

TRIES = 5  # of an epoch, before a loss counts as a failure


@dataclass(frozen=True)
class StageShape:
    """The number of tasks of a stage, and of workers per task.

    The pages of the cluster show its `name`, if it has any.
    """

    tasks: int
    workers: int
    name: str = "run_stage"


class Cluster(Protocol):
    """Runs stages, in resident tasks if it can; used by the thread of the loop."""

    result_limit: str  # its setting for the size of what the driver receives

    @property
    def cores(self) -> int:
        """The number of tasks that can run at the same time."""

    @property
    def stays(self) -> bool:
        """Whether there are resident tasks now."""

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled."""

    def note(self, stages: Sequence[range], attempt: EpochAttempt) -> None:
        """Note the stages that begin."""

    def refuse_if_abandoned(self) -> None:
        """Stop the thread of the loop if nobody waits for it any more."""

    def run(
        self,
        shapes: Sequence[StageShape],
        tasks: Sequence[EpochTask],
        shares: Shares,
        work: Work,
    ) -> list[Row]:
        """Run stages; return the rows for the driver. Other runs are abandoned."""

    def begin(
        self,
        tasks: Sequence[EpochTask],
        shares: Shares,
        work: Work,
        *,
        behind: int | None,
    ) -> int | None:
        """Begin to run stages in resident tasks, beside the runs from `behind` on.

        Returns the number of the run; None if it cannot begin now.
        """

    def is_done(self, run: int) -> bool:
        """Tell whether `collect` would return, or fail, at once."""

    def collect(self, run: int) -> list[Row]:
        """Wait for a run; return the rows for the driver."""

    def deliver(
        self, shape: StageShape, task: EpochTask, *, behind: int | None
    ) -> list[Row]:
        """Run a task that delivers an epoch, beside the runs from `behind` on."""

    def leave(self) -> None:
        """Release the resident tasks."""

    def find_homes(self) -> dict[tuple[int, int], int]:
        """Return the resident process of each replica of a unit, by number."""

    def is_loss(self, error: BaseException) -> bool:
        """Tell whether stages failed because a process was lost: they can run again."""

    def is_too_large(self, error: BaseException) -> bool:
        """Tell whether stages failed because their rows were too large to receive."""

    def describe_start(self, error: Exception) -> Exception | None:
        """Return the user's error if tasks cannot start here; None for another one."""
