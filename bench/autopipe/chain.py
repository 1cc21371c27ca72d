"""The chain of the auto-pipelining paper, how it is run, and what its tuples cost.

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
from anabranch.control.throughput.model import (
    ItemCosts,
    Thread,
    calibrate,
    calibrate_crowding,
    costs_of,
    threads_of,
    throughput,
)
from anabranch.engines.local.counters import list_watched_threads
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine, LocalRun
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.plan.plan import Arrangement
from anabranch.runtime.profile import Sampler
from anabranch.runtime.thread import Options
from bench.harness.timing import sized

OPERATORS = tuple(f"o{number}" for number in range(1, 9))
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


def endless(count: int, payload: int = 0) -> ab.Result:
    """Return the chain as a program that throws its results away."""
    return chain(count, payload).for_each(_forget, name="out")


def _forget(_: Any) -> None:
    """Do nothing with an item."""


@contextmanager
def started(sink: ab.Result, ports: Placement = ()) -> Iterator[LocalRun]:
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


def measured_costs(count: int) -> ItemCosts:
    """Return what items cost: seen by the profiler in one thread, and then in two."""
    with started(endless(count)) as run:
        costs = seen_costs(run)
        if len(os.sched_getaffinity(0)) == 1:
            return costs
        found = rates_in_turn(run, [TWO], turns=3)[TWO]
    return calibrate(costs, threads_with(costs, TWO), statistics.median(found))


def seen_costs(run: LocalRun, seconds: float = 2.0) -> ItemCosts:
    """Return what items cost in one thread, as the profiler sees it.

    It looks more often than it does for a controller: a hundred looks a second tell the
    cost of an operator of the chain to a fifth only.
    """
    rate(run, 0.3)
    sampler = Sampler(list_watched_threads(run.flow), LOOKS_HZ)
    before = read_by(run)
    sampler.start()
    time.sleep(sized(seconds, 0.3))
    return costs_of(sampler.stop(), read_by(run) - before)


def fitted(costs: ItemCosts, found: Mapping[Placement, Sequence[float]]) -> ItemCosts:
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
        costs = calibrate(costs, *two)
    return calibrate_crowding(costs, cores, four, eight)


def threads_with(costs: ItemCosts, ports: Placement) -> dict[str, Thread]:
    """Return the threads of the model under a placement."""
    return threads_of(costs, Arrangement(frozenset(ports)), {})


def predicted(costs: ItemCosts, ports: Placement, cores: int) -> float:
    """Return the speedup over one thread, as the model has it."""
    return throughput(costs, threads_with(costs, ports), cores) * costs.whole_s


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the least and the greatest."""
    return statistics.median(values), min(values), max(values)
