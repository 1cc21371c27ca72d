"""Cut a program where rates are dynamic, and say where that takes a queue.

Section 4.1 of the paper: a stream is dynamic if its producer gives, or its consumer
takes, a number of items that varies. Without these streams the program falls into
components, which can be scheduled ahead. A dynamic stream within one component makes
the program invalid there; here it is a rule that can be switched on.

The paper puts a queue on every dynamic stream. One is needed only where the consumer
takes several items at a time: whoever takes items one by one is called for each item
that comes, however many these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.analysis.traits import Traits
from anabranch.errors import PlanError
from anabranch.graph.graph import Edge, Graph
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.plan.plan import Queue


def why_dynamic(graph: Graph, traits: Mapping[str, Traits], edge: Edge) -> str | None:
    """Return why the rate of a stream is dynamic, or None.

    >>> from anabranch.analysis.traits import Push
    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> known = {"a": Traits("stateless", push=Push(0, 1)), "b": Traits("stateless")}
    >>> why_dynamic(g, known, g.edges[0])
    'a gives 0 to 1 items at a time'
    """
    producer, consumer = edge.producer.operator, edge.consumer.operator
    if not isinstance(graph[producer].kind, Source):
        least, most = traits[producer].push
        if least != most:
            upto = "any number of" if most is None else f"{least} to {most}"
            return f"{producer} gives {upto} items at a time"
    if traits[consumer].pop is None:
        return f"{consumer} takes a varying number of items at a time"
    return None


def find_queues(graph: Graph, traits: Mapping[str, Traits]) -> tuple[Queue, ...]:
    """Return the streams on which items have to wait for others."""
    found = []
    for edge in graph.edges:
        producer, consumer = edge.producer.operator, edge.consumer.operator
        taken = traits[consumer].pop
        why = why_dynamic(graph, traits, edge)
        if why is None or taken in (None, 1):
            continue
        text = f"{why}, {consumer} takes {taken}"
        found.append(Queue(producer, consumer, text))
    return tuple(found)


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
    """Yield the operators that streams of fixed rates connect."""
    for edge, why in dynamic.items():
        names = edge.producer.operator, edge.consumer.operator
        ends = any(isinstance(graph[name].kind, Source | SinkKind) for name in names)
        if why is None and not ends:
            yield names
