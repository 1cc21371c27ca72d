"""Which operators lead to which."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anabranch.graph.graph import Graph


def ancestors(graph: Graph, name: str) -> set[str]:
    """Return the operators that lead to an operator, without itself."""
    return _reached(name, graph.producers)


def descendants(graph: Graph, name: str) -> set[str]:
    """Return the operators that an operator leads to, without itself."""
    return _reached(name, graph.consumers)


def _reached(name: str, neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        for one in neighbours(pending.pop()):
            if one not in found:
                found.add(one)
                pending.append(one)
    return found
