"""Finds the static subgraphs: operators of fixed rates, cut where rates are dynamic.

It also finds the streams of dynamic rate that the paper on hybrid scheduling forbids.

Section 4.1 of the paper: a stream is dynamic if its producer gives, or its consumer
takes, a varying number of items. Without these streams the program falls into
components, which can be scheduled statically. A dynamic stream within one component
makes the program invalid there; here it is a rule that can be switched on.

As in section 4.1 of *Dynamic Expressivity with Static Optimization for Streaming
Languages*: streams whose producer or consumer has a dynamic rate are cut, and the
remaining components must have balanced rates. There is no static schedule: an element
runs each operator as often as the items of a batch allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.compiler.numeric.kernels import Compiled, find_kernels
from anabranch.errors import PlanError
from anabranch.graph.graph import Edge, Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind, Traits
from anabranch.operators.fan_in import Barrier
from anabranch.operators.rates import FiringRates, FixedStream, balance, rates_of
from anabranch.plan.plan import Subgraph


def why_dynamic(graph: Graph, traits: Mapping[str, Traits], edge: Edge) -> str | None:
    """Return why the rate of a stream is dynamic, or None.

    >>> from anabranch.graph.kind import Push
    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> known = {"a": Traits("stateless", push=Push(0, 1)), "b": Traits("stateless")}
    >>> why_dynamic(g, known, g.edges[0])
    'a gives 0 to 1 items at a time'
    """
    producer, consumer = edge.producer.operator, edge.consumer.operator
    if not isinstance(graph[producer].kind, SourceKind):
        least, most = traits[producer].push
        if least != most:
            upto = "any number of" if most is None else f"{least} to {most}"
            return f"{producer} gives {upto} items at a time"
    if traits[consumer].pop is None:
        return f"{consumer} takes a varying number of items at a time"
    return None


def refuse_dynamic_inside(graph: Graph, traits: Mapping[str, Traits]) -> None:
    """Raise the error of the paper: a dynamic stream inside a static component."""
    dynamic = {edge: why_dynamic(graph, traits, edge) for edge in graph.edges}
    leader = {op.name: op.name for op in graph}

    def lead(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for producer, consumer in _static(graph, dynamic):
        leader[lead(consumer)] = lead(producer)
    for edge, why in dynamic.items():
        ends = edge.producer.operator, edge.consumer.operator
        if why is not None and lead(ends[0]) == lead(ends[1]):
            msg = (
                f"the rate between {ends[0]!r} and {ends[1]!r} must be fixed, since "
                f"fixed rates connect them some other way; but {why} "
                f"({graph[ends[1]].site}); allow it with dynamic_inside_static"
            )
            raise PlanError(msg)


def _static(
    graph: Graph, dynamic: Mapping[Edge, str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the operators connected by streams of fixed rates."""
    for edge, why in dynamic.items():
        names = edge.producer.operator, edge.consumer.operator
        ends = any(
            isinstance(graph[name].kind, SourceKind | SinkKind) for name in names
        )
        if why is None and not ends:
            yield names


def find_subgraphs(graph: Graph, traits: Mapping[str, Traits]) -> tuple[Subgraph, ...]:
    """Return the static subgraphs, each with its kernels.

    >>> from anabranch.operators.blocks import Block
    >>> from anabranch.graph.graph import Output
    >>> a = Op("a", Block(list, pop=1, push=2, peek=1))
    >>> b = Op("b", Block(list, pop=3, push=1, peek=3), (Output("a"),))
    >>> known = {"a": Traits("stateless"), "b": Traits("global", pop=3)}
    >>> [(s.operators, s.compiled) for s in find_subgraphs(Graph((a, b)), known)]
    [(('a', 'b'), 'python')]
    """
    rates = {op.name: find_fixed_rates(op, traits[op.name]) for op in graph}
    static = {name: found for name, found in rates.items() if found is not None}
    names = [name for name in graph.names if name in static]
    flows = list(_flows(graph, static))
    solved = balance(names, flows)
    if solved.conflicts:
        # Streams of different pace may meet at a barrier, which holds them back.
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
        Subgraph(
            tuple(part),
            _why(part, compiled),
            tuple(compiled.kernels[n] for n in part if n in compiled.kernels),
        )
        for part in _connect(graph, static, flows)
    )


def _why(part: list[str], compiled: Compiled) -> str:
    """Return why a subgraph is compiled, or which part is not and why."""
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


def find_fixed_rates(op: Op, traits: Traits) -> FiringRates | None:
    """Return the rates of an operator if they are the same at every firing.

    >>> from anabranch.graph.kind import Push
    >>> from anabranch.graph.graph import Output
    >>> from anabranch.operators.stateless import FlatMap
    >>> twice = Op("twice", FlatMap(lambda item: [item, item]), (Output("a"),))
    >>> find_fixed_rates(twice, Traits("stateless", push=Push(2, 2)))
    FiringRates(pops=(1,), pushes=(2,))
    >>> find_fixed_rates(twice, Traits("stateless", push=Push(0, 2))) is None
    True
    """
    if isinstance(op.kind, SourceKind | SinkKind):
        return None
    declared = rates_of(op)
    if declared is not None:
        return declared
    one_stream = len(op.inputs) == 1 and op.kind.outputs == 1
    if not one_stream or traits.pop is None or traits.push.least != traits.push.most:
        return None
    if traits.pop != 1 and op.keyed_by:
        return None  # taken key by key: over the whole stream the rate varies
    return FiringRates((traits.pop,), (traits.push.least,))


def _flows(graph: Graph, static: Mapping[str, FiringRates]) -> list[FixedStream]:
    return [
        FixedStream(
            edge.producer.operator,
            static[edge.producer.operator].pushes[edge.producer.port],
            edge.consumer.operator,
            static[edge.consumer.operator].pops[edge.consumer.port],
        )
        for edge in graph.edges
        if edge.producer.operator in static and edge.consumer.operator in static
    ]


def _connect(
    graph: Graph, static: Mapping[str, FiringRates], flows: list[FixedStream]
) -> Iterator[list[str]]:
    """Yield the static operators connected by fixed rates, in program order."""
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
        for member in part:  # grows during the walk
            new = [other for other in neighbours[member] if other not in seen]
            seen.update(new)
            part += dict.fromkeys(new)
        yield sorted(part, key=place.__getitem__)
