"""What Figures 8 (b) and (c) share: rare events, and two operators that work on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import anabranch as ab
from hybrid_common import Figure, over, speeds, spread, work, work_in_python
from schedulers import hybrid, noop
from schedulers.stages import Row, row_of

WORK = 1000
BATCH = 1000
ITEMS = 40_000

Program = Callable[[int, Any, Any], ab.Stream]  # how rare, the two operators behind


def measure(figure: Figure, make: Program, rates: tuple[int, ...]) -> None:
    """Compare hybrid with no-op padding for events that are so rare."""
    cores = os.cpu_count() or 1
    for rate in rates:
        row = _row(make, rate, work(WORK))
        plain = _row(make, rate, work_in_python(WORK))
        sides = {}
        for threads in (1, cores):
            sides["no-op", threads] = partial(noop.run, row, BATCH, threads)
            sides["hybrid", threads] = hybrid.make(row, [1, 2], BATCH, threads)
            sides["compiled", threads] = hybrid.make(
                plain, [1, 2], BATCH, threads, compiled=True
            )
        found = speeds(sides, len(row.items))
        best = {
            name: max((found[name, t] for t in (1, cores)), key=sum)
            for name in ("no-op", "hybrid", "compiled")
        }
        for line in ("hybrid", "compiled"):
            ratio = over(best[line], best["no-op"])
            figure.point(f"{line} / no-op", rate, ratio, spread(best[line]))
    figure.note(
        f"the best of 1 and {cores} threads on either side; with {cores} cores the work "
        f"behind rare events is divided by {cores} at most, and padding costs a look at "
        f"each message, not a core"
    )


def _row(make: Program, rate: int, worked: Any) -> Row:
    return row_of(make(rate, worked, worked).to_list())
