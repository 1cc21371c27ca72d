"""A program running in a thread of this process: its options, its end and its errors.

The operators that such threads are in can be named at any time.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Literal, TypeAlias

from anabranch.errors import is_of_engine
from anabranch.graph.graph import Graph
from anabranch.logs import log, logger_of
from anabranch.metrics.job_metrics import Adaptation, Journal, OnEpoch, ignore
from anabranch.plan.plan import Plan, Reason
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.failures import OnError, stop
from anabranch.runtime.memory_reserve import explain_lack, set_aside
from anabranch.runtime.profile import Undisturbed
from anabranch.runtime.program import operator_at
from anabranch.runtime.verify.verifier import Verify

_LOGGER = logger_of("runtime")
_LOOK_S = 0.1  # how often `hurry` is checked
_CLOSING_S = 5.0  # how long sinks may take to close when operators are abandoned

Status = Literal["running", "finished", "stopped", "failed"]

GRACE_S = 10.0  # how long a stopping job may take to end cleanly


@dataclass(frozen=True)
class Options:
    """The options of a run that engines read.

    `ambient` has the settings around its start; `journal` takes its adaptations, and
    `on_epoch` is called after each epoch (Spark).
    """

    on_error: OnError = stop
    degree: int | None = None
    checkpoint: str | None = None
    master: str | None = None
    epoch_items: int | None = None
    buckets: int | None = None
    verify: Verify = "sample"
    item_timeout_s: float | None = None
    replan: Callable[[Mapping[str, Reason]], Plan] | None = (
        None  # with what was refuted
    )
    ambient: Ambient = field(default_factory=Ambient)
    journal: Journal = field(default_factory=Journal)
    on_epoch: OnEpoch = ignore


class RunningThread(ABC):
    """The base of engines whose driving loop is a thread.

    `_run` does the work and checks `_stopping` between two steps.
    """

    def __init__(self, name: str, graph: Graph, options: Options) -> None:
        self._graph = graph
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._status: Status = "running"
        self._hung: str | None = None
        self._journal = options.journal
        self._started_s = time.monotonic()
        self._ended_s: float | None = None
        # Not `join`: before Python 3.13 one interrupted by Ctrl-C considers the thread
        # ended.
        self._ended = threading.Event()
        self._ending = threading.Lock()
        run = options.ambient.bind(self._run_guarded)
        self._thread = threading.Thread(target=run, name=name, daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        set_aside()
        self._thread.start()

    @abstractmethod
    def _run(self) -> bool:
        """Run to the end, or until `_stopping` is set; tell whether the end was
        reached.
        """

    @abstractmethod
    def _busy_operators(self) -> Collection[str]:
        """Return the operators whose code is running now."""

    @abstractmethod
    def _abandon(self) -> None:
        """Release the sinks while operators may still be at work."""

    def _run_guarded(self) -> None:
        try:
            self._end("finished" if self._run() else "stopped")
        except BaseException as error:  # noqa: BLE001 - raised in `wait`
            self._end("failed", explain_lack(error))

    def _end(self, status: Status, error: BaseException | None = None) -> bool:
        """Record how it has ended; only the first call counts.

        A failure of the engine while it stops is no failure of the job: a signal to all
        processes of a job also ends those of Spark.
        """
        with self._ending:
            if self._ended.is_set():
                return False
            if self._stopping.is_set() and is_of_engine(error):
                log(_LOGGER, logging.WARNING, "ended while stopping", error=repr(error))
                status, error = "stopped", None
            self._status, self._error = status, error
            self._ended_s = time.monotonic()
            self._log_end()  # before any waiting thread continues
            self._ended.set()
            return True

    def _log_end(self) -> None:
        fields = {"status": self._status, "seconds": self.elapsed_s}
        if self._error is None:
            log(_LOGGER, logging.INFO, "end of the job", **fields)
        else:
            error = repr(self._error)
            log(_LOGGER, logging.ERROR, "end of the job", **fields, error=error)

    @property
    def status(self) -> Status:
        return self._status

    @property
    def error(self) -> BaseException | None:
        return self._error

    @property
    def hung(self) -> str | None:
        return self._hung

    @property
    def history(self) -> tuple[Adaptation, ...]:
        return tuple(self._journal)

    @property
    def elapsed_s(self) -> float:
        """How long it has run."""
        return (self._ended_s or time.monotonic()) - self._started_s

    def wait(self, timeout: float | None = None) -> bool:
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    @property
    def ended(self) -> threading.Event:
        """Set when it has ended, well or not."""
        return self._ended

    def wait_for_end(self, seconds: float) -> bool:
        """Wait at most so long; tell whether it has ended, well or not."""
        return self._ended.wait(seconds)

    def stop(
        self, grace_s: float = GRACE_S, hurry: Callable[[], bool] = lambda: False
    ) -> None:
        """End early: cleanly within the grace, else without what still runs.

        In a `hurry`, the rest of the grace is skipped. If the program's own code calls
        it, the job ends when that has returned.
        """
        began_s = time.monotonic()
        self._ask_to_stop()
        if threading.current_thread() in self._threads:
            return  # an operator called it, and must return first
        try:
            while not hurry():
                left_s = began_s + grace_s - time.monotonic()
                if self._ended.wait(max(0.0, min(_LOOK_S, left_s))):
                    return
                if left_s <= 0:
                    break
        finally:  # also where a signal interrupts the wait
            self._give_up(time.monotonic() - began_s)

    @property
    def _threads(self) -> list[threading.Thread]:
        """The threads that run user code."""
        return [self._thread]

    def _ask_to_stop(self) -> None:
        self._stopping.set()

    def _give_up(self, waited_s: float) -> None:
        """End without waiting any longer for what still runs, if anything."""
        if self._ended.is_set():
            return
        self._hung = describe_hang(self._graph, self._busy_operators(), waited_s)
        if not self._cancel():
            closing = threading.Thread(target=self._abandon, daemon=True)
            closing.start()
            closing.join(_CLOSING_S)
            self._end("stopped")
        if self._status == "stopped":
            self._note("end without a clean stop", self._hung)
        else:  # it ended at that moment
            self._hung = None

    def _cancel(self) -> bool:
        """Interrupt what still runs, if possible; tell whether it has ended."""
        return False

    def _note(self, what: str, why: str, effect: str = "") -> Adaptation:
        return self._journal.note(Adaptation(self.elapsed_s, what, why, effect))


def describe_hang(graph: Graph, busy: Collection[str], waited_s: float) -> str:
    """Return in words what kept a job from stopping, and for how long.

    >>> describe_hang(Graph(()), [], 10.0)
    'the job had not come to an end 10.0 s after it was asked to stop, and was given up'
    """
    names = [f"{op.name!r} ({op.site})" for op in graph if op.name in busy]
    after = f"{waited_s:.1f} s after the job was asked to stop"
    if not names:
        return (
            f"the job had not come to an end {waited_s:.1f} s after it was asked to "
            f"stop, and was given up"
        )
    if len(names) == 1:
        return f"operator {names[0]} had not returned {after}, and was given up"
    listed = ", ".join(names)
    return f"one of the operators {listed} had not returned {after}, and was given up"


# The operator that a frame of our own code works for, if any.
Places: TypeAlias = Mapping[CodeType, Callable[[FrameType], str | None]]


def operators_of(threads: Iterable[threading.Thread], places: Places) -> list[str]:
    """Return the operators that threads are in now, each once.

    >>> operators_of([threading.current_thread()], {})
    []
    """
    idents = [thread.ident for thread in threads]
    found: dict[str, None] = {}
    with Undisturbed():
        frames = sys._current_frames()  # noqa: SLF001 - the only way
        for ident in idents:
            operator = operator_in(frames.get(ident or 0), places)
            if operator is not None:
                found[operator] = None
    return list(found)


def operator_in(frame: FrameType | None, places: Places) -> str | None:
    """Return the operator that a thread is in, given its innermost frame."""
    while frame is not None:
        place = places.get(frame.f_code)
        operator = operator_at(frame) if place is None else place(frame)
        if place is not None or operator is not None:
            return operator
        frame = frame.f_back
    return None
