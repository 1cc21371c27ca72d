"""What the benchmarks of safe data parallelism share: programs, costs, a model, plots.

The work for a tuple is a number of integer multiplications, as in section 6 of the
paper. They run without the interpreter's lock, so two channels can use two cores. For
more channels than we have cores there is a model: what a tuple costs at each operator
is measured in one thread, and `anabranch.control.simulate` says what so many channels
give. In the model channels share nothing: no lock, no memory, no network.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numba

import anabranch as ab
from anabranch.cli.simulate import measure
from anabranch.compiler.compile import Target, compile_graph
from anabranch.control.simulate import Costs, SimulatedProgram
from anabranch.job import graph_of
from anabranch.plan.arrangement import Arrangement
from anabranch.runtime.routing import BUCKETS, bucket_of
from local_timing import running
from timing import interleaved, sized

PLOTS = Path("out") / "plots"
KEYS = 1_000
SECONDS = sized(1.5, 0.6)  # how long the costs of a program are measured
Regions = Mapping[str, tuple[str, ...]]


class Item(NamedTuple):
    """A tuple with two keys, for two regions."""

    n: int
    key: int
    other: int


def some(count: int) -> list[Item]:
    """Return tuples; the keys of the second region have nothing to do with the first."""
    return [Item(n, n * 7919 % KEYS, n * 104_729 % 997) for n in range(count)]


@numba.njit(nogil=True)
def multiply(times: int) -> int:
    """Multiply so many times; the interpreter's lock is free meanwhile."""
    total = 1
    for i in range(times):
        total = ((total ^ (total >> 7)) * 31 + i) & 0xFFFFFFFF  # has no short cut
    return total


multiply(1)  # compiled before anything is measured


def stateless(times: int, source: ab.Stream) -> ab.Stream:
    """Return one stateless operator behind the source."""

    @ab.declare(state="stateless", push=(1, 1))
    def work(item: Item) -> Item:
        multiply(times)
        return item

    return source.map(work, name="work")


def stateful(times: int, source: ab.Stream, key: str = "key") -> ab.Stream:
    """Return an aggregation that keeps state for each key."""

    @ab.declare(state="stateless", forwards=("n", "key", "other"))
    def step(total: int, item: Item) -> tuple[int, Item]:
        multiply(times)
        return total + 1, item

    return source.key_by(key).scan(step, 0, name=f"by_{key}")


def shuffle(times: int, source: ab.Stream) -> ab.Stream:
    """Return two aggregations by different keys, with a shuffle between them."""
    return stateful(times, stateful(times, source), "other")


PROGRAMS: dict[str, Callable[[int, ab.Stream], ab.Stream]] = {
    "stateless": stateless,
    "stateful": stateful,
    "shuffle": shuffle,
}


def count_for(times: int, most: int = 30_000) -> int:
    """Return how many tuples make a run of about a third of a second."""
    each_s = 4e-6 + times * 2e-9
    return max(200, min(most, int(sized(0.3, 0.1) / each_s)))


def speedups(
    make: Callable[[], ab.Sink],
    channels: Sequence[int],
    *,
    repetitions: int = 5,
    **how: Any,
) -> dict[int, list[float]]:
    """Return the speedup of so many channels over one, on the local engine."""
    sides = {n: running(make(), degree=n, **how) for n in (1, *channels)}
    times = interleaved({str(n): run for n, run in sides.items()}, repetitions)
    return {
        n: [one / many for one, many in zip(times["1"], times[str(n)], strict=True)]
        for n in channels
    }


def measured(
    stream: Callable[[ab.Stream], ab.Stream], *, keyed: bool = True
) -> tuple[Costs, Regions]:
    """Return what a tuple costs at each operator, and the regions of the program."""
    items = some(10_000)
    source = ab.generate(lambda: itertools.cycle(items), Item, name="source")
    sink = stream(source).for_each(_forget, name="sink")
    return costs_of_program(sink, keyed=keyed)


def costs_of_program(*sinks: ab.Sink, keyed: bool = True) -> tuple[Costs, Regions]:
    """Return what the items of a program cost, and its regions."""
    compilation = compile_graph(graph_of(sinks), Target(batched=False))
    costs, regions = measure(compilation, SECONDS)
    return Costs(costs.at, port_cost(keyed=keyed)), regions


def port_cost(*, keyed: bool) -> float:
    """Return what it costs to hand a tuple over once, on either side.

    A region of two channels that does nothing is compared with one channel, by the time
    of the processor: a tuple is handed to a channel and back, so four sides share it,
    numbers, pulses and all.
    """
    if keyed not in _PORT:
        items = some(sized(100_000, 30_000))
        program = PROGRAMS["stateful" if keyed else "stateless"]
        sink = program(0, ab.from_iterable(items, Item)).to_list()
        sides = {str(n): running(sink, degree=n) for n in (1, 2)}
        times = interleaved(sides, 5, process_time)
        apart_s = statistics.median(times["2"]) - statistics.median(times["1"])
        _PORT[keyed] = max(apart_s, 0.0) / len(items) / 4
    return _PORT[keyed]


_PORT: dict[bool, float] = {}


def _forget(_: Any) -> None:
    """Do nothing with a result."""


def simulated(
    costs: Costs,
    regions: Regions,
    channels: int,
    cores: int,
    shares: Iterable[Mapping[int, float]] = (),
) -> float:
    """Return the speedup of so many channels over one, each part in its own process.

    `shares` says for keyed regions how much of all tuples each channel gets: a region
    is as slow as its busiest channel.
    """
    one = _rate(costs, regions, 1, cores)
    many = _rate(costs, regions, channels, cores)
    for operators, share in zip(regions.values(), shares, strict=False):
        inside = sum(s for route, s in costs.at.items() if route[-1] in operators)
        inside += 2 * costs.port_s
        many = min(many, 1 / (inside * max(share.values())))
    return many / one


def with_sources(costs: Costs, regions: Regions) -> Regions:
    """Return the regions and one for each source: files are read by all channels."""
    sources = dict.fromkeys(route[0] for route in costs.at)
    return {**regions, **{f"read {name}": (name,) for name in sources}}


def _rate(costs: Costs, regions: Regions, channels: int, cores: int) -> float:
    region_of = {op: name for name, ops in regions.items() for op in ops}
    borders = {
        later
        for route in costs.at
        for earlier, later in itertools.pairwise(route)
        if region_of.get(earlier) != region_of.get(later)
    }
    arrangement = Arrangement(frozenset(borders))
    for name in regions:
        arrangement = arrangement.with_degree(name, channels)
    program = SimulatedProgram(costs, cores, regions, arrangement=arrangement)
    return program.items_per_s


def hashed(
    keys: Mapping[Any, float], channels: int, table: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the share of each channel where keys of these weights are hashed to it."""
    loads: Counter[int] = Counter()
    for key, weight in keys.items():
        bucket = bucket_of(key)
        loads[table[bucket] if table else bucket % channels] += weight
    whole = sum(keys.values())
    return {channel: load / whole for channel, load in loads.items()}


def balanced_table(keys: Mapping[Any, float], channels: int) -> list[int]:
    """Return a channel for each bucket: the heaviest first, to the emptiest channel."""
    weights: Counter[int] = Counter()
    for key, weight in keys.items():
        weights[bucket_of(key)] += weight
    loads = [0.0] * channels
    table = [0] * BUCKETS
    for bucket, weight in weights.most_common():
        table[bucket] = loads.index(min(loads))
        loads[table[bucket]] += weight
    return table


def plot(
    name: str,
    lines: Mapping[str, tuple[Sequence[Any], Sequence[float]]],
    across: str,
    up: str = "speedup",
) -> None:
    """Draw lines into out/plots, where Matplotlib is there."""
    with suppress(ImportError):
        import matplotlib as mpl  # noqa: PLC0415 - the plot is a bonus

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415

        figure, axes = plt.subplots()
        for label, (xs, ys) in lines.items():
            axes.plot([str(x) for x in xs], ys, marker="o", label=label)
        axes.set(title=name, xlabel=across, ylabel=up)
        axes.legend()
        PLOTS.mkdir(parents=True, exist_ok=True)
        figure.savefig(PLOTS / f"{name}.svg")
        plt.close(figure)
