"""Finds the part of an element that runs compiled, and the operators around it.

The part has one entry and one exit: a chain of operators with kernels, including
split-joins whose branches are such chains. The operators before and behind it run in
generated Python, on the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.graph.graph import Edge, Graph, Output, ancestors, descendants
from anabranch.graph.kind import SinkKind
from anabranch.operators.blocks import Deal
from anabranch.runtime.codegen import Entry


@dataclass(frozen=True)
class PartShape:
    """A compiled part: `source` is its input stream, `last` its last operator.

    `before` and `behind` are the other operators of the element.
    """

    source: Output
    entry: Entry  # the entry, for a program of the part alone
    operators: tuple[str, ...]
    last: str
    before: tuple[str, ...]
    behind: tuple[str, ...]


def find_shape(
    graph: Graph,
    operators: Iterable[str],
    entries: Sequence[Entry],
    kernels: Mapping[str, Any],
    marked: frozenset[str],
) -> PartShape | None:
    """Return the longest part that can run compiled, or None."""
    inside = [n for n in operators if not isinstance(graph[n].kind, SinkKind)]
    usable = {
        name
        for name in inside
        if name in kernels and not marked.intersection(graph.producers(name))
    }
    entered = {_consumer(each) for each in entries}
    best: PartShape | None = None
    for start in _starts(graph, inside, entries):
        if best is not None and len(best.operators) == len(usable):
            break
        allowed = usable - entered | usable & {_consumer(start.entry)}
        found = _longest(graph, start, allowed)
        if not found or (best is not None and len(found) <= len(best.operators)):
            continue
        best = _divide(graph, inside, entries, start, found) or best
    return best


class _Start(NamedTuple):
    """A stream at which a part may begin, with its entry."""

    source: Output
    edges: tuple[Edge, ...]
    entry: Entry


def _starts(
    graph: Graph, inside: Sequence[str], entries: Sequence[Entry]
) -> Iterable[_Start]:
    if len(entries) == 1 and isinstance(entries[0], Edge):
        yield _Start(entries[0].producer, (entries[0],), entries[0])
    for name in dict.fromkeys([*(e for e in entries if isinstance(e, str)), *inside]):
        edges = graph.out_edges(name)
        if edges and {edge.producer.port for edge in edges} == {0}:
            yield _Start(Output(name, 0), edges, name)


def _longest(graph: Graph, start: _Start, usable: set[str]) -> list[str]:
    """Return the longest chain of operators that starts at a stream.

    No other stream leads in, only the last operator leads out, and all consumers of the
    stream are among them.
    """
    reached: set[str] = set()
    waiting = [edge.consumer.operator for edge in start.edges]
    while waiting:
        name = waiting.pop()
        if name in usable and name not in reached:
            reached.add(name)
            waiting += graph.consumers(name)
    firsts = {edge.consumer.operator for edge in start.edges}
    for last in reversed(graph.names):
        if last not in reached or isinstance(graph[last].kind, Deal):
            continue
        found = (ancestors(graph, last) & reached) | {last}
        if firsts <= found and _is_closed(graph, found, last, start):
            return [name for name in graph.names if name in found]
    return []


def _is_closed(graph: Graph, found: set[str], last: str, start: _Start) -> bool:
    sources = {start.source.operator, *found}
    return all(
        {out.operator for out in graph[name].inputs} <= sources
        and (name == last or set(graph.consumers(name)) <= found)
        for name in found
    )


def _divide(
    graph: Graph,
    inside: Sequence[str],
    entries: Sequence[Entry],
    start: _Start,
    found: list[str],
) -> PartShape | None:
    """Return the part with the operators before and behind it, if these can be
    separated.
    """
    source, entry = start.source, start.entry
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
    if _is_joined_from_elsewhere(graph, part, behind, source.operator, last):
        return None
    return PartShape(
        source,
        entry,
        tuple(found),
        last,
        () if at_entry else tuple(before),
        tuple(name for name in inside if name in behind),
    )


def _is_joined_from_elsewhere(
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
