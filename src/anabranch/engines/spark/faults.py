"""Places where a test can have a process killed, as if the machine had failed there.

`ANABRANCH_FAULTS` names a file that says where: `committed:3` is the place `committed`
of epoch 3 (`*`: of any). The process that comes there first takes the file away and
kills itself. Without the variable nothing of this costs anything.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

_FILE = os.environ.get("ANABRANCH_FAULTS")

IN_WORKERS = ("opened", "processed", "logged", "half-stored", "stored", "snapshot")
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
    if _FILE is None:
        return
    file = Path(_FILE)
    try:
        asked = file.read_text(encoding="utf-8").strip()
    except OSError:
        return
    if asked not in (f"{place}:{epoch}", f"{place}:*"):
        return
    try:
        file.rename(file.with_suffix(".done"))
    except OSError:  # another process was first
        return
    os.kill(os.getpid(), signal.SIGKILL)
