"""Find the static subgraphs: operators of fixed rates, with their schedule.

As in section 4.1 of *Dynamic Expressivity with Static Optimization for Streaming
Languages*: streams whose producer or consumer has a dynamic rate are cut, and what is
still connected can be scheduled ahead of time by its balance equations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.analysis.traits import Traits
from anabranch.compiler.numeric.eligible import Compiled, find_kernels
from anabranch.compiler.schedule_bounds import steady_state
from anabranch.errors import PlanError
from anabranch.graph.balance import Flow, Rates, balance, rates_of
from anabranch.graph.blocks import Block
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kinds import Barrier
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.plan.plan import Subgraph


def schedule(graph: Graph, traits: Mapping[str, Traits]) -> tuple[Subgraph, ...]:
    """Return the static subgraphs, each with how often its operators fire in a round.

    >>> from anabranch.graph.blocks import Block
    >>> from anabranch.graph.graph import Output
    >>> a = Op("a", Block(list, pop=1, push=2, peek=1))
    >>> b = Op("b", Block(list, pop=3, push=1, peek=3), (Output("a"),))
    >>> known = {"a": Traits("stateless"), "b": Traits("global", pop=3)}
    >>> [s.repetitions for s in schedule(Graph((a, b)), known)]
    [(('a', 3), ('b', 2))]
    """
    rates = {op.name: fixed_rates(op, traits[op.name]) for op in graph}
    static = {name: found for name, found in rates.items() if found is not None}
    names = [name for name in graph.names if name in static]
    flows = list(_flows(graph, static))
    solved = balance(names, flows)
    if solved.conflicts:
        # Streams of their own pace may meet at a barrier, which holds them back.
        flows = [flow for flow in flows if not _waits(graph[flow.consumer])]
        solved = balance(names, flows)
    if solved.conflicts:
        flow = solved.conflicts[0]
        msg = (
            f"the rates of {flow.producer!r} and {flow.consumer!r} must balance; "
            f"{flow.producer!r} gives {flow.push} where {flow.consumer!r} takes "
            f"{flow.pop}, and another path demands otherwise; change pop, push or "
            f"weights ({graph[flow.consumer].site})"
        )
        raise PlanError(msg)
    compiled = find_kernels(graph, traits, static)
    return tuple(
        _subgraph(graph, part, flows, solved.repetitions, compiled)
        for part in _connected(graph, static, flows)
    )


def _subgraph(
    graph: Graph,
    part: list[str],
    flows: list[Flow],
    repetitions: Mapping[str, int],
    compiled: Compiled,
) -> Subgraph:
    inside = [f for f in flows if f.producer in part and f.consumer in part]
    steady = steady_state(part, inside, repetitions, _looks_ahead(graph, part))
    kernels = tuple(compiled.kernels[name] for name in part if name in compiled.kernels)
    return Subgraph(
        tuple(part),
        tuple((name, repetitions[name]) for name in part),
        "numba" if any(kernel.source for kernel in kernels) else "python",
        _why(part, compiled),
        tuple(steady.initial.items()),
        steady.buffers,
        kernels,
    )


def _looks_ahead(graph: Graph, part: list[str]) -> dict[str, int]:
    """Return by how many items the peek of an operator exceeds its pop."""
    kinds = {name: graph[name].kind for name in part}
    return {
        name: kind.peek - kind.pop
        for name, kind in kinds.items()
        if isinstance(kind, Block)
    }


def _why(part: list[str], compiled: Compiled) -> str:
    """Return why a subgraph is compiled, or what of it is not and why."""
    working = [n for n in part if n in compiled.kernels and compiled.kernels[n].source]
    refused = [name for name in part if name in compiled.reasons]
    if not refused:
        return "it computes with numbers alone"
    first = f"{refused[0]}: {compiled.reasons[refused[0]]}"
    if not working:
        return f"not numeric: {first}"
    others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return f"{', '.join(working)}; but {first}{others}"


def _waits(op: Op) -> bool:
    return isinstance(op.kind, Barrier)


def fixed_rates(op: Op, traits: Traits) -> Rates | None:
    """Return the rates of an operator if they are the same at every firing.

    >>> from anabranch.analysis.traits import Push
    >>> from anabranch.graph.graph import Output
    >>> from anabranch.graph.kinds import FlatMap
    >>> twice = Op("twice", FlatMap(lambda item: [item, item]), (Output("a"),))
    >>> fixed_rates(twice, Traits("stateless", push=Push(2, 2)))
    Rates(pops=(1,), pushes=(2,))
    >>> fixed_rates(twice, Traits("stateless", push=Push(0, 2))) is None
    True
    """
    if isinstance(op.kind, Source | SinkKind):
        return None
    declared = rates_of(op)
    if declared is not None:
        return declared
    one_stream = len(op.inputs) == 1 and op.kind.outputs == 1
    if not one_stream or traits.pop is None or traits.push.least != traits.push.most:
        return None
    if traits.pop != 1 and op.state_key:
        return None  # taken key by key: over the whole stream the rate varies
    return Rates((traits.pop,), (traits.push.least,))


def _flows(graph: Graph, static: Mapping[str, Rates]) -> list[Flow]:
    return [
        Flow(
            edge.producer.operator,
            static[edge.producer.operator].pushes[edge.producer.port],
            edge.consumer.operator,
            static[edge.consumer.operator].pops[edge.consumer.port],
        )
        for edge in graph.edges
        if edge.producer.operator in static and edge.consumer.operator in static
    ]


def _connected(
    graph: Graph, static: Mapping[str, Rates], flows: list[Flow]
) -> Iterator[list[str]]:
    """Yield the static operators that fixed rates connect, in program order."""
    neighbours: dict[str, list[str]] = {name: [] for name in static}
    for flow in flows:
        if flow.push and flow.pop:
            neighbours[flow.producer].append(flow.consumer)
            neighbours[flow.consumer].append(flow.producer)
    place = {name: index for index, name in enumerate(graph.names)}
    seen: set[str] = set()
    for name in graph.names:
        if name not in static or name in seen:
            continue
        seen.add(name)
        part = [name]
        for member in part:  # grows while it is walked
            new = [other for other in neighbours[member] if other not in seen]
            seen.update(new)
            part += dict.fromkeys(new)
        yield sorted(part, key=place.__getitem__)
