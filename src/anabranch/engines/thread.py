"""A program that runs in a thread of this process: how it ends, and how it is told."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from anabranch.engines.engine import Change, Status


class RunningThread(ABC):
    """The base of engines whose driving loop is a thread.

    `_run` does the work and looks at `_stopping` between two steps.
    """

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._status: Status = "running"
        self._history: list[Change] = []
        self._started_s = time.monotonic()
        self._ended_s: float | None = None
        # Not `join`: before Python 3.13 one that Ctrl-C interrupts takes the thread for
        # ended.
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    @abstractmethod
    def _run(self) -> None:
        """Run to the end, or until `_stopping` is set."""

    def _guarded(self) -> None:
        try:
            self._run()
            self._status = "stopped" if self._stopping.is_set() else "finished"
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._error = error
            self._status = "failed"
        finally:
            self._ended_s = time.monotonic()
            self._ended.set()

    @property
    def status(self) -> Status:
        return self._status

    @property
    def error(self) -> BaseException | None:
        return self._error

    @property
    def history(self) -> tuple[Change, ...]:
        return tuple(self._history)

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

    def ended_within(self, seconds: float) -> bool:
        """Wait at most so long; tell whether it has ended, well or not."""
        return self._ended.wait(seconds)

    def stop(self) -> None:
        self._stopping.set()
        self._ended.wait()

    def metrics(self) -> dict[str, Any]:
        return {"status": self.status, "elapsed_s": self.elapsed_s}
