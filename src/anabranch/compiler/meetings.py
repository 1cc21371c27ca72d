"""Finds the regions that need positions on an engine of threads.

Where the replicas of one region come together, the numbers of its splitter give the
order. They do not where streams of other threads arrive too, nor behind a shuffle that
follows a region with several outputs per item: these share a number, and the shuffle
deals them to different replicas. And all windows that an advance closes in the replicas
have one number, too. Every region whose items lead to such a place, or that contains
one, needs positions, which order any two items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.graph.graph import Graph, has_turns, streams_into
from anabranch.plan.plan import Region


def find_meetings(graph: Graph, regions: Sequence[Region]) -> dict[str, str]:
    """Return the regions that need positions, each with the reason.

    All `regions` have several replicas.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind, SourceKind
    >>> from anabranch.operators.stateless import Union
    >>> left, both = Op("left", Kind(), (Output("s"),)), (Output("s"), Output("left"))
    >>> g = Graph((Op("s", SourceKind()), left, Op("u", Union(), both)))
    >>> from anabranch.graph.traits import Push
    >>> r0 = Region("r0", ("left",), (), Push(1, 1), "strict", "split", "merge", "")
    >>> find_meetings(g, [r0])
    {'r0': 'its items meet those of other threads at u'}
    """
    region_of = {name: region.name for region in regions for name in region.operators}
    first_of = _first_operators(graph, region_of)
    streams = [
        (first_of[e.producer.operator], first_of[e.consumer.operator])
        for e in graph.edges
        if first_of[e.producer.operator] != first_of[e.consumer.operator]
    ]
    feeding: dict[str, list[str]] = {}
    for producer, consumer in streams:
        feeding.setdefault(consumer, []).append(producer)
    repeated = _find_repeated(graph, regions, region_of)
    pending: list[tuple[str, str]] = []
    for producer, consumer in streams:
        within = region_of.get(producer) == region_of.get(consumer)
        if len(feeding[consumer]) > 1:
            why = f"its items meet those of other threads at {consumer}"
            pending.append((producer, why))
            if consumer in region_of:
                pending.append((consumer, f"its items meet at {consumer}"))
        elif region_of.get(producer) in repeated and not within:
            why = "its items have been shuffled though several share a number"
            pending.append((producer, why))
    for region in regions:
        turning = [name for name in region.operators if has_turns(graph[name])]
        why = "an advance of the clock has all replicas give outputs at {}"
        pending += [(first_of[name], why.format(name)) for name in turning]
    beside = _find_beside(streams, region_of, set(first_of.values()))
    reasons: dict[str, str] = {}
    while pending:
        name, why = pending.pop()
        if name not in reasons:
            reasons[name] = why
            pending += [(producer, why) for producer in feeding.get(name, ())]
            pending += [(other, why) for other in beside.get(name, ())]
    return {region_of[n]: why for n, why in reasons.items() if n in region_of}


def _find_beside(
    streams: Sequence[tuple[str, str]], region_of: Mapping[str, str], heads: set[str]
) -> dict[str, list[str]]:
    """Return the operators that carry positions if an operator of a region does.

    All of its region, which has one ordering, and the regions that it shuffles to:
    items are not renumbered.
    """
    inside: dict[str, list[str]] = {}
    for name in heads & region_of.keys():
        inside.setdefault(region_of[name], []).append(name)
    beside = {name: list(names) for names in inside.values() for name in names}
    for producer, consumer in streams:
        if producer in region_of and consumer in region_of:
            beside[producer].append(consumer)
    return beside


def _first_operators(graph: Graph, region_of: Mapping[str, str]) -> dict[str, str]:
    """Return for each operator the first one that its thread runs."""
    first_of: dict[str, str] = {}
    for op in graph:
        before = {first_of[output.operator] for output in op.inputs}
        regions = {region_of.get(output.operator) for output in op.inputs}
        goes_on = len(before) == 1 and regions == {region_of.get(op.name)}
        first_of[op.name] = before.pop() if goes_on else op.name
    return first_of


def _find_repeated(
    graph: Graph, regions: Sequence[Region], region_of: Mapping[str, str]
) -> frozenset[str]:
    """Return the regions behind a shuffle of items that share a number."""
    sharing = {r.name for r in regions if r.push.most is None or r.push.most > 1}
    repeated: set[str] = set()
    for region in regions:  # left to right, so producers are known
        producers = (e.producer.operator for e in streams_into(graph, region.operators))
        before = {region_of.get(name) for name in producers}
        if before & (sharing | repeated):
            repeated.add(region.name)
    return frozenset(repeated)
