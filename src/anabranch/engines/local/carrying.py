"""Which streams must carry positions: those that lead to where threads meet.

Where the streams of one region come together, the numbers that its splitter gave tell
the order. They do not where streams meet that parted elsewhere, and neither behind a
shuffle that follows an operator with several outputs for one item: all of them have
the same number, and the shuffle deals them to different channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from anabranch.engines.local.threads import Parts, Threads
from anabranch.graph.blocks import Deal
from anabranch.graph.graph import Edge, Graph, Op
from anabranch.graph.kinds import Barrier, Filter, Map, Punctuate, Split, Union
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.plan.plan import Plan
from anabranch.runtime.positions import Positions, positions_of


def find_shuffles(cut: Sequence[Edge], parts: Parts) -> frozenset[tuple[str, str]]:
    """Return the pairs of regions between which streams are shuffled."""
    ends = ((e.producer.operator, e.consumer.operator) for e in cut)
    pairs = ((parts.get(one), parts.get(two)) for one, two in ends)
    return frozenset((one, two) for one, two in pairs if one and two and one != two)


def find_carrying(
    plan: Plan, threads: Threads, cut: Sequence[Edge], parts: Parts
) -> frozenset[str]:
    """Return the elements whose streams lead to a merge by position."""
    unsure = _unsure(plan, find_shuffles(cut, parts))
    pairs = [
        (threads.leader[e.producer.operator], threads.leader[e.consumer.operator])
        for e in cut
    ]
    arriving = Counter(consumer for _, consumer in pairs)
    carrying: set[str] = set()
    waiting = [
        producer
        for producer, consumer in pairs
        if arriving[consumer] > 1
        or (parts.get(producer) in unsure and parts.get(consumer) != parts[producer])
    ]
    while waiting:
        name = waiting.pop()
        if name not in carrying:
            carrying.add(name)
            waiting += [producer for producer, consumer in pairs if consumer == name]
    return frozenset(carrying)


def _unsure(plan: Plan, shuffles: frozenset[tuple[str, str]]) -> frozenset[str]:
    """Return the regions behind which numbers do not tell the order."""
    prolific = {r.name for r in plan.regions if r.push.most is None or r.push.most > 1}
    unsure: set[str] = set()
    for region in plan.regions:  # left to right, so what comes before is known
        before = {one for one, two in shuffles if two == region.name}
        if before & (prolific | unsure):
            unsure.add(region.name)
    return frozenset(unsure)


def positions_in(graph: Graph, plan: Plan) -> Positions:
    """Return the form of the positions on every stream."""
    most = {operator.name: operator.push.most for operator in plan.operators}
    return positions_of(
        graph, frozenset(op.name for op in graph if _is_prolific(op, most))
    )


def _is_prolific(op: Op, most: Mapping[str, int | None]) -> bool:
    """Tell whether one item may lead to several events; punctuations count too."""
    if isinstance(op.kind, Source | SinkKind | Map | Filter | Union | Barrier | Deal):
        return False
    if isinstance(op.kind, Punctuate | Split):
        return True
    known = most.get(op.name)
    return known is None or known > 1
