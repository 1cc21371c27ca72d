"""The Spark tasks of a job as a group: their positions, losses and cancellation.

A lost process (a Python worker, an executor) can be replaced: an epoch counts only when
it is committed. A program that failed would fail again. This module distinguishes the
two.

A worker inside a user's function cannot be asked. So when a job is to stop, a file says
so, and a thread in each worker of this host answers with the operator that the worker
is in. Of workers elsewhere only the stage is known.

Spark's pages list jobs and stages by their labels: group, pool, description and tag. A group, a pool and a description that the
user has set for the thread that starts a program apply to its jobs too; they run in our
threads, to which Spark does not pass them on. A tag of our own finds the jobs to
cancel, whatever group they belong to.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

from anabranch.engines.spark.access import SparkAccess
from anabranch.epochs.intake.items import read_generated
from anabranch.epochs.item_files import Deliverer
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.resident.link import LostError
from anabranch.epochs.task import EpochAttempt
from anabranch.epochs.unit.egress import Exits
from anabranch.epochs.unit.progress import PROGRESS, sum_up
from anabranch.errors import AnabranchError, EngineError, advise
from anabranch.graph.graph import Graph
from anabranch.runtime.ports import AbortedError
from anabranch.runtime.thread import Places, operators_of

GROUP = "spark.jobGroup.id"
POOL = "spark.scheduler.pool"
DESCRIPTION = "spark.job.description"
INTERRUPT = "spark.job.interruptOnCancel"
_MODE = "spark.scheduler.mode"
_MOST = 8  # operators named in a description


@dataclass(frozen=True)
class JobLabels:
    """The labels of a program's jobs; `given` ones come from the user's thread."""

    program: str
    given_group: str | None = None
    given_pool: str | None = None
    given_description: str | None = None

    def set_in_thread(self, access: SparkAccess, tag: str) -> None:
        """Label the jobs that this thread starts from now on."""
        pool = self.given_pool
        if pool is None and access.get_setting(_MODE) == "FAIR":
            pool = self.program  # a share of its own beside other programs
        access.set_property(GROUP, self.given_group or f"{self.program} {tag}")
        if pool is not None:
            access.set_property(POOL, pool)
        access.set_property(DESCRIPTION, self.describe("reading", ()))
        access.set_property(INTERRUPT, "true")
        access.add_tag(tag)

    def describe(self, step: str, operators: Sequence[str]) -> str:
        """Return the description of a job.

        >>> JobLabels("trades.py").describe("epoch 3", ["parse", "count"])
        'trades.py, epoch 3: parse, count'
        """
        named = ", ".join(operators[:_MOST])
        if len(operators) > _MOST:
            named = f"{named} and {len(operators) - _MOST} more"
        before = self.given_description
        program = self.program if before is None else f"{before} ({self.program})"
        return f"{program}, {step}: {named}" if named else f"{program}, {step}"


def find_labels(graph: Graph) -> JobLabels:
    """Return the labels of a program that this thread starts."""
    program = next((Path(op.site.file).name for op in graph.sinks), "anabranch")
    context = SparkContext._active_spark_context  # noqa: SLF001 - it makes none
    if context is None:
        return JobLabels(program)
    group, pool, description = map(context.getLocalProperty, (GROUP, POOL, DESCRIPTION))
    return JobLabels(program, group, pool, description)


_SIGNS = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Python worker process terminated",
    "Python daemon failed to launch worker",
    "ClosedChannelException",
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailed",
    "stage with indeterminate output was failed",  # after a fetch failure
    "Connection reset",
    "Broken pipe",
    "java.io.EOFException",
)


_TOO_LARGE = "Total size of serialized results"
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


def is_loss(error: BaseException) -> bool:
    """Tell whether a Spark job ended because one of its processes did.

    >>> is_loss(RuntimeError("... ExecutorLostFailure (executor 1 exited) ..."))
    True
    >>> is_loss(RuntimeError("A shuffle map stage with indeterminate output was failed"))
    True
    >>> is_loss(RuntimeError("ZeroDivisionError"))
    False
    """
    text = str(error)
    return isinstance(error, LostError) or any(sign in text for sign in _SIGNS)


def is_too_large(error: BaseException) -> bool:
    """Tell whether a Spark job ended because the driver may not take its results."""
    return _TOO_LARGE in str(error)


def engine_error(
    error: BaseException, operators: Sequence[str] = ()
) -> EngineError | None:
    """Return the user's error for a failure of Spark, of a process or of a disk.

    None for any other error. Spark's whole report stays the cause of the error.
    `operators` are those that were at work.

    >>> str(engine_error(OSError(28, "No space left on device"))).partition(";")[0]
    'Spark must be able to run the tasks of a job'
    >>> engine_error(ZeroDivisionError()) is None
    True
    >>> text = "Total size of serialized results of 3 tasks (9 MiB) is bigger than x"
    >>> "epoch_items" in str(engine_error(OSError(f"Job aborted: {text}")))
    True
    """
    text = str(error)
    if isinstance(error, AnabranchError):
        return None
    if _TOO_LARGE in text:
        return EngineError(
            f"what an epoch brings to the driver must fit into "
            f"spark.driver.maxResultSize; Spark says: {_line_with(text, _TOO_LARGE)}; "
            f"take fewer rows for each epoch (epoch_items=) or raise that setting; "
            f"sinks that tasks write, as files, bring nothing to the driver"
        )
    full = any(sign in text for sign in _FULL)
    if not (full or isinstance(error, OSError) or _is_sparks(error)):
        return None
    if is_loss(error) and not full:
        return _loss_error(text, operators)
    advice = advise(text, "its __cause__ has the whole report of Spark")
    if full:
        advice = "free space in the temporary directory (TMPDIR, spark.local.dir)"
    return EngineError(
        f"Spark must be able to run the tasks of a job; it failed with: "
        f"{telling_line(text)}; {advice}"
    )


def _loss_error(text: str, operators: Sequence[str]) -> EngineError:
    """Return the error for a process that was lost in every try."""
    at_work = " or ".join(map(repr, operators[:_MOST]))
    during = f" while {at_work} ran" if operators else ""
    return EngineError(
        f"the processes of a job must stay alive; one was lost{during}, again and "
        f"again: {telling_line(text)}; if the system ended it for want of memory (dmesg "
        f"or the container's events say so), allow it more, or take a smaller "
        f"epoch_items= or degree=; else look for code that ends its process; with a "
        f"checkpoint the job then resumes"
    )


def _line_with(text: str, sign: str) -> str:
    """Return the first line of a report that contains a sign, from there on."""
    line = next(line for line in text.splitlines() if sign in line)
    return line[line.index(sign) :].strip()


def _is_sparks(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


_JAVA = re.compile(r"(?:Caused by: )?(?:java|org|scala|io|com)\.")
_FRAME = re.compile(
    r"[\w.$/]+\(.*\)"
)  # of a stack: java.lang.Thread.run(Thread.java:840)
_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b")


def telling_line(text: str) -> str:
    r"""Return the line of a Spark report that says what happened.

    That is the last line of the worker's own traceback, or Java's last cause.

    >>> telling_line("Traceback ...\nOSError: [Errno 28] full\n\tat org.X")
    'OSError: [Errno 28] full'
    >>> telling_line("org.X: aborted\n\tat org.X\nCaused by: java.io.IOException: full")
    'java.io.IOException: full'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    python = [n for n in lines if _RAISED.match(n) and not _JAVA.match(n)]
    java = [n for n in lines if _JAVA.match(n) and not _FRAME.fullmatch(n)]
    found = (python or java or lines or ["nothing was reported"])[-1]
    return found.strip().removeprefix("Caused by: ")


ASKED = "where"  # the request file
ANSWERS = "at-*"
DONE = "done-*"  # the progress files of workers
ANSWER_S = 0.5  # between two checks for a request
LATE_S = 3.0  # an older answer belongs to a worker that is gone
PATIENCE_S = 3.0  # a busy machine may answer late

PLACES: Places = {
    Exits.write.__code__: lambda frame: frame.f_locals["sink"],
    Deliverer.deliver.__code__: lambda frame: frame.f_locals["sink"],
    read_generated.__code__: lambda frame: frame.f_locals["op"].name,
}


class Tasks:
    """The tasks of a job, as the driver sees them."""

    def __init__(
        self,
        access: SparkAccess,
        layout: EpochLayout,
        directory: Path,
        labels: JobLabels,
    ) -> None:
        self._access = access
        self.layout = layout
        self._directory = directory
        self._labels = labels
        self._tag = directory.name  # of no other job
        self.stages: Sequence[range] = ()  # that run
        self._runs = 0, 0  # its epoch and turn
        self.cancelled = False
        self.abandoned = False  # nobody waits any more for what runs in the driver

    def join(self) -> None:
        """Attach the Spark jobs that this thread starts to the program."""
        self._labels.set_in_thread(self._access, self._tag)

    def note(self, stages: Sequence[range], attempt: EpochAttempt) -> None:
        """Record the stages that begin."""
        self.stages = stages
        self._runs = attempt.epoch, attempt.turn

    @property
    def stage_operators(self) -> list[str]:
        """The operators of the stages that run."""
        levels = self.layout.levels
        units = [
            unit for some in self.stages for level in some for unit in levels[level]
        ]
        names = [name for unit in units for name in (*unit.operators, *unit.writes)]
        return list(dict.fromkeys(names))

    def describe_stages(self, step: str) -> None:
        """Describe the Spark job that runs the stages."""
        self.describe(step, self.stage_operators)

    def describe(self, step: str, operators: Sequence[str] = ()) -> None:
        """Describe the Spark jobs that this thread starts from now on."""
        text = self._labels.describe(step, operators)
        self._access.set_property(DESCRIPTION, text)

    def count_done(self) -> dict[str, int]:
        """Return the items that operators have done so far in the current epoch.

        Workers of this host report them every half a second.
        """
        lines = []
        for path in self._directory.glob(DONE):
            with contextlib.suppress(OSError):
                lines.append(path.read_text())
        units = sum_up(lines, *self._runs)
        return {
            name: items
            for number, items in sorted(units.items())
            for name in self.layout.units[number].operators
        }

    def ask(self) -> None:
        """Ask the workers to report, from now on, which operator they are in."""
        with contextlib.suppress(OSError):
            (self._directory / ASKED).touch()

    def operators(self) -> list[str]:
        """Return the operators that workers report, or those of the stage."""
        until_s = time.monotonic() + PATIENCE_S
        while not (named := self._read_answers() or self._in_running_stages()):
            if time.monotonic() > until_s:
                break
            time.sleep(ANSWER_S)
        return named

    def _read_answers(self) -> list[str]:
        found: dict[str, None] = {}
        for path in self._directory.glob(ANSWERS):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime < LATE_S:
                    found |= dict.fromkeys(path.read_text().split("\n"))
        return [name for name in found if name in self.layout.graph]

    def _in_running_stages(self) -> list[str]:
        active: list[bool] | None = []
        with contextlib.suppress(Exception):  # Spark may be gone already
            active = self._access.find_active_stages(self._tag)
        if active is None:  # any of them may be
            return self.stage_operators
        return [
            name
            for is_active, levels in zip(active, self.stages, strict=False)
            if is_active
            for level in levels
            for unit in self.layout.levels[level]
            for name in (*unit.operators, *unit.writes)
        ]

    def cancel(self) -> None:
        """Cancel what runs; Spark kills workers that do not end their task."""
        self.cancelled = True
        with contextlib.suppress(Exception):  # Spark may be gone already
            self._access.cancel(self._tag)

    def refuse_if_abandoned(self) -> None:
        """Stop the driver's thread if it returns after the job was abandoned."""
        if self.abandoned:
            raise AbortedError


_answering: set[str] = set()  # the directories watched by a thread of this process


def answer_in(directory: str) -> None:
    """Start a thread in this worker that reports the main thread's operator on
    request.
    """
    if directory in _answering:
        return
    _answering.clear()  # a worker serves one job at a time
    _answering.add(directory)
    threading.Thread(
        target=_answer, args=(Path(directory),), name="where", daemon=True
    ).start()


def _answer(directory: Path) -> None:
    path = directory / f"at-{os.getpid()}"
    told = ""
    while str(directory) in _answering:
        time.sleep(ANSWER_S)
        with contextlib.suppress(OSError, RuntimeError):  # while a task counts
            if (done := PROGRESS.describe()) != told and directory.exists():
                _write_whole(directory / f"done-{os.getpid()}", done)
                told = done
            if not (directory / ASKED).exists():
                continue
            busy = operators_of([threading.main_thread()], PLACES)
            if busy:
                _write_whole(path, "\n".join(busy))
            else:
                path.unlink(missing_ok=True)


def _write_whole(path: Path, text: str) -> None:
    """Write a file atomically."""
    whole = path.with_name(f"new-{path.name}")
    whole.write_text(text)
    whole.replace(path)
