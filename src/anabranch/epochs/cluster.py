"""The engine under a run of epochs, as two protocols that it implements.

A `Backend` is its connection for one run, a `Cluster` runs the stages of one layout. The
run of epochs (`EpochRun`) and their loop (`Epochs`) know nothing else of an engine, so
another engine for batches of work needs only these two classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from anabranch.connectors.storage import Location
from anabranch.epochs.division import Work
from anabranch.epochs.intake.intake import Intake
from anabranch.epochs.intake.items import Chunks, SharedChunks
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.shuffle import Row
from anabranch.epochs.task import EpochAttempt, EpochTask, Shares, Spec
from anabranch.graph.graph import Op
from anabranch.metrics.job_metrics import RunsOn

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
        """Release the resident tasks, and whatever else a job keeps on the cluster."""

    def find_homes(self) -> dict[tuple[int, int], int]:
        """Return the resident process of each replica of a unit, by number."""

    def is_loss(self, error: BaseException) -> bool:
        """Tell whether stages failed because a process was lost: they can run again."""

    def is_too_large(self, error: BaseException) -> bool:
        """Tell whether stages failed because their rows were too large to receive."""

    def describe_start(self, error: Exception) -> Exception | None:
        """Return the user's error if tasks cannot start here; None for another one."""


class Backend(Protocol):
    """An engine's connection for one run.

    The thread of the run calls `open` first; until then nothing runs that could be
    cancelled. Other threads ask, cancel and abandon.
    """

    name: RunsOn  # the engine, as in `on=`

    def open(self, layout: EpochLayout, scratch: Path) -> None:
        """Connect; `scratch` is the directory of the run, on every host."""

    def check_workers(self) -> None:
        """Refuse workers that cannot run the program, as far as that is known."""

    def join(self) -> None:
        """Attach the work that this thread starts to the run."""

    @property
    def cores(self) -> int:
        """The number of tasks that can run at the same time."""

    @property
    def web_address(self) -> str | None:
        """The address of the engine's own pages, if known."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether all tasks run on the driver's machine."""

    def why_not_one_host(self) -> str | None:
        """Return what says that tasks run on several hosts, or None."""

    def find_result_limit(self) -> float:
        """Return the number of bytes that the driver can receive for one epoch."""

    def open_cluster(
        self, spec: Spec, shipped: bytes, *, in_round: bool = False
    ) -> Cluster:
        """Return a cluster for a layout; workers unpack the `shipped` specification.

        A run has one at a time, and beside it one `in_round` for the body of an
        `iterate`.
        """

    def share(self, chunks: Chunks) -> SharedChunks:
        """Send chunks to all hosts."""

    def open_frame(self, op: Op, scratch: Path, checkpoint: Location | None) -> Intake:
        """Return the intake of a DataFrame of the engine."""

    def make_frame(self, table: pa.Table) -> Any:
        """Return a DataFrame of the engine with these rows."""

    def describe_error(self, error: BaseException) -> Exception | None:
        """Return the user's error for a failure of the engine; None for another one."""

    def count_done(self) -> dict[str, int]:
        """Return the items that operators have done so far in the current epoch."""

    def ask(self) -> None:
        """Ask the workers to report, from now on, which operator they are in."""

    def find_busy(self) -> list[str]:
        """Return the operators that workers are in, as far as they have reported."""

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""

    def cancel(self) -> bool:
        """Cancel what runs in workers; tell whether anything could be running."""

    def abandon(self) -> None:
        """Note that nobody waits any more for what runs in the driver."""

    def clear_hosts(self, scratch: str, states_name: str | None) -> None:
        """Remove a run's files from other hosts, as far as they answer."""

    def close(self) -> None:
        """Release what the run has on the cluster."""
