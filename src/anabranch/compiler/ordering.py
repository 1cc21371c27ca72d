"""Choose the joints of each region and the cheapest way to keep its order.

Table 1 of the paper, and two cheaper strategies. *Contiguous*: each replica has an
unbroken part of the stream, so its results only have to be laid end to end. *None*:
the items end in a parallel sink that does not mind their order.

Sequence numbers are given once, by the first split or source, and carried through the
shuffles that follow. So a region has to cope with the gaps and duplicates that the
regions before it made, and whatever receives a shuffle sees gaps, since the numbers in
between went to other replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import prod
from typing import NamedTuple

from anabranch.analysis.traits import Push, Traits
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.regions import Chain
from anabranch.graph.blocks import Block
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kinds import Map
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.plan import plan

ONE_TO_ONE = Push(1, 1)
LONGEST_PERIOD = 10_000  # items to count through


class Joints(NamedTuple):
    """What happens at the two ends of a region."""

    first: plan.FirstJoint
    last: plan.LastJoint


class Strategy(NamedTuple):
    """How a region keeps its order, and why this is the cheapest safe way."""

    ordering: plan.Ordering
    why: str


def order_regions(
    graph: Graph,
    traits: Mapping[str, Traits],
    chains: Sequence[Chain],
    target: Target | None = None,
    rules: Rules | None = None,
) -> tuple[plan.Region, ...]:
    """Return the regions of a plan, with their joints and orderings.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> known = {"a": Traits("global"), "b": Traits("stateless", push=Push(0, 1))}
    >>> [region] = order_regions(g, known, [Chain(("b",), (), "")])
    >>> region.first_joint, region.ordering, region.last_joint
    ('split', 'strict', 'merge')
    """
    target, rules = target or Target(), rules or Rules()
    heads = frozenset(c.operators[0] for c in chains if _may_be_shuffled_to(c, target))
    carried: dict[str, Push] = {}  # last operator of a region -> push since numbered
    regions: list[plan.Region] = []
    for serial, chain in enumerate(chains):
        head, tail = chain.operators[0], chain.operators[-1]
        push = push_of(graph, traits, chain)
        numbered = push
        first = _first_joint(graph, head, carried, rules)
        if first == "shuffle" and not _may_be_shuffled_to(chain, target):
            first = "split"
        if first == "shuffle":
            numbered = carried[graph.producers(head)[0]].then(push)
        carried[tail] = numbered
        joints = Joints(first, _last_joint(graph, tail, heads, numbered, rules))
        unordered = joints.last == "parallel_sink" and not traits[tail].needs_order
        chosen = choose_ordering(
            chain.key, numbered, joints, target, unordered=unordered
        )
        regions.append(
            plan.Region(
                name=f"r{serial}",
                operators=chain.operators,
                key=chain.key,
                push=plan.Push(*push),
                ordering=chosen.ordering,
                first_joint=joints.first,
                last_joint=joints.last,
                why=chosen.why,
                ends=chain.ends,
                period=chain.period,
            )
        )
    return tuple(regions)


def choose_ordering(
    key: tuple[str, ...],
    push: Push,
    joints: Joints,
    target: Target,
    *,
    unordered: bool = False,
) -> Strategy:
    """Return the cheapest ordering that is safe for a region, and why it is.

    `push` counts from where the items were numbered, `unordered` tells that they end
    in a sink that does not mind their order.

    >>> between = Joints("split", "merge")
    >>> choose_ordering((), Push(1, 1), between, Target()).ordering
    'round_robin'
    >>> choose_ordering(("k",), Push(0, 1), between, Target()).ordering
    'strict'
    """
    if unordered:
        return Strategy("none", "the sink takes the items in any order")
    if not key and joints.first == "parallel_source":
        return Strategy(
            "contiguous", "without state, ranges of the source are laid end to end"
        )
    if not key and target.batched:
        return Strategy(
            "contiguous", "without state, ranges of a batch are laid end to end"
        )
    if is_prolific(push):
        return Strategy("relaxed", f"{_shown(push)}, so numbers repeat and have gaps")
    if push != ONE_TO_ONE:
        return Strategy("strict", f"{_shown(push)}, so numbers may be missing")
    return _one_to_one(key, joints)


def _one_to_one(key: tuple[str, ...], joints: Joints) -> Strategy:
    """Return the ordering of a region that gives one output for each item."""
    if joints.last == "shuffle":
        why = "but after the shuffle a replica sees only some of the numbers"
        return Strategy("strict", f"one output for each item, {why}")
    if key:
        why = "but the key decides which replica makes it"
        return Strategy("seqno", f"one output for each item, {why}")
    if joints.first == "shuffle":
        why = "but several replicas deal the items out"
        return Strategy("seqno", f"one output for each item, {why}")
    return Strategy(
        "round_robin", "without state and with one output for each item, turns suffice"
    )


def push_of(graph: Graph, traits: Mapping[str, Traits], chain: Chain) -> Push:
    """Return how many items leave a region for one that enters it."""
    inner = [n for n in chain.operators if not _is_end(graph[n])]
    paced = list(takewhile(lambda n: isinstance(graph[n].kind, Map | Block), inner))
    kinds = [graph[name].kind for name in paced]
    blocks = [kind for kind in kinds if isinstance(kind, Block)]
    push = _push_in_groups(blocks, chain.period)
    for name in inner[len(paced) :]:
        push = push.then(traits[name].push)
    return push


def _push_in_groups(blocks: Sequence[Block], period: int) -> Push:
    """Return how many items leave maps and blocks for one that enters them.

    After `period` items all blocks are complete, and it begins anew.
    """
    if period > LONGEST_PERIOD:
        return Push(0, prod(block.push for block in blocks))
    waiting = [0] * len(blocks)
    given: set[int] = set()
    for _ in range(period):
        coming = 1
        for number, block in enumerate(blocks):
            fired, waiting[number] = divmod(waiting[number] + coming, block.pop)
            coming = fired * block.push
        given.add(coming)
    return Push(min(given), max(given))


def _is_end(op: Op) -> bool:
    return isinstance(op.kind, Source | SinkKind)


def is_prolific(push: Push) -> bool:
    """Tell whether one item may become several."""
    return push.most is None or push.most > 1


def _first_joint(
    graph: Graph, head: str, carried: Mapping[str, Push], rules: Rules
) -> plan.FirstJoint:
    if isinstance(graph[head].kind, Source):
        return "parallel_source"
    before = carried.get(next(iter(graph.producers(head)), ""))
    return "split" if before is None or not _may_shuffle(before, rules) else "shuffle"


def _last_joint(
    graph: Graph, tail: str, heads: frozenset[str], numbered: Push, rules: Rules
) -> plan.LastJoint:
    if isinstance(graph[tail].kind, SinkKind):
        return "parallel_sink"
    goes_on = not heads.isdisjoint(graph.consumers(tail))
    return "shuffle" if goes_on and _may_shuffle(numbered, rules) else "merge"


def _may_shuffle(numbered: Push, rules: Rules) -> bool:
    return rules.shuffle_after_prolific or not is_prolific(numbered)


def _may_be_shuffled_to(chain: Chain, target: Target) -> bool:
    """Tell whether replicas of another region may send to a region.

    Groups are dealt out by one splitter, unless there is an epoch to count them in.
    """
    return chain.period == 1 or target.batched


def _shown(push: Push) -> str:
    if push.most is None:
        return f"{push.least} or more outputs for each item"
    if push.least == push.most:
        return f"{push.most} outputs for each item"
    return f"{push.least} to {push.most} outputs for each item"
