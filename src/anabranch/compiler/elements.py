"""Assigns every operator to an element, and the elements to levels.

A region is one element. Operators outside regions that are connected without a region
in between form one element, in which an item goes from operator to operator by a call.
A level is a step: an element reads only the output of lower levels, which is why a
region between two operators puts the second one on a higher level even if the two are
connected directly as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from anabranch.compiler.fusion import find_fused_sets
from anabranch.compiler.regions import Formed
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Element, Region

Group = str  # a chain, or the first operator of a fused set, or an operator


def form_elements(
    graph: Graph, regions: Sequence[Region], apart: Sequence[Formed] = ()
) -> tuple[Element, ...]:
    """Return the elements, each after those it reads from.

    Chains that stay `apart` are elements too, but have no replicas.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> from anabranch.graph.kind import Push
    >>> ops = [Op("a", Kind())]
    >>> ops += [Op(n, Kind(), (Output(p),)) for p, n in ("ab", "bc", "cd")]
    >>> r0 = Region("r0", ("c",), (), Push(1, 1), "round_robin", "split", "merge", "")
    >>> [(e.name, e.operators) for e in form_elements(Graph(tuple(ops)), [r0])]
    [('e0', ('a', 'b')), ('e1', ('c',)), ('e2', ('d',))]
    """
    region_of = {name: r.name for r in regions for name in r.operators}
    chain_of = {name: c.operators[0] for c in apart for name in c.operators} | region_of
    group_of = _groups(graph, chain_of)
    levels = _levels(graph, group_of, chain_of)
    level_of = {op.name: levels[group_of[op.name]] for op in graph}
    return _in_order(
        graph,
        _group_operators(graph, group_of, level_of, chain_of),
        level_of,
        region_of,
    )


def _groups(graph: Graph, chain_of: Mapping[str, str]) -> dict[str, Group]:
    """Return the operators that must share an element: a region, or a fused set."""
    fused = find_fused_sets(graph)
    first_of: dict[frozenset[str], str] = {}
    groups: dict[str, Group] = {}
    for op in graph:
        group = op.name
        if op.name in fused:
            group = first_of.setdefault(fused[op.name], op.name)
        groups[op.name] = f"chain {chain_of[op.name]}" if op.name in chain_of else group
    return groups


def _levels(
    graph: Graph, group_of: Mapping[str, Group], chain_of: Mapping[str, str]
) -> dict[Group, int]:
    """Return the level of each group: the number of region boundaries before it."""
    streams = [
        (group_of[edge.producer.operator], group_of[edge.consumer.operator], edge)
        for edge in graph.edges
    ]
    after: dict[Group, list[tuple[Group, int]]] = {g: [] for g in group_of.values()}
    waiting_for = dict.fromkeys(after, 0)
    for producer, consumer, edge in streams:
        if producer != consumer:
            ends = (edge.producer.operator, edge.consumer.operator)
            step = int(any(name in chain_of for name in ends))
            after[producer].append((consumer, step))
            waiting_for[consumer] += 1
    levels = dict.fromkeys(after, 0)
    ready = deque(group for group, count in waiting_for.items() if count == 0)
    while ready:
        group = ready.popleft()
        for consumer, step in after[group]:
            levels[consumer] = max(levels[consumer], levels[group] + step)
            waiting_for[consumer] -= 1
            if waiting_for[consumer] == 0:
                ready.append(consumer)
    return levels


def _group_operators(
    graph: Graph,
    group_of: Mapping[str, Group],
    level_of: Mapping[str, int],
    chain_of: Mapping[str, str],
) -> Iterable[list[str]]:
    """Yield the operators of each element, in program order."""
    leader = {group: group for group in group_of.values()}
    for edge in graph.edges:
        ends = (edge.producer.operator, edge.consumer.operator)
        if any(name in chain_of for name in ends):
            continue
        if level_of[ends[0]] == level_of[ends[1]]:
            one, two = (_leader(leader, group_of[name]) for name in ends)
            leader[two] = one
    members: dict[Group, list[str]] = {}
    for op in graph:
        members.setdefault(_leader(leader, group_of[op.name]), []).append(op.name)
    return members.values()


def _leader(leader: dict[Group, Group], group: Group) -> Group:
    while leader[group] != group:
        leader[group] = leader[leader[group]]  # path halving for the next search
        group = leader[group]
    return group


def _in_order(
    graph: Graph,
    members: Iterable[list[str]],
    level_of: Mapping[str, int],
    region_of: Mapping[str, str],
) -> tuple[Element, ...]:
    place = {name: index for index, name in enumerate(graph.names)}
    ordered = sorted(members, key=lambda names: (level_of[names[0]], place[names[0]]))
    return tuple(
        Element(f"e{serial}", tuple(names), region_of.get(names[0]))
        for serial, names in enumerate(ordered)
    )
