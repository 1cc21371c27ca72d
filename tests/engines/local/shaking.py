"""Run programs on the local engine while threads stumble and the layout changes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from anabranch.engines.local.layout import Configuration, why_not_suspended
from anabranch.engines.local.run import LocalEngine, LocalRun
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph, Input
from anabranch.job import compile_sinks
from anabranch.language.drafts import Result
from anabranch.plan.plan import Plan
from anabranch.runtime.element import Replica
from anabranch.runtime.thread import Options

PATIENCE_S = 30  # for programs that take milliseconds


def all_inputs(graph: Graph) -> list[Input]:
    return [Input(op.name, port) for op in graph for port in range(len(op.inputs))]


def any_configuration(rng: random.Random, graph: Graph, plan: Plan) -> Configuration:
    share = rng.choice((0.0, 0.2, 0.5, 1.0))
    return Configuration(
        ports=frozenset(place for place in all_inputs(graph) if rng.random() < share),
        degrees={region.name: rng.choice((1, 2, 3, 5)) for region in plan.regions},
        suspended={
            region.name: rng.choice((0, 1, 4))
            for region in plan.regions
            if why_not_suspended(graph, region) is None
        },
        epoch=rng.choice((1, 3, 10)),
    )


def wake_or_suspend(
    rng: random.Random, before: Configuration, graph: Graph, plan: Plan
):
    """Return the configuration with other replicas of those that exist at work."""
    made = before
    for region in plan.regions:
        there = before.count_replicas(region.name)
        if why_not_suspended(graph, region) is None:
            made = made.with_active(region.name, rng.randint(1, there))
    return made


def started(
    sinks: Sequence[Result],
    choose: Callable[[Graph, Plan], Configuration],
    options: Options | None = None,
) -> LocalRun:
    """Start a program under the configuration that `choose` gives."""
    made = compile_sinks(*sinks, on="local")
    configuration = choose(made.graph, made.plan)
    return LocalEngine(configuration).start(made.graph, made.plan, options or Options())


def ended(run: LocalRun) -> LocalRun:
    """Wait for the end; a program that hangs is stuck for good, so say where."""
    assert run.wait(PATIENCE_S), f"stuck: {run.flow.network.counters()}"
    return run


def keep_changing(run: LocalRun, rng: random.Random) -> int:
    """Switch from one configuration to another until the program ends.

    Every other time, replicas are only woken or suspended.
    """
    changes = 0
    while run.status == "running":
        configuration = any_configuration(rng, run.flow.graph, run.flow.plan)
        if rng.random() < 0.5:
            configuration = wake_or_suspend(
                rng, run.configuration, run.flow.graph, run.flow.plan
            )
        try:
            run.flow.switch(configuration)
        except EngineError:
            break
        changes += 1
    return changes


def stumble(monkeypatch, seed: int) -> None:
    """Let every replica sleep now and then before it does its work."""
    rng = random.Random(seed)
    lock = threading.Lock()
    steady = Replica.run

    def run(replica, batch):
        with lock:
            pause_s = rng.choice((0, 0, 0, 0.0001, 0.001))
        time.sleep(pause_s)
        steady(replica, batch)

    monkeypatch.setattr(Replica, "run", run)
