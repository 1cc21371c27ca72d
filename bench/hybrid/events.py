"""What Figures 8 (b) and (c) share: rare events, and two operators that work on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import anabranch as ab
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import noop
from bench.hybrid.schedulers.stages import Row, row_of
from bench.hybrid.work import run_by_users, run_compiled, work, work_in_python

WORK = 1000
BATCH = 1000
ITEMS = sized(200_000, 2000)
CLAIMED = 10  # one of so many is an event

Program = Callable[[int, Any, Any], ab.Stream]  # how rare, the two operators behind


def measure(figure: Figure, make: Program, rates: tuple[int, ...]) -> None:
    """Compare the local engine with no-op padding for events that are so rare.

    Both sides call the same functions; *compiled* is the engine on them in plain Python.
    Programs are compiled before, as in the paper; one row has the time that takes.
    """
    cores = os.cpu_count() or 1
    for rate in rates:
        row = _row(make, rate, work(WORK))
        plain = _row(make, rate, work_in_python(WORK))
        sides = {}
        for threads in (1, cores):
            sides["no-op", threads] = partial(noop.run, row, BATCH, threads, 2)
            sides["hybrid", threads] = run_compiled(row, threads)
            sides["compiled", threads] = run_compiled(plain, threads)
            if rate == CLAIMED:
                sides["with compiling", threads] = run_by_users(row, threads)
        found = speeds(sides, len(row.items))
        best = {
            name: max((found[name, t] for t in (1, cores)), key=sum)
            for name in dict.fromkeys(name for name, _ in sides)
        }
        for line in ("hybrid", "compiled"):
            ratio = over(best[line], best["no-op"])
            figure.point(f"{line} / no-op", rate, ratio, spread(best[line]))
        if rate == CLAIMED:
            what = "over no-op padding, one of ten"
            figure.claim(f"hybrid {what}", best["hybrid"], best["no-op"], at_least=1.0)
            figure.claim(
                f"compiled {what}",
                best["compiled"],
                best["no-op"],
                paper="",
                remark="other code than the baseline's: whole batches at once",
            )
            figure.claim(
                f"hybrid {what}, with compiling",
                best["with compiling"],
                best["no-op"],
                at_least=1.0,
                remark="start-up included; the paper measures programs compiled before",
            )
    figure.note(
        f"the best of 1 and {cores} threads on either side; with {cores} cores the work "
        f"behind rare events is divided by {cores} at most, and padding costs a look at "
        f"each message, not a core"
    )


def _row(make: Program, rate: int, worked: Any) -> Row:
    return row_of(make(rate, worked, worked).to_list())
