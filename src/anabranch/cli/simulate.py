"""`anabranch simulate`: what a program would do with more cores."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from anabranch.cli.console import CommandError, add_target, at_least, load_sinks, words
from anabranch.compiler.compile import Compilation, compile_graph
from anabranch.compiler.options import LOCAL, SEQUENTIAL
from anabranch.control.simulated_program import (
    ElementDivision,
    SimulatedEpochs,
    SimulatedProgram,
    describe_limit,
    describe_limit_of_epochs,
    settle,
)
from anabranch.control.throughput.model import (
    ItemCosts,
    calibrate,
    costs_of,
    estimate_loss_of_two,
    threads_of,
)
from anabranch.control.throughput.pipelining import choose_ports
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine, LocalRun
from anabranch.engines.sequential import SequentialEngine
from anabranch.epochs.layout import (
    MOST_UNDER_WAY,
    lay_out,
    why_not_cut,
    why_not_overlap,
)
from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.job import compile_sinks, graph_of
from anabranch.language.drafts import Result
from anabranch.metrics.load import ThreadSamples, pipeline_of
from anabranch.operators.sinks import ForEach
from anabranch.operators.sources import Generate
from anabranch.plan.plan import Arrangement
from anabranch.runtime.profile import RATE_HZ
from anabranch.runtime.thread import Options

LOOK_S = 0.25  # the program is observed in pieces, so that a short one is seen at all
REPEATED = (
    "the input is read in a moment, so it was repeated from memory: what reading it costs "
    "is not counted"
)
TWO = 2
SURE = 0.15  # of the time lost by two threads: beyond it, more than two are a guess
AT_MOST = (
    "on Spark this is the most there can be: starting stages and moving rows between "
    "workers is not in the model"
)
EXAMPLES = """\
examples:
  anabranch simulate vwap.py --cores 32
  anabranch simulate vwap.py:prices --cores 8 --seconds 10 --json
  anabranch simulate vwap.py --cores 32 --processes
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "simulate",
        help="predict the throughput with more cores",
        description="Predict the throughput of a program on 1, 2, 4 ... cores. It runs "
        "for a few seconds in one thread and then in two, without writing anything, to "
        "measure the time of each operator, on a core or waiting (sleep, I/O); the "
        "controller then tunes a model of it. "
        "Threads of one process share the interpreter's lock; with --processes the model "
        "has the limits of Spark instead. The last line says what limits the program.",
        epilog=EXAMPLES,
    )
    add_target(parser)
    parser.add_argument(
        "--cores", type=at_least(1), default=8, metavar="N", help="up to (default: 8)"
    )
    parser.add_argument(
        "--seconds",
        type=at_least(1),
        default=3,
        metavar="N",
        help="how long to measure (default: 3)",
    )
    parser.add_argument(
        "--processes",
        action="store_true",
        help="as on Spark: workers without a common lock, epochs that overlap",
    )
    parser.add_argument("--json", action="store_true", help="as data, for programs")
    parser.set_defaults(command=simulate)


@dataclass(frozen=True)
class Outcome:
    """The arrangement that the controller found on a number of cores, and its limit.

    It is not `sure` where the model was not validated (docs/auto-pipelining.md).
    """

    cores: int
    items_per_s: float
    speedup: float
    changes: int
    arrangement: str
    sure: bool = True
    limit: str = ""


def simulate(arguments: argparse.Namespace) -> int:
    """Print a line per number of cores."""
    sinks = load_sinks(arguments.target)
    graph = without_outputs(graph_of(sinks))
    measured = measure(compile_graph(graph, LOCAL), arguments.seconds)
    if measured is None:
        repeated = compile_graph(repeat_inputs(graph), LOCAL)
        measured = measure(repeated, arguments.seconds)
        words().print(REPEATED, markup=False)
    if measured is None:
        msg = (
            "the program must read something to be measured; its sources gave no items "
            "or an operator took none; check its input"
        )
        raise CommandError(msg)
    costs, regions = measured
    elements = elements_on_spark(sinks) if arguments.processes else None
    powers = itertools.takewhile(
        lambda n: n < arguments.cores, (2**n for n in itertools.count())
    )
    counts = [*powers, arguments.cores]
    if elements is None:
        found = [outcome(costs, regions, cores) for cores in counts]
    else:
        costs = replace(costs, locked_s=0.0, waiting=0.0)
        found = [outcome_on_spark(costs, elements, cores) for cores in counts]
    text = as_json(costs, found) if arguments.json else as_table(costs, found)
    if elements is not None and not arguments.json:
        text += f"\n{AT_MOST}"
    print(text)  # noqa: T201 - the result of the command
    return 0


def without_outputs(graph: Graph) -> Graph:
    """Return the program with sinks that do nothing."""
    quiet = ForEach(_forget)
    return Graph(
        tuple(
            replace(op, kind=quiet) if isinstance(op.kind, SinkKind) else op
            for op in graph
        )
    )


def repeat_inputs(graph: Graph) -> Graph:
    """Return the program with its inputs in memory, repeated cyclically.

    Only for a program that has read them to their end.
    """
    return Graph(
        tuple(
            replace(op, kind=Generate(partial(itertools.cycle, read_all(op))))
            if isinstance(op.kind, SourceKind)
            else op
            for op in graph
        )
    )


def read_all(source: Op) -> list[Any]:
    """Return all items of a source."""
    items: list[Any] = []
    sink = Op("items", ForEach(items.append), (Output(source.name),))
    compilation = compile_graph(Graph((source, sink)), SEQUENTIAL)
    SequentialEngine().start(compilation.graph, compilation.plan, Options()).wait()
    return items


def measure(
    compilation: Compilation, seconds: float
) -> tuple[ItemCosts, dict[str, tuple[str, ...]]] | None:
    """Measure the cost of items, and find the regions that may have replicas.

    None for a program that ends before it could be measured.
    """
    run = LocalEngine(Configuration()).start(
        compilation.graph, compilation.plan, Options()
    )
    actuator = run.actuator()
    found: list[ThreadSamples] = []
    items = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        before = sum(run.metrics().read.values())
        samples = actuator.samples(LOOK_S, RATE_HZ)
        if samples is None:
            break
        items += sum(run.metrics().read.values()) - before
        found += samples
    costs = costs_of(found, items) if items else ItemCosts({})
    if items and len(os.sched_getaffinity(0)) > 1:
        costs = with_two_threads(run, costs, found)
    run.stop()
    run.wait()  # an error of the program is raised here
    if not items:
        return None
    return costs, dict(actuator.regions)


def with_two_threads(
    run: LocalRun, costs: ItemCosts, seen: list[ThreadSamples]
) -> ItemCosts:
    """Return the costs with the lock waiting of threads, if the program still runs."""
    actuator = run.actuator()
    place = choose_ports(pipeline_of(seen).threads, beta=0.0)
    if place is None or not costs.locked_s:
        return costs
    split = Arrangement(place.ports)
    rates = None if actuator.arrange(split) is None else actuator.rates()
    if rates is None:
        return costs
    rate = sum(fmean(rates.at[op.name]) for op in run.flow.graph.sources)
    return calibrate(costs, threads_of(costs, split, {}), rate)


def outcome(
    costs: ItemCosts, regions: dict[str, tuple[str, ...]], cores: int
) -> Outcome:
    """Let the controller tune the model."""
    program = SimulatedProgram(costs, cores, regions)
    found = _settle(costs, program)
    sure = is_sure(costs, program.threads, cores)
    return replace(found, sure=sure, limit=describe_limit(program))


def _settle(costs: ItemCosts, program: SimulatedProgram) -> Outcome:
    controller = settle(program)
    return Outcome(
        program.cores,
        program.items_per_s,
        program.items_per_s * costs.whole_s,
        sum(step.what != "settled" for step in controller.history),
        str(program.arrangement),
    )


def elements_on_spark(sinks: Sequence[Result]) -> ElementDivision:
    """Return how Spark would divide a program."""
    compilation = compile_sinks(*sinks, on="spark")
    layout = lay_out(compilation.graph, compilation.plan)
    first = {u.number: u.operators[0] for u in layout.units if u.operators}
    return ElementDivision(
        {name: first[unit.number] for name, unit in layout.unit_of.items()},
        {name: layout.units[number].level for number, name in first.items()},
        frozenset(n for n in layout.unit_of if why_not_cut(layout, n) is None),
        frozenset(n for number, n in first.items() if layout.units[number].replicated),
        why_not_overlap(layout) is None,
        MOST_UNDER_WAY,
    )


def outcome_on_spark(
    costs: ItemCosts, elements: ElementDivision, cores: int
) -> Outcome:
    """Let the controller tune the model, within the limits of Spark."""
    program = SimulatedEpochs(costs, cores, elements=elements)
    return replace(_settle(costs, program), limit=describe_limit_of_epochs(program))


def as_table(costs: ItemCosts, found: list[Outcome]) -> str:
    """Return the outcomes as text.

    >>> print(as_table(ItemCosts({("read",): 1e-6}), [Outcome(1, 1e6, 1.0, 0, "as it is")]))
    an item costs 1.00 us in one thread: read 100%
    cores      items/s  speedup  changes
        1      1000000    1.00x        0  as it is
    """
    own: dict[str, float] = {}
    for route, cost_s in (*costs.at.items(), *costs.blocked.items()):
        own[route[-1]] = own.get(route[-1], 0.0) + cost_s / costs.whole_s
    most = sorted(own.items(), key=lambda pair: -pair[1])[:8]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in most)
    lines = [f"an item costs {costs.whole_s * 1e6:.2f} us in one thread: {shares}"]
    if costs.blocked:
        share = costs.blocked_s / costs.whole_s
        lines.append(f"{share:.0%} of it is waiting (sleep, I/O), which needs no core")
    if costs.locked_s:
        share = costs.locked_s / costs.whole_s
        lines.append(f"{share:.0%} of it needs the interpreter's lock")
    lines.append(f"{'cores':>5} {'items/s':>12} {'speedup':>8} {'changes':>8}")
    lines += [
        f"{one.cores:>5} {one.items_per_s:>12.0f} {one.speedup:>7.2f}x "
        f"{one.changes:>8}  {one.arrangement}{'' if one.sure else ' (a guess)'}"
        for one in found
    ]
    if found[-1].limit:
        lines.append(f"what limits it with {found[-1].cores} cores: {found[-1].limit}")
    if not all(one.sure for one in found):
        lines.append(
            "a guess: the model was not found to hold for more threads than cores, nor "
            "for more than two that wait for the lock for much of their time"
        )
    return "\n".join(lines)


def is_sure(costs: ItemCosts, threads: int, cores: int) -> bool:
    """Tell whether the model was validated for that number of threads.

    >>> is_sure(ItemCosts({("read",): 1.0}), threads=3, cores=2)
    False
    """
    return threads <= cores and (threads <= TWO or estimate_loss_of_two(costs) <= SURE)


def as_json(costs: ItemCosts, found: list[Outcome]) -> str:
    """Return the outcomes as data."""
    data: dict[str, Any] = {
        "item_s": costs.whole_s,
        "locked_s": costs.locked_s,
        "costs_s": {" > ".join(route): cost for route, cost in costs.at.items()},
        "waits_s": {" > ".join(route): cost for route, cost in costs.blocked.items()},
        "outcomes": [vars(one) for one in found],
    }
    return json.dumps(data, indent=2)


def _forget(_: Any) -> None:
    """Do nothing with an item."""
