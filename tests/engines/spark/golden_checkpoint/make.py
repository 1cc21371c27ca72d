"""Make the golden checkpoints of the present format.

Run it once, when the format changes, from the root of the repository::

    python -m tests.engines.spark.golden_checkpoint.make

Each job is interrupted after its second epoch is committed, before anything of that
epoch is delivered. A golden checkpoint is never made again: an older release made it,
and that is its point.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from anabranch.epochs.checkpoint.record import FORMAT
from tests.engines.spark.golden_checkpoint.golden import (
    FOLDER,
    HERE,
    PROGRAMS,
    replace_in_records,
    run_golden,
)

# The first stream that is delivered, and how many of its items the first epoch has.
_BEFORE = {"groups": ("groups", 2), "states": ("scan", 20)}
_KEPT = ("commits", "deliveries", "state", "runs")


def main() -> None:
    """Make the checkpoints, unless they are there."""
    target = FOLDER / f"format-{FORMAT}"
    if target.exists():
        sys.exit(f"{target} must not exist; a golden checkpoint is never made again")
    for program in PROGRAMS:
        folder = Path(tempfile.mkdtemp())
        made = interrupt(program, folder)
        replace_in_records(made, str(folder), HERE)
        for name in _KEPT:
            shutil.copytree(made / name, target / program / name)
        shutil.copy(made / "program.json", target / program)
        shutil.rmtree(folder)


class Interrupting(list[Any]):
    """A list that interrupts the program instead of taking more than `most` items."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def append(self, item: Any) -> None:
        """Take an item, or interrupt."""
        if len(self) == self.most:
            raise KeyboardInterrupt
        super().append(item)


def interrupt(program: str, folder: Path) -> Path:
    """Run a program until its second epoch is committed; return its checkpoint."""
    first, before = _BEFORE[program]
    seen: dict[str, list[Any]] = {first: Interrupting(before)}
    made = folder / "checkpoint"
    try:
        run_golden(program, folder, seen, checkpoint=made, epoch_items=20, degree=2)
    except KeyboardInterrupt:
        return made
    return sys.exit("the job must be interrupted; it has ended")


if __name__ == "__main__":
    main()
