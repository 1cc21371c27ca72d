"""From a configuration to elements: what runs where, and how order is kept.

Pure: a layout is frozen data, computed anew for every change. Three ways to keep order
between elements exist side by side:

- one thread feeds another: nothing is needed;
- a region whose streams meet nothing else on their way: the splitter numbers items and
  the merger follows the strategy of the plan;
- streams that part and meet again in other ways: every stream that leads to such a
  meeting carries full positions from the source on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from anabranch.engines.local.carrying import (
    find_carrying,
    find_shuffles,
    positions_in,
)
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.regions import is_one_to_one, part_strategies, parts_of
from anabranch.engines.local.threads import Threads, propagate_threads
from anabranch.graph.graph import Edge, Graph
from anabranch.graph.sinks import SinkKind
from anabranch.plan.plan import Plan
from anabranch.runtime.merge import Strategy
from anabranch.runtime.positions import Positions
from anabranch.runtime.punctuated import punctuated_operators

Carried: TypeAlias = Literal["nothing", "numbers", "positions"]


@dataclass(frozen=True)
class ElementLayout:
    """An element: operators that one thread at a time runs by direct calls.

    `inputs` are the streams from other elements (all lead to the first operator),
    `outputs` those to other elements and `sinks` those to sinks of its own. `carried`
    is what it carries along with the items, `strategy` how it merges what comes in.
    """

    name: str
    operators: tuple[str, ...]
    part: str | None
    degree: int
    threaded: bool
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    sinks: tuple[Edge, ...]
    carried: Carried
    strategy: Strategy


@dataclass(frozen=True)
class Layout:
    """All elements, producers first."""

    elements: Mapping[str, ElementLayout]
    threads: Threads
    positions: Positions
    strategies: Mapping[str, Strategy]  # region -> how its merger keeps order
    one_to_one: frozenset[str]  # regions whose outputs have the numbers of their items
    punctuated: frozenset[str]

    def element_of(self, operator: str) -> ElementLayout:
        """Return the element that an operator is in."""
        return self.elements[self.threads.leader[operator]]

    def queues(self, edge: Edge) -> int:
        """Return how many threads feed each replica of a stream's consumer."""
        producer = self.element_of(edge.producer.operator)
        consumer = self.element_of(edge.consumer.operator)
        return 1 if producer.part == consumer.part else producer.degree


def lay_out(
    graph: Graph, plan: Plan, configuration: Configuration, *, resilient: bool = False
) -> Layout:
    """Return the elements of a program under a configuration.

    `resilient` programs go on after errors, so that items may be missing anywhere.
    """
    punctuated = punctuated_operators(graph)
    parts = parts_of(graph, plan, configuration, punctuated, resilient=resilient)
    threads = propagate_threads(graph, configuration.ports, parts)
    cut = [edge for edge in graph.edges if threads.cut(edge)]
    strategies = part_strategies(
        graph, plan, parts, find_shuffles(cut, parts), resilient=resilient
    )
    carrying = find_carrying(plan, threads, cut, parts)
    elements: dict[str, ElementLayout] = {}
    for name, operators in _members(graph, threads).items():
        part = parts.get(name)
        inputs = tuple(edge for edge in cut if edge.consumer.operator == name)
        leaving = [edge for op in operators for edge in graph.out_edges(op)]
        producers = [elements[threads.leader[e.producer.operator]] for e in inputs]
        elements[name] = ElementLayout(
            name=name,
            operators=operators,
            part=part,
            degree=1 if part is None else configuration.degrees[part],
            threaded=name in threads.threaded,
            inputs=inputs,
            outputs=tuple(edge for edge in leaving if threads.cut(edge)),
            sinks=tuple(
                edge
                for edge in leaving
                if not threads.cut(edge)
                and isinstance(graph[edge.consumer.operator].kind, SinkKind)
            ),
            carried=_carried(name, part, carrying, strategies),
            strategy=_strategy(part, producers, strategies),
        )
    return Layout(
        elements,
        threads,
        positions_in(graph, plan),
        strategies,
        one_to_one=frozenset(
            region.name
            for region in plan.regions
            if not resilient and is_one_to_one(graph, region)
        ),
        punctuated=punctuated,
    )


def _members(graph: Graph, threads: Threads) -> dict[str, tuple[str, ...]]:
    members: dict[str, tuple[str, ...]] = {}
    for op in graph:
        leader = threads.leader[op.name]
        members[leader] = (*members.get(leader, ()), op.name)
    return members


def _carried(
    name: str,
    part: str | None,
    carrying: frozenset[str],
    strategies: Mapping[str, Strategy],
) -> Carried:
    if name in carrying:
        return "positions"
    if part is not None and strategies[part] != "round_robin":
        return "numbers"
    return "nothing"


def _strategy(
    part: str | None,
    producers: list[ElementLayout],
    strategies: Mapping[str, Strategy],
) -> Strategy:
    """Return how an element merges the streams of the threads that feed it."""
    if sum(1 if p.part == part else p.degree for p in producers) <= 1:
        return "single"
    (first, *others) = producers
    if others or first.carried == "positions" or first.part is None:
        return "position"
    return strategies[first.part]
