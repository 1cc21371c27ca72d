"""Finds the part of an element that runs compiled, and what comes before and behind.

The part has one way in and one way out: a chain of operators that have kernels, with
split-joins among them whose branches are such chains. What comes before it and what
follows it runs in generated Python, on the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.graph.blocks import Collect, Deal
from anabranch.graph.graph import Edge, Graph, Output
from anabranch.graph.reaching import descendants
from anabranch.graph.sinks import SinkKind
from anabranch.plan.plan import Kernel
from anabranch.runtime.fusion import Entry


@dataclass(frozen=True)
class Shape:
    """A compiled part: `source` is the stream that goes in, `last` who gives the result.

    `before` and `behind` are the other operators of the element.
    """

    source: Output
    entry: Entry  # where items come in, for a program of the part alone
    operators: tuple[str, ...]
    last: str
    before: tuple[str, ...]
    behind: tuple[str, ...]


def find_shape(
    graph: Graph,
    operators: Iterable[str],
    entries: Sequence[Entry],
    kernels: Mapping[str, Kernel],
    marked: frozenset[str],
) -> Shape | None:
    """Return the longest part that can run compiled, or None."""
    inside = [n for n in operators if not isinstance(graph[n].kind, SinkKind)]
    usable = {
        name
        for name in inside
        if name in kernels and not marked.intersection(graph.producers(name))
    }
    best: Shape | None = None
    for start in _starts(graph, inside, entries):
        found = _Walk(graph, usable, entries).from_stream(*start)
        if not found:
            continue
        shape = _divided(graph, inside, entries, start, found)
        if shape is not None and (
            best is None or len(shape.operators) > len(best.operators)
        ):
            best = shape
    return best


def _starts(
    graph: Graph, inside: Sequence[str], entries: Sequence[Entry]
) -> Iterable[tuple[Output, tuple[Edge, ...], Entry]]:
    """Yield the streams at which a part may begin, with the entry that it then has."""
    if len(entries) == 1 and isinstance(entries[0], Edge):
        yield entries[0].producer, (entries[0],), entries[0]
    for name in dict.fromkeys([*(e for e in entries if isinstance(e, str)), *inside]):
        edges = graph.out_edges(name)
        if edges and {edge.producer.port for edge in edges} == {0}:
            yield Output(name, 0), edges, name


class _Walk:
    """Follows streams through operators that have kernels."""

    def __init__(
        self, graph: Graph, usable: set[str], entries: Sequence[Entry]
    ) -> None:
        self._graph = graph
        self._usable = usable
        self._entered = {e.consumer.operator for e in entries if isinstance(e, Edge)}
        self._entered |= {e for e in entries if isinstance(e, str)}

    def from_stream(
        self, source: Output, edges: tuple[Edge, ...], entry: Entry
    ) -> list[str]:
        """Return the operators of the longest part that begins with a stream."""
        found: list[str] = []
        first = entry.consumer.operator if isinstance(entry, Edge) else None
        while edges:
            further = self._further(edges, first)
            if further is None:
                break
            found += further
            edges = self._graph.out_edges(found[-1])
        return found

    def _further(self, edges: tuple[Edge, ...], first: str | None) -> list[str] | None:
        """Return the next step of a part: an operator, or a whole split-join."""
        if len(edges) > 1:
            return self._split(None, edges)
        name = edges[0].consumer.operator
        if not self._is_step(name, first):
            return None
        match self._graph[name].kind:
            case Collect():
                return None
            case Deal():
                joined = self._split(name, self._graph.out_edges(name))
                return None if joined is None else [name, *joined]
        return [name]

    def _is_step(self, name: str, first: str | None = None) -> bool:
        """Tell whether an operator can be part of it, and is reached from there only."""
        entered = name in self._entered and name != first
        return name in self._usable and not entered

    def _split(self, deal: str | None, edges: tuple[Edge, ...]) -> list[str] | None:
        """Return the operators from a fan-out to the joiner, the joiner last."""
        found: list[str] = []
        joiners = set()
        if deal is not None:
            ports = [edge.producer.port for edge in edges]
            if len(set(ports)) != len(ports):
                return None  # one branch of it is a fan-out
        for edge in edges:
            end = self._branch(edge, found)
            if end is None:
                return None
            joiners.add(end)
        if len(joiners) != 1:
            return None
        (joiner,) = joiners
        if len(self._graph[joiner].inputs) != len(edges):
            return None
        return [*found, joiner]

    def _branch(self, edge: Edge, found: list[str]) -> str | None:
        """Follow a branch to its joiner, adding what stands on it."""
        while True:
            name = edge.consumer.operator
            if not self._is_step(name):
                return None
            if isinstance(self._graph[name].kind, Collect):
                return name
            edges = self._graph.out_edges(name)
            found.append(name)
            if isinstance(self._graph[name].kind, Deal) or len(edges) > 1:
                deal = name if isinstance(self._graph[name].kind, Deal) else None
                inner = self._split(deal, edges)
                if inner is None:
                    return None
                found += inner
                edges = self._graph.out_edges(inner[-1])
            if len(edges) != 1:
                return None
            (edge,) = edges


def _divided(
    graph: Graph,
    inside: Sequence[str],
    entries: Sequence[Entry],
    start: tuple[Output, tuple[Edge, ...], Entry],
    found: list[str],
) -> Shape | None:
    """Return the part with what comes before and behind, if these can be told apart."""
    source, _, entry = start
    part = set(found)
    last = found[-1]
    behind = set(descendants(graph, last)) & set(inside)
    if behind & part:
        return None
    before = [name for name in inside if name not in part | behind]
    at_entry = isinstance(entry, Edge) or entry in entries
    if at_entry:
        apart = len(entries) == 1 and all(name in entries for name in before)
    else:
        apart = source.operator in before
    others = {_consumer(each) for each in entries if each != entry}
    if not apart or others & (part | behind):
        return None
    if _joined_from_elsewhere(graph, part, behind, source.operator, last):
        return None
    return Shape(
        source,
        entry,
        tuple(found),
        last,
        () if at_entry else tuple(before),
        tuple(name for name in inside if name in behind),
    )


def _joined_from_elsewhere(
    graph: Graph, part: set[str], behind: set[str], first: str, last: str
) -> bool:
    """Tell whether another stream leads into the part, or into what follows it."""
    ends = [(e.producer.operator, e.consumer.operator) for e in graph.edges]
    return any(
        (consumer in behind and producer not in behind | {last})
        or (consumer in part and producer not in part | {first})
        for producer, consumer in ends
    )


def _consumer(entry: Entry) -> str:
    return entry.consumer.operator if isinstance(entry, Edge) else entry
