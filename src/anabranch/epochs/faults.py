"""Places where a test can have a process killed, as if the machine had failed there.

`ANABRANCH_FAULTS` names a directory; a file `committed:3` in it asks for a kill at the
place `committed` of epoch 3 (`*`: of any). The process that comes there first takes the file away
and kills itself. Without the variable nothing of this costs anything.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

_DIRECTORY = os.environ.get("ANABRANCH_FAULTS")

watchers: list[Callable[[str, int], None]] = []  # told each place and epoch, by tests

IN_WORKERS = (
    "begun",
    "opened",
    "half-written",
    "written",
    "processed",
    "logged",
    "half-stored",
    "stored",
    "snapshot",
)
IN_DRIVER = (
    "taken",
    "ran",
    "half-recorded",
    "committed",
    "half-published",
    "published",
    "delivered",
    "finished",
    "half-completed",
    "completed",
)


def reach(place: str, epoch: int) -> None:
    """Be killed here, if that is asked for."""
    for watch in watchers:
        watch(place, epoch)
    if _DIRECTORY is None:
        return
    for asked in (f"{place}:{epoch}", f"{place}:*"):
        try:
            os.unlink(f"{_DIRECTORY}/{asked}")  # noqa: PTH108 - done by one only
        except OSError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
