"""What the controller makes of a program on Spark that cannot be replicated.

    anabranch bench autopipe-cut

Four operators in a row, each with a state for all items: two heavy ones (about 50
microseconds) between two light ones. There is no parallelism but cuts into chained workers. The controller
adapts the running program until it settles; then its epochs are compared, in turn and in the
same run, with those of the untouched program and of every other cut. The paper has no
such figure: its engine has threads, and its chain gains 2 from the second (Fig. 6).
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anabranch as ab
from anabranch.control.throughput.tune import Controller
from anabranch.epochs.epoch_run import EpochRun
from anabranch.job import compile_sinks, engine_named
from anabranch.runtime.thread import Options
from bench.autopipe.spark import epoch
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report, sized

ROUNDS = {"light_in": 6, "heavy_one": 135, "heavy_two": 135, "light_out": 6}
EPOCH_ITEMS = 15_000
TURNS = 5
WATCH_S = 120.0


def stirred(rounds: int, state: int, item: int) -> tuple[int, int]:
    """Mix an item into a state, slowly, in a way that is not compiled."""
    mixed = {state}
    for _ in range(rounds):
        mixed = {(one * 5 + item) & 0xFFFF for one in mixed}
    state = min(mixed)
    return state, state ^ item


def program() -> ab.Result:
    """Return the program, without end."""
    stream = ab.generate(itertools.count, int, name="read")
    for name, rounds in ROUNDS.items():
        stream = stream.scan(partial(stirred, rounds), 1, name=name)
    return stream.to_list()


def adapted(run: EpochRun) -> tuple[frozenset[str], Controller, int]:
    """Return the cuts that the controller settles for, and how many epochs it profiled."""
    actuator = run.actuator()
    profiled = 0

    def counted(profile: Callable[[], Any]) -> Any:
        nonlocal profiled
        profiled += 1
        return profile()

    actuator.profile = partial(counted, actuator.profile)  # type: ignore[method-assign]
    controller = Controller(actuator)
    until_s = time.perf_counter() + WATCH_S
    while not controller.settled and time.perf_counter() < until_s:
        controller.advance()
    return actuator.arrangement.ports, controller, profiled


def main() -> None:
    made = compile_sinks(program(), on="spark")
    options = Options(epoch_items=sized(EPOCH_ITEMS, 1000))
    run: Any = engine_named("spark").start(made.graph, made.plan, options)
    try:
        reached, controller, profiled = adapted(run)
        for step in controller.history:
            print(f"{step.at_s:.1f} {step.what}: {step.why}; {step.effect}")
        sides = [(), *((name,) for name in list(ROUNDS)[1:]), tuple(sorted(reached))]
        times: dict[tuple[str, ...], list[float]] = {side: [] for side in sides}
        for _ in range(sized(TURNS, 1)):
            for side, seconds in times.items():
                seconds.append(epoch(run, side).seconds)
    finally:
        run.stop()
    told(times, tuple(sorted(reached)), controller, profiled)


def told(
    times: dict[tuple[str, ...], list[float]],
    reached: tuple[str, ...],
    controller: Controller,
    profiled: int,
) -> None:
    medians = {side: statistics.median(seconds) for side, seconds in times.items()}
    best = min(medians, key=lambda side: medians[side])
    rows = [
        ["+".join(side) or "none", medians[side], medians[()] / medians[side]]
        for side in times
    ]

    def over(side: tuple[str, ...]) -> tuple[float, float, float]:
        pairs = [a / b for a, b in zip(times[side], times[reached], strict=True)]
        return statistics.median(pairs), min(pairs), max(pairs)

    steps = sum(step.what.startswith("insert") for step in controller.history)
    claims = [
        Claim(
            f"Spark: cut at {'+'.join(reached) or 'none'} by the controller over untouched",
            *over(()),
            paper="2 for a second thread (Fig. 6)",
            at_least=1.3,
        ),
        Claim(
            f"Spark: the controller over the best by hand ({'+'.join(best) or 'none'})",
            *over(best),
            at_least=0.95,
        ),
        Claim(
            "Spark: profiled epochs for each step, the last look included",
            profiled / max(1, steps + 1),
            unit="epochs",
            at_most=2,
        ),
    ]
    head = ["cut before", "seconds of an epoch", "speedup"]
    report(
        "cut on spark",
        {"epochs": {"+".join(side): found for side, found in times.items()}},
        claims=claims,
        tables=[Table("epochs by cut, in turn in one run", head, rows)],
    )
    plot(
        "autopipe_cut",
        {"speedup": (range(len(rows)), [row[2] for row in rows])},
        x="cut before",
        y="speedup over no cut",
        ticks=[row[0] for row in rows],
    )


ab.trust(__name__)


if __name__ == "__main__":
    main()
