"""What the benchmarks of auto-pipelining share: the paper's chain, and how it is run.

The operators of the chain do the same work each, a series of multiplications as in the
paper, compiled such that they do not hold the interpreter's lock. The cost of a tuple is
the number of multiplications of each operator.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numba

import anabranch as ab
from anabranch.control.model import (
    Costs,
    Thread,
    calibrated,
    costs_of,
    crowded,
    threads_of,
    throughput,
)
from anabranch.engines.engine import Options
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.engine import LocalEngine
from anabranch.engines.local.run import LocalRun
from anabranch.engines.local.watching import watched_threads
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.plan.arrangement import Arrangement
from anabranch.runtime.profile import Sampler
from timing import sized

OPERATORS = tuple(f"o{number}" for number in range(1, 9))
PLOTS = Path("out") / "plots"
LOOKS_HZ = 400.0
TURNS = 5
SETTLE_S = 0.25  # the lock is looked at meanwhile
TRIES = 5  # to find a while without others
CALM = 0.15  # cores that others may use meanwhile

Placement = tuple[str, ...]  # operators with a threaded port

# The model is fitted to these; what it says about others is a prediction.
TWO: Placement = ("o5",)
FOUR: Placement = ("o3", "o5", "o7")
EIGHT: Placement = OPERATORS[1:]
FITTED = TWO, FOUR, EIGHT


@numba.njit("float64(int64)", nogil=True, cache=True)
def multiply(count: int) -> float:
    """Multiply so often, each time what came out before."""
    product = 1.0
    for _ in range(count):
        product *= 1.0000001
    return product


@ab.declare(state="stateless")
def work(count: int, item: Any) -> Any:
    """Do the work of an operator."""
    multiply(count)
    return item


def chain(count: int, payload: int = 0) -> ab.Stream:
    """Return the chain of 8 operators that cost the same, without end."""
    item: Any = bytes(payload) if payload else 1
    stream = ab.generate(partial(itertools.repeat, item), type(item), name="read")
    for name in OPERATORS:
        stream = stream.map(partial(work, count), name=name)
    return stream


def endless(count: int, payload: int = 0) -> ab.Sink:
    """Return the chain as a program that throws its results away."""
    return chain(count, payload).for_each(_forget, name="out")


def _forget(_: Any) -> None:
    """Do nothing with an item."""


@contextmanager
def started(sink: ab.Sink, ports: Placement = ()) -> Iterator[LocalRun]:
    """Run a program on the local engine, with these threaded ports from the start."""
    made = compile_sinks(sink, on="local")
    run = LocalEngine(placed(ports)).start(made.graph, made.plan, Options())
    try:
        yield run
    finally:
        run.stop()


def placed(ports: Placement) -> Configuration:
    """Return the configuration with these threaded ports."""
    return Configuration(ports=frozenset(Input(name) for name in ports))


def read_by(run: LocalRun) -> int:
    """Return how many items it has read."""
    return sum(source.read for source in run.flow.sources)


def rate(run: LocalRun, seconds: float) -> float:
    """Return the items a second in the next seconds."""
    before, began_s = read_by(run), time.perf_counter()
    time.sleep(seconds)
    return (read_by(run) - before) / (time.perf_counter() - began_s)


def calm_rate(run: LocalRun, seconds: float) -> float:
    """Return the rate of a while in which nobody else used the machine much.

    After some tries, that of the while in which others used it least.
    """
    tried: list[tuple[float, float]] = []
    while len(tried) < sized(TRIES, 1):
        others_s, began_s = busy_elsewhere_s(), time.perf_counter()
        found = rate(run, seconds)
        cores = (busy_elsewhere_s() - others_s) / (time.perf_counter() - began_s)
        tried.append((cores, found))
        if cores < CALM:
            break
    return min(tried)[1]


def busy_elsewhere_s() -> float:
    """Return how long other processes have used cores so far."""
    first = Path("/proc/stat").read_text().partition("\n")[0].split()
    user, nice, system, _, _, irq, soft, steal = map(int, first[1:9])
    ticks = user + nice + system + irq + soft + steal
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()


def rates_in_turn(
    run: LocalRun,
    placements: Sequence[Placement],
    turns: int = TURNS,
    seconds: float = 0.4,
) -> dict[Placement, list[float]]:
    """Return the rates of one run under each placement, one after the other in turn."""
    found: dict[Placement, list[float]] = {one: [] for one in placements}
    for _ in range(sized(turns, 1)):
        for placement, rates in found.items():
            rates.append(_rate_with(run, placement, seconds))
    return found


def speedups_in_turn(
    run: LocalRun,
    placements: Sequence[Placement],
    turns: int = TURNS,
    seconds: float = 0.3,
) -> dict[Placement, list[float]]:
    """Return the rates under each placement over that of one thread before and after.

    The speed of the machine changes in seconds by more than what is looked for.
    """
    found: dict[Placement, list[float]] = {one: [] for one in placements}
    before = _rate_with(run, (), seconds)
    for _ in range(sized(turns, 1)):
        for placement, speedups in found.items():
            with_it = _rate_with(run, placement, seconds)
            after = _rate_with(run, (), seconds)
            speedups.append(with_it / statistics.fmean((before, after)))
            before = after
    return found


def _rate_with(run: LocalRun, placement: Placement, seconds: float) -> float:
    run.flow.switch(placed(placement))
    rate(run, sized(SETTLE_S, 0.05))
    return calm_rate(run, sized(seconds, 0.1))


def measured_costs(count: int) -> Costs:
    """Return what items cost: seen by the profiler in one thread, and then in two."""
    with started(endless(count)) as run:
        costs = seen_costs(run)
        if len(os.sched_getaffinity(0)) == 1:
            return costs
        found = rates_in_turn(run, [TWO], turns=3)[TWO]
    return calibrated(costs, threads_with(costs, TWO), statistics.median(found))


def seen_costs(run: LocalRun, seconds: float = 2.0) -> Costs:
    """Return what items cost in one thread, as the profiler sees it.

    It looks more often than it does for a controller: a hundred looks a second tell the
    cost of an operator of the chain to a fifth only.
    """
    rate(run, 0.3)
    sampler = Sampler(watched_threads(run.flow), LOOKS_HZ)
    before = read_by(run)
    sampler.start()
    time.sleep(sized(seconds, 0.3))
    return costs_of(sampler.stop(), read_by(run) - before)


def fitted(costs: Costs, found: Mapping[Placement, Sequence[float]]) -> Costs:
    """Return the costs with what is lost at the lock by two, four and eight threads.

    Found are the speedups of placements. On one core, where nobody runs while another
    has the lock, two are not looked at.
    """
    cores = len(os.sched_getaffinity(0))
    two, four, eight = (
        (threads_with(costs, ports), statistics.median(found[ports]) / costs.whole_s)
        for ports in FITTED
    )
    if cores >= len(TWO) + 1:
        costs = calibrated(costs, *two)
    return crowded(costs, cores, four, eight)


def threads_with(costs: Costs, ports: Placement) -> dict[str, Thread]:
    """Return the threads of the model under a placement."""
    return threads_of(costs, Arrangement(frozenset(ports)), {})


def predicted(costs: Costs, ports: Placement, cores: int) -> float:
    """Return the speedup over one thread, as the model has it."""
    return throughput(costs, threads_with(costs, ports), cores) * costs.whole_s


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process, and the threads that it starts, on so many cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(all_cores)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def plot(
    name: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    log: Sequence[str] = (),
    ticks: Sequence[str] = (),
) -> None:
    """Draw lines into out/plots; what the paper reports is dashed."""
    import matplotlib as mpl  # noqa: PLC0415 - it takes long, and is needed last

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots()
    for label, (xs, ys) in lines.items():
        dashed = "--" if label.startswith("paper") else "-"
        axes.plot(list(xs), list(ys), dashed, marker="o", label=label)
    for axis in log:
        getattr(axes, f"set_{axis}scale")("log", base=2 if axis == "x" else 10)
    if ticks:
        axes.set_xticks(range(len(ticks)), ticks)
    axes.set(title=name, xlabel=x, ylabel=y)
    axes.legend()
    PLOTS.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOTS / f"{name}.svg")
    plt.close(figure)
    print(f"plot: {PLOTS / name}.svg")


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the least and the greatest."""
    return statistics.median(values), min(values), max(values)
