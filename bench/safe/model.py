"""A model of more channels than this machine has cores.

What a tuple costs at each operator is measured in one thread, and
`anabranch.control.simulated_program` says what so many channels give. In the model channels share
nothing: no lock, no memory, no network.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import process_time
from typing import Any

import anabranch as ab
from anabranch.cli.simulate import measure
from anabranch.compiler.compile import compile_graph
from anabranch.compiler.options import LOCAL
from anabranch.control.simulated_program import SimulatedProgram
from anabranch.control.throughput.model import ItemCosts
from anabranch.job import graph_of
from anabranch.plan.plan import Arrangement
from anabranch.runtime.split import BUCKETS, bucket_of
from bench.harness.local_run import running
from bench.harness.timing import interleaved, sized
from bench.safe.programs import PROGRAMS, Item, some

SECONDS = sized(1.5, 0.6)  # how long the costs of a program are measured
Regions = Mapping[str, tuple[str, ...]]


def measured(
    stream: Callable[[ab.Stream], ab.Stream], *, keyed: bool = True
) -> tuple[ItemCosts, Regions]:
    """Return what a tuple costs at each operator, and the regions of the program."""
    items = some(10_000)
    source = ab.generate(lambda: itertools.cycle(items), Item, name="source")
    sink = stream(source).for_each(_forget, name="sink")
    return costs_of_program(sink, keyed=keyed)


def costs_of_program(
    *sinks: ab.Result, keyed: bool = True
) -> tuple[ItemCosts, Regions]:
    """Return what the items of a program cost, and its regions."""
    compilation = compile_graph(graph_of(sinks), LOCAL)
    costs, regions = measure(compilation, SECONDS)
    return ItemCosts(costs.at, port_cost(keyed=keyed)), regions


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
    costs: ItemCosts,
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


def with_sources(costs: ItemCosts, regions: Regions) -> Regions:
    """Return the regions and one for each source: files are read by all channels."""
    sources = dict.fromkeys(route[0] for route in costs.at)
    return {**regions, **{f"read {name}": (name,) for name in sources}}


def _rate(costs: ItemCosts, regions: Regions, channels: int, cores: int) -> float:
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
