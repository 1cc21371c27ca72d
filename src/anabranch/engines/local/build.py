"""Make the replicas of a layout and connect them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.layout import ElementLayout, Layout
from anabranch.graph.graph import Edge, Graph, Op
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.plan.plan import Region
from anabranch.runtime.compiled.program import NOTHING, Choice, make_program
from anabranch.runtime.element import Deliver, Replica
from anabranch.runtime.failures import OnError
from anabranch.runtime.fusion import Entry
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.merge import make_merge
from anabranch.runtime.pace import Pace
from anabranch.runtime.ports import Inlet
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Program
from anabranch.runtime.routing import (
    GroupRouter,
    KeyRouter,
    RoundRobinRouter,
    Router,
    even_table,
)
from anabranch.runtime.split import (
    Numbering,
    Outlet,
    Slot,
    SplitOutlet,
    StraightOutlet,
)
from anabranch.runtime.state import States


@dataclass(frozen=True)
class Build:
    """What replicas are made from, beside the layout."""

    graph: Graph
    regions: Mapping[str, Region]
    configuration: Configuration
    deliver: Callable[[Op], Deliver]
    on_error: OnError
    choice: Choice = NOTHING


def build_replicas(layout: Layout, build: Build) -> dict[str, tuple[Replica, ...]]:
    """Return the replicas of every element, connected, their states still empty."""
    replicas = {
        name: tuple(
            _replica(layout, element, channel, build)
            for channel in range(element.degree)
        )
        for name, element in layout.elements.items()
    }
    for element in layout.elements.values():
        for channel, replica in enumerate(replicas[element.name]):
            for edge in element.sinks:
                sink = build.graph[edge.consumer.operator]
                replica.sinks[edge] = build.deliver(sink)
            for edge in element.outputs:
                replica.outlets[edge] = _outlet(layout, edge, channel, replicas, build)
    return replicas


def table_of(configuration: Configuration, region: str) -> tuple[int, ...]:
    """Return which channel of a region has which bucket."""
    planned = configuration.tables.get(region)
    return planned or even_table(configuration.degrees.get(region, 1))


def _replica(
    layout: Layout, element: ElementLayout, channel: int, build: Build
) -> Replica:
    inlet = None
    if element.inputs:
        inlet = _inlet(layout, element)
    name = element.name if element.part is None else f"{element.name}[{channel}]"
    replica = Replica(
        name=name,
        program=None,
        inlet=inlet,
        carries=element.carried != "nothing",
        pace=_pace(build.configuration),
        one_to_one=element.carried == "numbers" and element.part in layout.one_to_one,
    )
    head = build.graph[element.name]
    if isinstance(head.kind, SinkKind):
        replica.sinks[element.inputs[0]] = build.deliver(head)
    else:
        replica.program = _program(layout, element, replica, build)
    return replica


def _pace(configuration: Configuration) -> Pace:
    size = configuration.batch
    return Pace() if size is None else Pace.fixed(size)


def _program(
    layout: Layout, element: ElementLayout, replica: Replica, build: Build
) -> Program:
    graph = build.graph
    entries: list[Entry] = list(element.inputs)
    if isinstance(graph[element.name].kind, Source):
        entries = [element.name]
    states = {
        op.name: States(op, kernel, fresh=False)
        for op in (graph[name] for name in element.operators)
        if not isinstance(op.kind, Source | SinkKind)
        and (kernel := kernel_of(op)).stateful
    }
    return make_program(
        graph,
        element.operators,
        entries,
        build.choice,
        positions=_positions(layout, element, replica),
        states=states,
        on_error=build.on_error,
        describe=lambda _: replica.where,
    )


def _positions(
    layout: Layout, element: ElementLayout, replica: Replica
) -> Positions | None:
    """Return what the program carries along: sequence numbers are positions of one."""
    if element.carried == "positions":
        return layout.positions
    if element.carried == "nothing" or replica.one_to_one:
        return None
    one = dict.fromkeys(layout.positions.inside, 1)
    return Positions(inside=one, after=one, branch={}, prolific=frozenset())


def _inlet(layout: Layout, element: ElementLayout) -> Inlet:
    entries: list[int] = []
    for number, edge in enumerate(element.inputs):
        entries += [number] * layout.queues(edge)
    producers = {edge.producer.operator for edge in element.inputs}
    merge = make_merge(
        element.strategy,
        entries,
        width=max(layout.positions.on(edge) for edge in element.inputs),
        punctuated=not producers.isdisjoint(layout.punctuated),
        numbered=element.carried == "numbers",
    )
    return Inlet(merge, threaded=element.threaded)


def _outlet(
    layout: Layout,
    edge: Edge,
    channel: int,
    replicas: Mapping[str, tuple[Replica, ...]],
    build: Build,
) -> Outlet:
    producer = layout.element_of(edge.producer.operator)
    consumer = layout.element_of(edge.consumer.operator)
    queue = 0
    for other in consumer.inputs:
        if other == edge:
            break
        queue += layout.queues(other)
    inlets: list[Any] = [replica.inlet for replica in replicas[consumer.name]]
    if producer.part == consumer.part:
        return StraightOutlet([Slot(inlets[channel], queue)])
    slots = [Slot(inlet, queue + channel) for inlet in inlets]
    if consumer.part is None:
        return StraightOutlet(slots)
    numbering = None
    if producer.part is None and consumer.carried == "numbers":
        numbering = Numbering(
            build.configuration.epoch,
            consumer.degree,
            pulses=layout.strategies[consumer.part] in ("strict", "relaxed"),
        )
    marked = edge.producer.operator in layout.punctuated
    router = _router(consumer.part, build)
    return SplitOutlet(slots, router, numbering, punctuated=marked)


def _router(part: str, build: Build) -> Router:
    region = build.regions[part]
    if region.period > 1:
        return GroupRouter(build.configuration.degrees[part], region.period)
    if not region.key:
        return RoundRobinRouter(build.configuration.degrees[part])
    return KeyRouter(region.key, table_of(build.configuration, part))
