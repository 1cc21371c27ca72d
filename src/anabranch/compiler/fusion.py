"""Fused sets, and the origins and consumers of punctuations.

Fused sets are the operators that the user's `fuse` declarations tie together.

Two fused operators run in one element, and so does everything on a path between them:
otherwise the element would wait for itself. As a graph, a declaration is an edge in
both directions, and a fused set is a strongly connected component.

Replicas of a region that makes punctuations would each make their own, so nothing
outside the region may await them; and punctuations that enter a region are copied to
every replica, so nothing inside it may act on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.graph.graph import Graph
from anabranch.graph.kind import Traits
from anabranch.operators.clock import EventTime

FusedSets = Mapping[str, frozenset[str]]  # operator -> all that is fused with it


def find_fused_sets(graph: Graph) -> FusedSets:
    """Return the fused set of each operator that has one.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
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
    """Return the operators newly reached from `start`, each after those it leads to."""
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


def passes_marks(traits: Traits) -> bool:
    """Tell whether punctuations of the input are in the output too."""
    return traits.punctuation != "free"


def find_giving(graph: Graph, traits: Mapping[str, Traits]) -> frozenset[str]:
    """Return the operators whose output has punctuations or advances.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> a, b = Op("a", Kind()), Op("b", Kind(), (Output("a"),))
    >>> made = {"a": Traits("stateless", punctuation="generating"),
    ...         "b": Traits("stateless")}
    >>> find_giving(Graph((a, b)), made)
    frozenset({'a'})
    """
    giving: set[str] = set()
    for op in graph:
        punctuation = traits[op.name].punctuation
        marked = not giving.isdisjoint(graph.producers(op.name))
        advances = op.timing is not None or isinstance(op.kind, EventTime)
        if (
            advances
            or punctuation == "generating"
            or (punctuation == "preserving" and marked)
        ):
            giving.add(op.name)
    return frozenset(giving)


def find_awaited(graph: Graph, traits: Mapping[str, Traits]) -> frozenset[str]:
    """Return the operators whose output must carry punctuations to another.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> a, b = Op("a", Kind()), Op("b", Kind(), (Output("a"),))
    >>> made = {"a": Traits("stateless"),
    ...         "b": Traits("global", expects_punctuation=True)}
    >>> find_awaited(Graph((a, b)), made)
    frozenset({'a'})
    """
    awaited: set[str] = set()
    for op in reversed(graph.ops):
        of_op = traits[op.name]
        if of_op.expects_punctuation or (passes_marks(of_op) and op.name in awaited):
            awaited.update(graph.producers(op.name))
    return frozenset(awaited)
