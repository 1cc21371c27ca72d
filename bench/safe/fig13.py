"""Figure 13 of safe data parallelism: five kernels, speedup by channels.

    anabranch bench safe/fig13 [KERNEL ...]

Two channels over one are measured on Spark, where channels are processes, from files to
files. Up to 32 channels on 32 cores are the model of safe/model.py, fed with costs that
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
from functools import partial
from pathlib import Path

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness.plots import plot
from bench.harness.timing import (
    Claim,
    Table,
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
            seen, model, one_reads, costs = speedup(KERNELS[name], folder / name)
            results[name] = {
                "measured at 2": seen,
                "model": model,
                "one reads": one_reads,
                "us for an item": costs,
            }
            medians = [statistics.median(seen), *model.values(), one_reads]
            rows.append(believable([name, *medians, PAPER[name]]))
            claims += claims_of(name, seen, model)
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


def speedup(
    kernel: Kernel, folder: Path
) -> tuple[list[float], dict[int, float], float, dict[str, float]]:
    """Return measured speedups, those of the model, and what each operator costs."""
    folder.mkdir()
    given = kernel.make_input(folder, sized(kernel.size, kernel.size // 20))
    numbers = itertools.count()

    def run(degree: int) -> None:
        out = folder / f"out-{next(numbers)}"
        ab.run(kernel.stream(given).write_csv(str(out)), on="spark", degree=degree)

    times = interleaved({"1": partial(run, 1), "2": partial(run, 2)}, 5)
    seen = [one / two for one, two in zip(times["1"], times["2"], strict=True)]
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
    return seen, model, one_reads, {**us, "handed over": costs.port_s * 1e6}


def _forget(_: object) -> None:
    """Do nothing with a result."""


def believable(row: list) -> list:
    """Return a row without what the model says beyond what it was found to know."""
    name, seen, at_two, *others, paper = row
    if why_not_extrapolated(at_two, seen, "2 channels") is None:
        return row
    return [name, seen, at_two, *[None] * len(others), paper]


def claims_of(name: str, seen: list[float], model: dict[int, float]) -> list[Claim]:
    return [
        Claim(
            f"{name}: 2 channels over 1 on Spark",
            statistics.median(seen),
            min(seen),
            max(seen),
            paper=PAPER[name],
            remark="file to file, without start-up",
        ),
        claim_beyond(name, statistics.median(seen), model),
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
        remark="all channels read, one merges; a hand-over for each item read",
    )


if __name__ == "__main__":
    main()
