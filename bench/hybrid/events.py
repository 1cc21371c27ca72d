"""What Figures 8 (b) and (c) share: rare events, and two operators that work on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import anabranch as ab
from anabranch.control.throughput.model import ItemCosts, threads_of, throughput
from anabranch.plan.plan import Arrangement
from anabranch.runtime.compiled.program import NOTHING, make_program
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import hybrid, noop
from bench.hybrid.schedulers.stages import Row, row_of
from bench.hybrid.work import work, work_in_python

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
            sides["no-op", threads] = partial(noop.run, row, BATCH, threads, 2)
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
            if rate == 10:
                what = f"{line} over no-op padding, one of ten"
                figure.claim(what, best[line], best["no-op"])
        simulated = simulate(row, found)
        figure.point("hybrid / no-op, 8 cores simulated", rate, simulated)
    figure.note(
        f"the best of 1 and {cores} threads on either side; with {cores} cores the work "
        f"behind rare events is divided by {cores} at most, and padding costs a look at "
        f"each message, not a core. The simulator has what was measured in one thread, "
        f"and no interpreter's lock: there the first operator, alone in its thread, "
        f"bounds both"
    )


def simulate(row: Row, found: Any, cores: int = 8) -> float:
    """Return how many times as fast hybrid would be on more cores.

    Both divide the two operators behind the event among the cores; with padding every
    message passes all three.
    """
    item_s = {name: 1 / median(found[name, 1]) for name in ("hybrid", "no-op")}
    first_s = _first_s(row)
    events_s = max(item_s["hybrid"] - first_s, 0.0)
    padding_s = max(item_s["no-op"] - item_s["hybrid"], 0.0)
    wide = Arrangement().with_degree("r0", cores - 1)
    ours = ItemCosts({("first",): first_s, ("first", "second"): events_s})
    theirs = ItemCosts(
        {
            ("first",): first_s + padding_s / 3,
            ("first", "second"): events_s + padding_s * 2 / 3,
        }
    )
    rates = [
        throughput(costs, threads_of(costs, wide, {"r0": ("second",)}), cores)
        for costs in (ours, theirs)
    ]
    return rates[0] / rates[1]


def _first_s(row: Row) -> float:
    """Return what the first operator takes for an item."""
    program = make_program(row.graph, row.names[:1], [row.graph.names[0]], NOTHING)
    times = []
    for _ in range(5):
        began_s = perf_counter()
        for start in range(0, len(row.items), BATCH):
            program.run(row.items[start : start + BATCH])
            for left in program.exits.values():
                left.clear()
        times.append(perf_counter() - began_s)
    return median(times) / len(row.items)


def _row(make: Program, rate: int, worked: Any) -> Row:
    return row_of(make(rate, worked, worked).to_list())
