"""Figure 13 of safe data parallelism: five kernels, speedup by channels.

    anabranch bench safe/fig13 [KERNEL ...]

Two channels over one are measured on Spark, where channels are processes, from files to
files, once the workers are there. One channel has one worker: with a second one, levels of
successive epochs would run side by side, so a kernel of several levels would keep both
cores busy at one channel, too. That ratio is measured as well. Where a part of the kernel
runs in one process, its share of the work is measured at one channel, and Amdahl's law says
what two could give.

Up to 32 channels on 32 cores are the model of safe/model.py, fed with costs that
are measured in one thread. As on Spark, all channels read files there; what one process
that reads would give stands beside it. A merge is one process. Where the model differs
from what two channels give by more than 15%, it says nothing about more.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anabranch as ab
from anabranch.engines.spark import residence
from anabranch.engines.spark.session import open_session
from anabranch.epochs.loop import Epochs
from bench.harness.plots import plot
from bench.harness.timing import (
    Claim,
    Table,
    describe_error,
    interleaved,
    quick,
    report,
    sized,
    why_not_extrapolated,
)
from bench.safe.kernels import KERNELS, Kernel, rounds_without_end
from bench.safe.model import costs_of_program, simulated, with_sources

CHANNELS = (2, 4, 8, 16, 32)
OTHERS = "near-perfect to 8 channels; 11.4 to 21.1 at 16 or 32"
TARGETS = {
    "network monitoring": 1.7,
    "PageRank": 1.5,
    "Twitter NLP": 1.7,
    "Twitter CEP": 1.7,
}
PAPER = dict.fromkeys(KERNELS, OTHERS) | {"Finance": "3.2 at 4 channels, no more then"}


def main() -> None:
    names = sys.argv[1:] or [*KERNELS]
    for name in set(names) - set(KERNELS):
        sys.exit(f"{name!r} is none of {', '.join(KERNELS)}")
    folder = Path(tempfile.mkdtemp(prefix="anabranch-kernels-"))
    rows, results, claims, lines = [], {}, [], {}
    try:
        open_session("local[2]")
        for name in names:
            measured = speedup(KERNELS[name], folder / name)
            seen, model, one_reads = measured.seen, measured.model, measured.one_reads
            results[name] = {
                "measured at 2": seen,
                "over one channel in two workers": measured.over_levels,
                "share of one process": measured.alone,
                "share of the busier worker": measured.busier,
                "model": model,
                "one reads": one_reads,
                "us for an item": measured.costs,
            }
            medians = [statistics.median(seen), *model.values(), one_reads]
            rows.append(believable([name, *medians, PAPER[name]]))
            claims += claims_of(name, measured)
            lines[name] = ([*model], [*model.values()])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    channels = [f"{n} in the model" for n in CHANNELS]
    head = ["kernel", "2 on Spark", *channels, "32, one reads", "paper"]
    plot("safe_fig13", lines, x="channels", y="speedup")
    report(
        "safe_fig13",
        results,
        claims=claims,
        tables=[Table("speedup of the kernels", head, rows)],
    )


class Measured(NamedTuple):
    """What was measured of a kernel.

    Speedups at two channels, over one in one worker and over one in two (`over_levels`); the
    share of the work that one process does at one channel, and that of the busier of two; the
    speedups of the model, that of 32 channels if one process reads, and what each operator
    costs.
    """

    seen: list[float]
    over_levels: list[float]
    alone: float
    busier: float
    model: dict[int, float]
    one_reads: float
    costs: dict[str, float]


@contextmanager
def one_worker() -> Iterator[None]:
    """Let all tasks run in one worker, as on one core."""
    count = residence.count_slots
    residence.count_slots = lambda _: 1
    try:
        yield
    finally:
        residence.count_slots = count


@contextmanager
def watched_tasks() -> Iterator[dict[tuple[bool, int], float]]:
    """Add up the seconds of tasks: whether of replicas, and in which worker."""
    seconds: dict[tuple[bool, int], float] = defaultdict(float)
    run = Epochs.run

    def run_and_note(self: Epochs, *arguments: Any) -> None:
        run(self, *arguments)
        homes = self.find_homes()
        for one in self.reports:
            replicas = self.runner.layout.units[one.unit].replicated
            worker = homes.get((one.unit, one.channel), 0)
            seconds[replicas, worker] += one.seconds

    Epochs.run = run_and_note  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        Epochs.run = run  # type: ignore[method-assign]


def speedup(kernel: Kernel, folder: Path) -> Measured:
    """Return what is measured of a kernel, and what the model says."""
    folder.mkdir()
    given = kernel.make_input(folder, sized(kernel.size, kernel.size // 20))
    numbers = itertools.count()

    def run(degree: int) -> float:
        sink = kernel.stream(given).write_csv(str(folder / f"out-{next(numbers)}"))
        found = ab.run(sink, on="spark", degree=degree).metrics()
        return found.elapsed_s - found.start_s

    def run_alone() -> float:
        with one_worker():
            return run(1)

    sides = {"alone": run_alone, "levels": partial(run, 1), "2": partial(run, 2)}
    times = interleaved(sides, 5)
    with watched_tasks() as seconds:
        run_alone()
    alone = share_of(seconds, lambda replicas, _: not replicas)
    with watched_tasks() as seconds:
        run(1)
    workers = {worker for _, worker in seconds}
    busier = max(share_of(seconds, lambda _, one, w=w: one == w) for w in workers)
    seen, over_levels = (
        [one / two for one, two in zip(times[side], times["2"], strict=True)]
        for side in ("alone", "levels")
    )
    if quick():  # a shorter input would end before anything is seen
        given = kernel.make_input(folder, kernel.size)
    if kernel is KERNELS["PageRank"]:
        stream = rounds_without_end(given)
    else:
        stream = kernel.stream(given)
    costs, regions = costs_of_program(stream.for_each(_forget, name="sink"))
    on_spark = with_sources(costs, regions)
    model = {n: simulated(costs, on_spark, n, 32) for n in CHANNELS}
    one_reads = simulated(costs, regions, CHANNELS[-1], 32)
    us = {route[-1]: round(cost_s * 1e6, 2) for route, cost_s in costs.at.items()}
    us["handed over"] = costs.port_s * 1e6
    return Measured(seen, over_levels, alone, busier, model, one_reads, us)


def share_of(
    seconds: Mapping[tuple[bool, int], float], counts: Callable[[bool, int], bool]
) -> float:
    """Return the share of the seconds that count."""
    return sum(s for one, s in seconds.items() if counts(*one)) / sum(seconds.values())


def _forget(_: object) -> None:
    """Do nothing with a result."""


def believable(row: list) -> list:
    """Return a row without what the model says beyond what it was found to know."""
    name, seen, at_two, *others, paper = row
    if why_not_extrapolated(at_two, seen, "2 channels") is None:
        return row
    return [name, seen, at_two, *[None] * len(others), paper]


def claims_of(name: str, found: Measured) -> list[Claim]:
    seen, alone, target = found.seen, found.alone, TARGETS.get(name)
    bound = 1 / (alone + (1 - alone) / 2)
    of_bound = Claim(
        f"{name}: of what Amdahl's law allows at 2 channels",
        statistics.median(seen) / bound,
        min(seen) / bound,
        max(seen) / bound,
        at_least=0.9,
        remark=f"{alone:.0%} of the work is done by one process: at most {bound:.2f}",
    )
    return [
        *([of_bound] if name == "Finance" else []),
        Claim(
            f"{name}: 2 channels over 1 on Spark",
            statistics.median(seen),
            min(seen),
            max(seen),
            paper=PAPER[name],
            at_least=target,
            remark="file to file, without start-up; one channel has one worker",
        ),
        Claim(
            f"{name}: 2 channels over 1 whose levels share two workers",
            statistics.median(found.over_levels),
            min(found.over_levels),
            max(found.over_levels),
            at_least=target,
            remark=f"at one channel one of two workers does {found.busier:.0%} of the work",
        ),
        claim_beyond(name, statistics.median(seen), found.model),
    ]


def claim_beyond(name: str, seen: float, model: dict[int, float]) -> Claim:
    """Return the claim about more channels than were measured."""
    what = f"{name}: best of up to 32 channels"
    why_not = why_not_extrapolated(model[2], seen, "2 channels")
    if why_not is not None:
        return Claim(what, None, paper=PAPER[name], remark=why_not)
    return Claim(
        f"{what}, in the model",
        max(model.values()),
        paper=PAPER[name],
        remark=f"{describe_error(model[2], seen, '2 channels')}; all channels read, one "
        "merges; a hand-over for each item read",
    )


if __name__ == "__main__":
    main()
