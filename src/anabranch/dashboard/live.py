"""The dashboard of a running job: a thread samples the job and writes its record."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anabranch.dashboard.server import Server
from anabranch.logs import log, logger_of
from anabranch.metrics.job_metrics import EpochTrace
from anabranch.metrics.run_record import (
    MOST_EPOCHS,
    JobSnapshot,
    append,
    epoch_line,
    lines_of,
)

_LOGGER = logger_of("dashboard")
PERIOD_S = 1.0


class Live:
    """The dashboard of a job: `address` is where to see it, `record` its file.

    It ends within a second after the job; `close` waits for that.
    """

    def __init__(self, port: int = 0) -> None:
        self._server = Server(port)
        self.address = self._server.address
        opened, name = tempfile.mkstemp(prefix="anabranch-run-", suffix=".jsonl")
        os.close(opened)
        self.record = Path(name)
        self._epochs: deque[EpochTrace] = deque(maxlen=MOST_EPOCHS)
        self._over = threading.Event()
        self._closed = threading.Event()

    def begin(
        self,
        program: Mapping[str, Any],
        look: Callable[[], JobSnapshot],
        stop: Callable[[], object] | None = None,
    ) -> None:
        """Show a job from now on; with `stop` the page can stop it."""
        append(self.record, [{"program": program}])
        self._server.begin(self.record, stop=stop)
        threading.Thread(
            target=self._follow, args=(look,), name="recorder", daemon=True
        ).start()

    def trace(self, epoch: EpochTrace) -> None:
        """Record a finished epoch, with the next sample."""
        self._epochs.append(epoch)

    def close(self) -> None:
        """Write the end of a finished job, and stop serving."""
        self._over.set()
        self._closed.wait()

    def give_up(self) -> None:
        """Stop serving a job that could not start."""
        self._server.close()
        self.record.unlink()

    def _follow(self, look: Callable[[], JobSnapshot]) -> None:
        """Record samples until the job ends. If that fails, the job continues."""
        before: JobSnapshot | None = None
        try:
            while before is None or before.status == "running":
                now = look()
                epochs = [self._epochs.popleft() for _ in range(len(self._epochs))]
                append(self.record, [*map(epoch_line, epochs), *lines_of(now, before)])
                before = now
                if now.status == "running":
                    self._over.wait(PERIOD_S)
        except Exception as error:  # noqa: BLE001 - the job goes on
            log(_LOGGER, logging.ERROR, "the dashboard ends early", error=repr(error))
        finally:
            self._server.close()
            self._closed.set()
