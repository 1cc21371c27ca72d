"""Fused sets: the operators that the user's `fuse` declarations tie together.

Two fused operators run in one processing element, and so does everything that lies on
a path between them: otherwise the element would wait for itself. Seen as a graph, a
declaration is an edge in both directions, and a fused set is a strongly connected
component.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.graph.graph import Graph

FusedSets = Mapping[str, frozenset[str]]  # operator -> all that is fused with it


def find_fused_sets(graph: Graph) -> FusedSets:
    """Return the fused set of each operator that has one.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> a = Op("a", Kind())
    >>> b = Op("b", Kind(), (Output("a"),))
    >>> c = Op("c", Kind(), (Output("b"),), fuse_with="a")
    >>> sorted(find_fused_sets(Graph((a, b, c)))["b"])
    ['a', 'b', 'c']
    """
    if all(op.fuse_with is None for op in graph):
        return {}
    after = {op.name: list(graph.consumers(op.name)) for op in graph}
    for op in graph:
        if op.fuse_with is not None and op.fuse_with in graph:
            after[op.name].append(op.fuse_with)
            after[op.fuse_with].append(op.name)
    sets = (frozenset(found) for found in _strong_components(after))
    return {name: found for found in sets if len(found) > 1 for name in found}


def _strong_components(after: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected components (Kosaraju's algorithm)."""
    before: dict[str, list[str]] = {name: [] for name in after}
    for name, following in after.items():
        for consumer in following:
            before[consumer].append(name)
    finished: list[str] = []
    seen: set[str] = set()
    for name in after:
        finished += _finishing_order(name, after, seen)
    seen.clear()
    for name in reversed(finished):
        if name not in seen:
            yield _finishing_order(name, before, seen)


def _finishing_order(
    start: str, after: Mapping[str, list[str]], seen: set[str]
) -> list[str]:
    """Return what is newly reached from `start`, each behind all that it leads to."""
    finished: list[str] = []
    path: list[tuple[str, Iterator[str]]] = []
    if start not in seen:
        seen.add(start)
        path.append((start, iter(after[start])))
    while path:
        name, remaining = path[-1]
        following = next((n for n in remaining if n not in seen), None)
        if following is None:
            finished.append(name)
            path.pop()
        else:
            seen.add(following)
            path.append((following, iter(after[following])))
    return finished
