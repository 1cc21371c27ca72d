"""Which operators lead to which."""

from __future__ import annotations

from anabranch.graph.graph import Graph


def ancestors(graph: Graph, name: str) -> set[str]:
    """Return the operators that lead to an operator, without itself."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for producer in graph.producers(pending.pop()):
            if producer not in found:
                found.add(producer)
                pending.append(producer)
    return found


def descendants(graph: Graph, name: str) -> set[str]:
    """Return the operators that an operator leads to, without itself."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for consumer in graph.consumers(pending.pop()):
            if consumer not in found:
                found.add(consumer)
                pending.append(consumer)
    return found
