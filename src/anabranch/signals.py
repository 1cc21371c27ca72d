"""Ctrl-C and SIGTERM while a job runs: the first stops it, the second ends it at once.

Handlers are installed in the main thread only, if no other handler is installed, and
only while a job runs. A user's handler stays: what it raises stops the job just as
well.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from anabranch.errors import AnabranchError, is_of_engine
from anabranch.logs import announce, logger_of
from anabranch.runtime.thread import GRACE_S

_LOGGER = logger_of("signals")
POLL_S = 0.2
AT_ONCE = 2  # signals after which nothing is awaited any more


class Stoppable(Protocol):
    """A job, as far as signals are concerned."""

    @property
    def status(self) -> str:
        """Its status."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; an error of the program is raised."""

    def end(self, grace_s: float, hurry: Callable[[], bool]) -> None:
        """Stop it; after the grace, or in a `hurry`, at once."""


class Signals:
    """Records signals in its block, in the main thread.

    Outside `waiting` a signal raises its error: `KeyboardInterrupt`, or `SystemExit`
    with the conventional status.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.times = 0
        self._waiting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if is_default_handler(number, handler):
                    self._before[number] = handler
                    signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            # else someone has installed another one
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Only record signals in this block: its code checks `times`."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    @property
    def exit_status(self) -> int:
        """The conventional exit status after the signal."""
        return 0 if self.received is None else 128 + self.received

    def error(self, text: str | None = None) -> BaseException:
        """Return the error for the signal."""
        if self.received == signal.SIGTERM:
            return SystemExit(self.exit_status)
        return KeyboardInterrupt() if text is None else KeyboardInterrupt(text)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number)
        self.times += 1
        if not self._waiting or self.times > AT_ONCE:
            raise self.error()


def is_default_handler(number: signal.Signals, handler: Any) -> bool:
    """Tell whether a handler is Python's default, or Spark's own.

    >>> is_default_handler(signal.SIGINT, signal.SIG_IGN)
    False
    """
    if number == signal.SIGTERM:
        return handler is signal.SIG_DFL
    # A session made in the main thread cancels its jobs on Ctrl-C, which would look
    # like a failure of the epoch.
    sparks = str(getattr(handler, "__module__", "")).startswith("pyspark.")
    return handler is signal.default_int_handler or sparks


def wait_for_end(
    job: Stoppable,
    signals: Signals,
    *,
    look: Callable[[], object] = lambda: None,
    told: Callable[[], object] = lambda: None,
) -> None:
    """Wait for the end of a job, or stop it when a signal comes.

    Meanwhile `look` is called from time to time; `told` when a signal has come.
    """
    try:
        while not signals.times and not job.wait(POLL_S):
            look()
    except BaseException as error:
        if job.status == "running":  # it was raised by someone else's handler
            job.end(GRACE_S, lambda: False)
        # A signal may have reached Spark's own processes too, and so ended the epoch.
        of_program = isinstance(error, AnabranchError) and not is_of_engine(error)
        if not signals.times or of_program:
            raise
    if signals.times:
        told()
        job.end(GRACE_S, lambda: signals.times >= AT_ONCE)


def raise_signal(signals: Signals, outcome: str) -> None:
    """Raise the error of the signal that has stopped a job, if one has.

    `outcome` says what has become of the job and of its output. It is the text of a
    `KeyboardInterrupt`; a `SystemExit` shows none, so it is announced.
    """
    if signals.received is None:
        return
    if signals.received == signal.SIGTERM:
        announce(_LOGGER, outcome)
    raise signals.error(outcome)
