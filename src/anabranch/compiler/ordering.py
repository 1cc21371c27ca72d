"""Chooses the joints of each region and the cheapest safe ordering of its engine.

An engine that works in batches has two. *Contiguous*: each replica has a contiguous
range of the stream, so its results only have to be concatenated. *Position*: items
carry their full positions, by which they are sorted.

One that works item by item has those of the paper's Table 1. Sequence numbers are
assigned once, by the first split, and carried through the shuffles that follow. So a
region has to cope with the gaps and duplicates of the regions before it, and the
receiver of a shuffle sees gaps, since the numbers in between went to other replicas.
Numbers do not give the order where the streams of several threads meet:
positions do.

Where the replicas of one region come together, the numbers of its splitter give the
order. They do not where streams of other threads arrive too, nor behind a shuffle that
follows a region with several outputs per item: these share a number, and the shuffle
deals them to different replicas. And all windows that an advance closes in the replicas
have one number, too. Every region whose items lead to such a place, or that contains
one, needs positions, which order any two items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import prod
from typing import NamedTuple

from anabranch.compiler.fusion import find_giving
from anabranch.compiler.options import Target
from anabranch.compiler.regions import Formed
from anabranch.graph.graph import (
    Edge,
    Graph,
    Op,
    has_turns,
    name_stream,
    streams_into,
    streams_out_of,
)
from anabranch.graph.kind import Push, SinkKind, SourceKind, Traits
from anabranch.operators.blocks import Block
from anabranch.operators.clock import keeps_clock
from anabranch.operators.rates import find_pairing
from anabranch.operators.sinks import WriteFiles
from anabranch.operators.stateless import Map, Split
from anabranch.plan import plan
from anabranch.plan.plan import Region, find_beside


def find_meetings(graph: Graph, regions: Sequence[Region]) -> dict[str, str]:
    """Return the regions that need positions, each with the reason.

    All `regions` have several replicas.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind, SourceKind
    >>> from anabranch.operators.fan_in import Union
    >>> left, both = Op("left", Kind(), (Output("s"),)), (Output("s"), Output("left"))
    >>> g = Graph((Op("s", SourceKind()), left, Op("u", Union(), both)))
    >>> from anabranch.graph.kind import Push
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
            why = "its items were shuffled, and several share a number"
            pending.append((producer, why))
    for region in regions:
        turning = [name for name in region.operators if has_turns(graph[name])]
        why = "at an advance of the clock all replicas of {} give outputs"
        pending += [(first_of[name], why.format(name)) for name in turning]
    beside = find_beside(streams, region_of, set(first_of.values()))
    reasons: dict[str, str] = {}
    while pending:
        name, why = pending.pop()
        if name not in reasons:
            reasons[name] = why
            pending += [(producer, why) for producer in feeding.get(name, ())]
            pending += [(other, why) for other in beside.get(name, ())]
    return {region_of[n]: why for n, why in reasons.items() if n in region_of}


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


ONE_TO_ONE = Push(1, 1)
IN_ANY_ORDER = "all its results go to sinks that take them in any order"
LONGEST_PERIOD = 10_000  # items to count through


class Joints(NamedTuple):
    """The joints at the two ends of a region."""

    first: plan.FirstJoint
    last: plan.LastJoint


class Strategy(NamedTuple):
    """The ordering of a region, and why it is the cheapest safe one."""

    ordering: plan.Ordering
    why: str


def order_regions(
    graph: Graph,
    traits: Mapping[str, Traits],
    formed: Sequence[Formed],
    target: Target | None = None,
) -> tuple[plan.Region, ...]:
    """Return the regions of a plan, with their joints and orderings.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> known = {"a": Traits("global"), "b": Traits("stateless", push=Push(0, 1))}
    >>> [region] = order_regions(g, known, [Formed(("b",), (), "")])
    >>> region.first_joint, region.ordering, region.last_joint
    ('split', 'strict', 'merge')
    """
    target = target or Target()
    joined = _join_regions(graph, traits, formed, target)
    regions = [_plan_region(graph, traits, one, target) for one in joined]
    if target.batched:
        return tuple(regions)
    waiting = {one.name for one in joined if one.waits}
    replicated = [region for region in regions if region.name not in waiting]
    meetings = find_meetings(graph, replicated)
    giving = find_giving(graph, traits)
    return tuple(
        _order_by_threads(graph, traits, region, meetings.get(region.name), giving)
        for region in regions
    )


class _Joined(NamedTuple):
    """A region with its joints.

    Its push is that since its items were `numbered` by the first splitter before it. It
    `waits` if it has one replica while the region before it has several.
    """

    name: str
    formed: Formed
    entering: tuple[Edge, ...]
    leaving: tuple[Edge, ...]
    joints: Joints
    push: Push
    numbered: Push
    waits: bool


def _join_regions(
    graph: Graph,
    traits: Mapping[str, Traits],
    formed: Sequence[Formed],
    target: Target,
) -> list[_Joined]:
    """Return the regions with their joints, in the order of the stream."""
    reached = frozenset(
        name
        for one in formed
        if _may_be_shuffled_to(one, target)
        for name in one.operators
    )
    carried: dict[str, Push] = {}  # operator of a region -> push since numbered
    regions = []
    for serial, one in enumerate(formed):
        entering = streams_into(graph, one.operators)
        leaving = streams_out_of(graph, one.operators)
        joints = Joints(
            _first_joint(graph, one, entering, carried),
            _last_joint(graph, one, leaving, reached - frozenset(one.operators)),
        )
        push = numbered = push_of(graph, traits, one)
        waits = joints.first == "shuffle" and not _may_be_shuffled_to(one, target)
        if waits:
            joints = Joints("split", "merge")
        elif joints.first == "shuffle":
            before = [e.producer.operator for e in entering]
            shuffled = [carried[n] for n in before if n in carried]
            numbered = _at_most(shuffled).then(push)
        if not waits:
            carried |= dict.fromkeys(one.operators, numbered)
        regions.append(
            _Joined(
                name=f"r{serial}",
                formed=one,
                entering=tuple(entering),
                leaving=tuple(leaving),
                joints=joints,
                push=push,
                numbered=numbered,
                waits=waits,
            )
        )
    return regions


def _plan_region(
    graph: Graph, traits: Mapping[str, Traits], joined: _Joined, target: Target
) -> plan.Region:
    """Return a region with its ordering, as far as it decides that by itself."""
    one, joints = joined.formed, joined.joints
    chosen = choose_ordering(
        one.key,
        joined.numbered,
        joints,
        target,
        marks=_marks(graph, traits, one),
        ordered=not _is_free(graph, traits, one.operators, target),
    )
    note = ""
    if target.batched and not one.key and _has_clock(graph, one):
        note = "; the clock continues from each range to the next"
    elif joined.waits:
        note = "; it has several replicas only while the region before it has one"
    return plan.Region(
        name=joined.name,
        operators=one.operators,
        key=one.key,
        push=joined.push,
        ordering=chosen.ordering,
        first_joint=joints.first,
        last_joint=joints.last,
        why=chosen.why + note + _describe_pairs(graph, one.operators),
        ends=one.ends,
        period=one.period,
        inputs=_name_streams(joined.entering),
        outputs=_name_streams(joined.leaving),
    )


def _name_streams(edges: Sequence[Edge]) -> tuple[str, ...]:
    """Return the names of the streams of edges, each once."""
    return tuple(dict.fromkeys(name_stream(edge.producer) for edge in edges))


def _order_by_threads(
    graph: Graph,
    traits: Mapping[str, Traits],
    region: plan.Region,
    meeting: str | None,
    giving: frozenset[str],
) -> plan.Region:
    """Return a region of threads with its order, now that all others are known."""
    if _writes(graph, region.operators):
        return region
    pairs = _describe_pairs(graph, region.operators)
    if meeting is not None:
        return replace(region, ordering="position", why=meeting + pairs)
    signs = not giving.isdisjoint(region.operators)
    free = _is_free(graph, traits, region.operators, Target())
    if region.period == 1 and not signs and free:
        return replace(region, ordering="none", why=IN_ANY_ORDER + pairs)
    return region


def _describe_pairs(graph: Graph, operators: Sequence[str]) -> str:
    """Return why a fan-in with one state is in a region; nothing if none is."""
    pairing = find_pairing(graph, operators)
    return f"; all inputs of {pairing} come from one item" if pairing else ""


def _has_clock(graph: Graph, formed: Formed) -> bool:
    return any(keeps_clock(graph[name]) for name in formed.operators)


def _marks(graph: Graph, traits: Mapping[str, Traits], formed: Formed) -> bool:
    """Tell whether the punctuations that leave a region differ from those that enter
    it.
    """
    return any(
        traits[name].punctuation != "preserving"
        for name in formed.operators
        if not _is_end(graph[name])
    )


def _is_free(
    graph: Graph, traits: Mapping[str, Traits], operators: Sequence[str], target: Target
) -> bool:
    """Tell whether all outputs of a region go to unordered sinks.

    In batches a file behind the region is made of ranges of the stream all the same.
    """
    ends = [name for name in operators if not graph.out_edges(name)]
    behind = [e.consumer.operator for e in streams_out_of(graph, operators)]
    takers = [*ends, *behind]
    files = any(isinstance(graph[name].kind, WriteFiles) for name in behind)
    return (
        bool(takers)
        and all(traits[name].unordered for name in takers)
        and not (target.batched and files)
    )


def choose_ordering(
    key: tuple[str, ...],
    push: Push,
    joints: Joints,
    target: Target,
    *,
    marks: bool = False,
    ordered: bool = True,
) -> Strategy:
    """Return the cheapest safe ordering for a region, and why it is.

    `push` counts from where the items were numbered; `marks` if the region makes or
    removes punctuations, and `ordered` if the order of its results matters.

    >>> between = Joints("split", "merge")
    >>> choose_ordering((), Push(1, 1), between, Target()).ordering
    'round_robin'
    >>> choose_ordering(("k",), Push(0, 1), between, Target()).ordering
    'strict'
    """
    ranges = "the source" if joints.first == "parallel_source" else "a batch"
    if not key and (target.batched or joints.first == "parallel_source"):
        return Strategy(
            "contiguous",
            f"stateless, so the results for ranges of {ranges} are concatenated",
        )
    if target.batched:
        sort = "items are partitioned by key, so results are sorted"
        return Strategy("position", sort) if ordered else Strategy("none", IN_ANY_ORDER)
    if is_prolific(push):
        return Strategy(
            "relaxed", f"{_format_push(push)}, so numbers repeat and have gaps"
        )
    gaps = _why_gaps(push, joints, target, marks=marks)
    if gaps is not None:
        return Strategy("strict", gaps)
    if key:
        why = "but the key decides which replica makes it"
        return Strategy("seqno", f"one output for each item, {why}")
    return Strategy(
        "round_robin",
        "stateless with one output for each item, so taking turns is enough",
    )


def _why_gaps(push: Push, joints: Joints, target: Target, *, marks: bool) -> str | None:
    """Return why numbers may be missing at the end of a region, or None."""
    if push != ONE_TO_ONE:
        return f"{_format_push(push)}, so numbers may be missing"
    one = "one output for each item, but"
    if target.resilient:
        return f"{one} an item that fails leaves a gap"
    if marks:
        return f"{one} not for each punctuation"
    if "shuffle" in joints:
        return f"{one} a shuffle sends only some of the numbers to a replica"
    return None


def push_of(graph: Graph, traits: Mapping[str, Traits], formed: Formed) -> Push:
    """Return the number of items that leave a region per item that enters it.

    If streams meet in the region, an item may come out once per path.
    """
    if formed.period > 1:
        return _push_of_chain(graph, traits, formed)
    behind: dict[str, dict[str, Push]] = {}  # by the entry of an item
    ends: list[Push] = []
    entries: list[str] = []
    inside = frozenset(formed.operators)
    for name in formed.operators:
        op = graph[name]
        before = [behind[o.operator] for o in op.inputs if o.operator in inside]
        if len(before) < max(len(op.inputs), 1):
            entries.append(name)
            before.append({name: ONE_TO_ONE})
        own = Push(0, 1) if isinstance(op.kind, Split) else traits[name].push
        behind[name] = {
            entry: (push if _is_end(op) else push.then(own))
            for entry in dict.fromkeys(entry for one in before for entry in one)
            if (push := _sum([one[entry] for one in before if entry in one]))
        }
        consumers = graph.consumers(name)
        if not consumers or not inside.issuperset(consumers):
            ends += [behind[name].get(entry, Push(0, 0)) for entry in entries]
    return _at_most(ends)


def _sum(pushes: Sequence[Push]) -> Push:
    """Return the number of items that arrive on several streams.

    >>> _sum([Push(0, 1), Push(1, 2)])
    Push(least=1, most=3)
    """
    most = [push.most for push in pushes]
    bounded = [count for count in most if count is not None]
    total = sum(bounded) if len(bounded) == len(most) else None
    return Push(sum(push.least for push in pushes), total)


def _at_most(pushes: Sequence[Push]) -> Push:
    """Return the range of the rates of several streams."""
    bounded = [push.most for push in pushes if push.most is not None]
    most = max(bounded) if len(bounded) == len(pushes) else None
    return Push(min(push.least for push in pushes), most)


def _push_of_chain(graph: Graph, traits: Mapping[str, Traits], formed: Formed) -> Push:
    inner = [n for n in formed.operators if not _is_end(graph[n])]
    paced = list(takewhile(lambda n: isinstance(graph[n].kind, Map | Block), inner))
    kinds = [graph[name].kind for name in paced]
    blocks = [kind for kind in kinds if isinstance(kind, Block)]
    push = _push_in_groups(blocks, formed.period)
    for name in inner[len(paced) :]:
        push = push.then(traits[name].push)
    return push


def _push_in_groups(blocks: Sequence[Block], period: int) -> Push:
    """Return the number of items that leave maps and blocks per item that enters them.

    After `period` items all blocks are complete, and the cycle repeats.
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
    return isinstance(op.kind, SourceKind | SinkKind)


def is_prolific(push: Push) -> bool:
    """Tell whether one item may become several."""
    return push.most is None or push.most > 1


def _first_joint(
    graph: Graph,
    formed: Formed,
    entering: Sequence[Edge],
    carried: Mapping[str, Push],
) -> plan.FirstJoint:
    if any(isinstance(graph[n].kind, SourceKind) for n in formed.operators):
        return "parallel_source"
    before = (edge.producer.operator for edge in entering)
    return "split" if carried.keys().isdisjoint(before) else "shuffle"


def _last_joint(
    graph: Graph, formed: Formed, leaving: Sequence[Edge], reached: frozenset[str]
) -> plan.LastJoint:
    if _writes(graph, formed.operators) and not leaving:
        return "parallel_sink"
    behind = (edge.consumer.operator for edge in leaving)
    return "merge" if reached.isdisjoint(behind) else "shuffle"


def _writes(graph: Graph, operators: Sequence[str]) -> bool:
    return any(isinstance(graph[name].kind, SinkKind) for name in operators)


def _may_be_shuffled_to(formed: Formed, target: Target) -> bool:
    """Tell whether replicas of another region may send to a region.

    Groups are dealt by one splitter, unless there is an epoch to count them in. So such
    a region has one replica while the region before it has several.
    """
    return formed.period == 1 or target.batched


def _format_push(push: Push) -> str:
    if push.most is None:
        return f"{push.least} or more outputs for each item"
    if push.least == push.most:
        return f"{push.most} outputs for each item"
    return f"{push.least} to {push.most} outputs for each item"
