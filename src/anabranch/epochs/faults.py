"""Fault injection: places where a test can have a process killed.

`ANABRANCH_FAULTS` names a directory; a file `committed:3` in it requests a kill at the
place `committed` of epoch 3 (`*`: any). The first process to get there removes the file
and kills itself. Without the variable this costs nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

_DIRECTORY = os.environ.get("ANABRANCH_FAULTS")

# called by tests with each place and epoch
watchers: list[Callable[[str, int], None]] = []

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
# in the worker that delivers an epoch to an external sink; after a kill, in the driver
IN_DELIVERY = ("delivering", "prepared", "sent")
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
    """Kill this process if a test requests it here."""
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
