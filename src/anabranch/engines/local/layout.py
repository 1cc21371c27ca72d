"""From a configuration to elements: what runs where, and how order is kept.

A layout is frozen data, computed anew for every change. There are three ways to keep order
between elements:

- one thread feeds another: nothing is needed;
- a region whose streams meet nothing else on their way: the splitter numbers items and
  the merger follows the ordering of the plan;
- streams that fork and meet again in other ways: every stream that leads to such a
  meeting carries full positions from the source on.

The plan says which of these applies to a region when every region is replicated. A plan
that asks for something else is refused.

Thread propagation (Appendix D) finds the threads that can reach each operator. Every
source has a thread, and so has every threaded port. A thread continues through the
operators behind its start, until it comes to a threaded port, to the replicas of a
region, which have threads of their own, or to an operator that needs a lock. An
operator that several threads can reach needs one; ours keeps their order too (see
`anabranch.runtime.ports`).

Where the streams of one region come together, the numbers of its splitter give the
order. They do not where streams meet that forked elsewhere, nor behind a shuffle that
follows an operator with several outputs per item: these have the same number, and the
shuffle deals them to different replicas. The streams that lead to such a place carry
positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from anabranch.errors import PlanError
from anabranch.graph.graph import Edge, Graph, Input, Op, has_turns, streams_into
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Deal
from anabranch.operators.fan_in import Barrier, Union
from anabranch.operators.rates import find_pairing
from anabranch.operators.stateless import Filter, Map, Punctuate, Split
from anabranch.plan.integrity import check, check_orders
from anabranch.plan.plan import Order, Plan, Region, find_beside
from anabranch.runtime.codegen import find_punctuated_operators
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.ordering.choose import Strategy
from anabranch.runtime.positions import Positions, positions_of

MOST_SPARE = 64  # replicas of a region, beyond which none are made in reserve
EPOCH = 10  # items per replica between two pulses; the default of the paper


@dataclass(frozen=True)
class Configuration:
    """The threaded ports, and the degrees of regions (1 by default).

    `suspended` are further replicas of a region that get no items.
    """

    ports: frozenset[Input] = frozenset()
    degrees: Mapping[str, int] = field(default_factory=dict)
    suspended: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    epoch: int = EPOCH
    batch: int | None = None  # items at a time; otherwise by their cost and size
    fission: int = 1  # threads that may share the firings of a compiled operator

    def with_port(self, port: Input) -> Configuration:
        """Return the configuration with one more threaded port."""
        return replace(self, ports=self.ports | {port})

    def without_port(self, port: Input) -> Configuration:
        """Return the configuration with one threaded port fewer."""
        return replace(self, ports=self.ports - {port})

    def with_degree(self, region: str, degree: int) -> Configuration:
        """Return the configuration with another degree for a region."""
        tables = {name: t for name, t in self.tables.items() if name != region}
        suspended = {n: count for n, count in self.suspended.items() if n != region}
        degrees = {**self.degrees, region: degree}
        return replace(self, degrees=degrees, suspended=suspended, tables=tables)

    def with_active(self, region: str, degree: int) -> Configuration:
        """Return the configuration with another number of active replicas of a region.

        Existing ones are woken or suspended. If they are not enough, it gets twice as
        many as needed, so that more can be woken.

        >>> one = Configuration().with_active("r0", 3)
        >>> one.count_replicas("r0"), one.with_active("r0", 2).suspended
        (6, {'r0': 4})
        """
        there = self.count_replicas(region)
        if degree > there:
            there = max(degree, min(MOST_SPARE, 2 * degree))
        made = self.with_degree(region, degree)
        return replace(made, suspended={**made.suspended, region: there - degree})

    def count_replicas(self, region: str) -> int:
        """Count the replicas of a region, including suspended ones."""
        return self.degrees.get(region, 1) + self.suspended.get(region, 0)

    def why_not_wake(self, other: Configuration) -> str | None:
        """Return why another configuration needs more than waking replicas, or None.

        >>> three = Configuration().with_active("r0", 3)
        >>> three.why_not_wake(three.with_active("r0", 6))
        >>> three.why_not_wake(three.with_active("r0", 7))
        'r0 has 6 replicas and needs 14'
        """
        for name in {*self.degrees, *other.degrees}:
            here, there = self.count_replicas(name), other.count_replicas(name)
            if here != there:
                return f"{name} has {here} replicas and needs {there}"
        same = replace(
            other,
            degrees=self.degrees,
            suspended=self.suspended,
            tables=self.tables,
        )
        return None if same == self else "more than replicas and keys differ"

    def with_table(self, region: str, table: tuple[int, ...]) -> Configuration:
        """Return the configuration with some buckets on other replicas."""
        return replace(self, tables={**self.tables, region: table})


Parts = Mapping[str, str]  # operator -> the region it is replicated with


@dataclass(frozen=True)
class ThreadPropagation:
    """The result of thread propagation.

    `leader` has for each operator the first operator of its element: the operators that
    one thread runs by direct calls. `locks` are the operators that several threads
    reach; `threaded` those that begin with a thread of their own.
    """

    leader: Mapping[str, str]
    locks: frozenset[str]
    threaded: frozenset[str]

    def cut(self, edge: Edge) -> bool:
        """Tell whether a stream goes from one element to another."""
        ends = edge.producer.operator, edge.consumer.operator
        return self.leader[ends[0]] != self.leader[ends[1]]


def propagate_threads(
    graph: Graph, ports: frozenset[Input] = frozenset(), parts: Parts | None = None
) -> ThreadPropagation:
    """Return which operators share a thread, and which need a lock.

    The example of the paper: with a threaded port at o2, two threads reach o3.

    >>> from anabranch.graph.kind import Kind
    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import SourceKind
    >>> g = Graph((Op("o1", SourceKind()), Op("o2", Kind(), (Output("o1"),)),
    ...            Op("o3", Kind(), (Output("o1"), Output("o2")))))
    >>> propagate_threads(g).locks
    frozenset()
    >>> propagate_threads(g, frozenset({Input("o2")})).locks
    frozenset({'o3'})
    """
    parts = parts or {}
    leader: dict[str, str] = {}
    locks: set[str] = set()
    threaded: set[str] = set()
    for op in graph:
        name = op.name
        before = {leader[output.operator] for output in op.inputs}
        own = [Input(name, port) for port in range(len(op.inputs))]
        same_part = all(parts.get(o.operator) == parts.get(name) for o in op.inputs)
        if isinstance(op.kind, SourceKind):
            leader[name] = name
        elif ports.intersection(own) or (name in parts and not same_part):
            leader[name] = name
            threaded.add(name)
        elif len(before) == 1 and same_part:
            (leader[name],) = before
        else:
            leader[name] = name
            locks.add(name)
    return ThreadPropagation(leader, frozenset(locks), frozenset(threaded))


def find_shuffles(cut: Sequence[Edge], parts: Parts) -> frozenset[tuple[str, str]]:
    """Return the pairs of regions between which streams are shuffled."""
    ends = ((e.producer.operator, e.consumer.operator) for e in cut)
    pairs = ((parts.get(one), parts.get(two)) for one, two in ends)
    return frozenset((one, two) for one, two in pairs if one and two and one != two)


def find_carrying(
    graph: Graph,
    plan: Plan,
    threads: ThreadPropagation,
    cut: Sequence[Edge],
    parts: Parts,
) -> frozenset[str]:
    """Return the elements whose streams lead to a merge by position."""
    unsure = _unsure(plan, find_shuffles(cut, parts))
    turning = [threads.leader[n] for n in parts if has_turns(graph[n])]
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
    waiting += turning
    waiting += [name for name, count in arriving.items() if count > 1 and name in parts]
    beside = find_beside(pairs, parts, set(threads.leader.values()))
    feeding: dict[str, list[str]] = {}
    for producer, consumer in pairs:
        feeding.setdefault(consumer, []).append(producer)
    while waiting:
        name = waiting.pop()
        if name not in carrying:
            carrying.add(name)
            waiting += [*feeding.get(name, ()), *beside.get(name, ())]
    return frozenset(carrying)


def _unsure(plan: Plan, shuffles: frozenset[tuple[str, str]]) -> frozenset[str]:
    """Return the regions behind which numbers do not give the order."""
    prolific = {r.name for r in plan.regions if r.push.most is None or r.push.most > 1}
    unsure: set[str] = set()
    for region in plan.regions:  # left to right, so producers are known
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
    """Tell whether one item may cause several events, including punctuations."""
    if isinstance(
        op.kind, SourceKind | SinkKind | Map | Filter | Union | Barrier | Deal
    ):
        return False
    if isinstance(op.kind, Punctuate | Split):
        return True
    known = most.get(op.name)
    return known is None or known > 1


Numbers: TypeAlias = Literal["round_robin", "seqno", "strict", "relaxed", "none"]


def refuse_regions(graph: Graph, plan: Plan, *, resilient: bool) -> None:
    """Raise `PlanError` for a region that cannot run as planned here."""
    for region in plan.regions:
        why = why_not_run(graph, region, resilient=resilient)
        if why is not None:
            msg = (
                f"the local engine must be able to run region {region.name} as planned, "
                f"ordered by {region.ordering}; {why}; compile the program with "
                f"on='local' and the on_error of the run"
            )
            raise PlanError(msg)


def why_not_run(graph: Graph, region: Region, *, resilient: bool) -> str | None:
    """Return why a region cannot run as planned here, or None."""
    kinds = [graph[name].kind for name in region.operators]
    if any(isinstance(kind, SourceKind | SinkKind) for kind in kinds):
        return "one thread reads a source, and one writes a sink"
    if resilient and (why := _why_not_with_gaps(graph, region)):
        return why
    match region.ordering:
        case "contiguous":
            return "no stream is cut into ranges"
        case "round_robin" | "seqno":
            return _why_gaps(graph, region, resilient=resilient)
        case "strict" if any(isinstance(kind, Punctuate) for kind in kinds):
            return "a punctuation has the number of the item that it follows"
    return None


def _why_not_with_gaps(graph: Graph, region: Region) -> str | None:
    """Return why no item may fail in a region, or None."""
    if region.period > 1:
        return "an item that fails leaves a gap in its group"
    pairing = find_pairing(graph, region.operators)
    return pairing and f"an item that fails would shift the pairs of {pairing}"


def _why_gaps(graph: Graph, region: Region, *, resilient: bool) -> str | None:
    """Return why a region's output numbers may have gaps, or None."""
    if resilient:
        return "an item that fails leaves a gap"
    if not is_one_to_one(graph, region):
        return "it does not give one output for each item and each punctuation"
    if "shuffle" in region.order:
        return "a shuffle sends only some of the numbers to a replica"
    return None


def parts_of(graph: Graph, plan: Plan, configuration: Configuration) -> dict[str, str]:
    """Return the region of each operator that has several replicas."""
    parts: dict[str, str] = {}
    for region in plan.regions:  # left to right, so producers are known
        if configuration.count_replicas(region.name) == 1:
            continue
        if why_not_in_groups(graph, region, parts) is None:
            parts |= dict.fromkeys(region.operators, region.name)
    return parts


def why_not_in_groups(
    graph: Graph, region: Region, parts: Mapping[str, str]
) -> str | None:
    """Return why items cannot be distributed in groups where a region needs that."""
    if region.period == 1:
        return None
    if any(e.producer.operator in parts for e in streams_into(graph, region.operators)):
        return "replicas of another region deal its items out"
    return None


def why_not_suspended(graph: Graph, region: Region) -> str | None:
    """Return why a region's replicas cannot be suspended and woken at run time, or
    None.
    """
    if region.period > 1:
        return "a replica may have a part of a group"
    if pairing := find_pairing(graph, region.operators):
        return f"the streams that meet at {pairing} must be distributed in the same way"
    return _why_states_stay(graph, region) if region.key else None


def _why_states_stay(graph: Graph, region: Region) -> str | None:
    """Return why the states of a keyed region cannot move one by one, or None."""
    if len(set(streams_into(graph, region.operators))) > 1:
        return "several streams lead to it, which would have to change together"
    for op in (graph[name] for name in region.operators):
        by_key = bool(op.keyed_by) and set(region.key) <= set(op.keyed_by)
        if kernel_of(op).stateful and not by_key:
            return f"the state of {op.name} is not that of a key"
    return None


def part_strategies(
    graph: Graph,
    plan: Plan,
    parts: Mapping[str, str],
    shuffled: frozenset[tuple[str, str]],
    *,
    resilient: bool,
) -> dict[str, Numbers]:
    """Return how numbers keep the order of each replicated region.

    The plan says how if every region is replicated. If a neighbour has one replica,
    there is no shuffle and no meeting; then the cheapest safe ordering is enough.
    """
    in_shuffle = {name for pair in shuffled for name in pair}
    found: dict[str, Numbers] = {}
    for region in plan.regions:
        if region.name not in parts.values():
            continue
        shuffle = region.name in in_shuffle
        match region.ordering:
            case "none":
                found[region.name] = "none"
            case "round_robin" | "seqno" | "strict" | "relaxed" as planned if (
                shuffle == ("shuffle" in region.order)
            ):
                found[region.name] = planned
            case _:
                sparse = resilient or shuffle
                found[region.name] = _cheapest(graph, region, sparse=sparse)
    return found


def is_one_to_one(graph: Graph, region: Region) -> bool:
    """Tell whether a region gives one output per item and per punctuation."""
    ops = [graph[name] for name in region.operators]
    return region.push == (1, 1) and all(
        kernel_of(op).forwards_punctuation and not isinstance(op.kind, Punctuate)
        for op in ops
    )


def _cheapest(graph: Graph, region: Region, *, sparse: bool) -> Numbers:
    """Return the cheapest safe ordering of a region; `sparse` numbers have gaps."""
    most = region.push.most
    if most is None or most > 1:
        return "relaxed"
    if sparse or not is_one_to_one(graph, region):
        return "strict"
    return "seqno" if region.key else "round_robin"


Carried: TypeAlias = Literal["nothing", "numbers", "positions"]


@dataclass(frozen=True)
class ElementLayout:
    """An element: operators that one thread at a time runs by direct calls.

    `inputs` are the streams from other elements (all lead to the first operator),
    `outputs` those to other elements and `sinks` those to its own sinks. `carried` is
    what it carries with the items, `strategy` how it merges its input.
    """

    name: str
    operators: tuple[str, ...]
    part: str | None
    degree: int
    threaded: bool
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    sinks: tuple[Edge, ...]
    carried: Carried
    strategy: Strategy


@dataclass(frozen=True)
class LocalLayout:
    """All elements, producers first."""

    elements: Mapping[str, ElementLayout]
    threads: ThreadPropagation
    positions: Positions
    strategies: Mapping[str, Numbers]  # region -> how numbers keep its order
    orders: Mapping[str, Order]  # region with several replicas -> what keeps its order
    one_to_one: frozenset[str]  # regions whose outputs have the numbers of their items
    punctuated: frozenset[str]

    def element_of(self, operator: str) -> ElementLayout:
        """Return the element of an operator."""
        return self.elements[self.threads.leader[operator]]

    def queues(self, edge: Edge) -> int:
        """Return how many threads feed each replica of a stream's consumer."""
        producer = self.element_of(edge.producer.operator)
        consumer = self.element_of(edge.consumer.operator)
        return 1 if producer.part == consumer.part else producer.degree


def lay_out(
    graph: Graph, plan: Plan, configuration: Configuration, *, resilient: bool = False
) -> LocalLayout:
    """Return the elements of a program under a configuration; refuse a wrong plan.

    `resilient` programs continue after errors, so that items may be missing anywhere.
    """
    check(graph, plan)
    refuse_regions(graph, plan, resilient=resilient)
    planned = {region.name: region.order for region in plan.regions}  # if one waits
    replicated = lay_out_replicated(graph, plan, resilient=resilient)
    check_orders(plan, {**planned, **replicated.orders}, "local")
    return _arrange(graph, plan, configuration, resilient=resilient)


def lay_out_replicated(
    graph: Graph, plan: Plan, *, resilient: bool = False
) -> LocalLayout:
    """Return the layout that the plan describes: every region has several replicas."""
    degrees = {region.name: 2 for region in plan.regions}
    return _arrange(graph, plan, Configuration(degrees=degrees), resilient=resilient)


def _arrange(
    graph: Graph, plan: Plan, configuration: Configuration, *, resilient: bool
) -> LocalLayout:
    parts = parts_of(graph, plan, configuration)
    threads = propagate_threads(graph, configuration.ports, parts)
    cut = [edge for edge in graph.edges if threads.cut(edge)]
    shuffles = find_shuffles(cut, parts)
    strategies = part_strategies(graph, plan, parts, shuffles, resilient=resilient)
    carrying = find_carrying(graph, plan, threads, cut, parts)
    elements: dict[str, ElementLayout] = {}
    for name, operators in _members(graph, threads).items():
        part = parts.get(name)
        inputs = tuple(edge for edge in cut if edge.consumer.operator == name)
        leaving = [edge for op in operators for edge in graph.out_edges(op)]
        producers = [elements[threads.leader[e.producer.operator]] for e in inputs]
        elements[name] = ElementLayout(
            name=name,
            operators=operators,
            part=part,
            degree=1 if part is None else configuration.count_replicas(part),
            threaded=name in threads.threaded,
            inputs=inputs,
            outputs=tuple(edge for edge in leaving if threads.cut(edge)),
            sinks=tuple(
                edge
                for edge in leaving
                if not threads.cut(edge)
                and isinstance(graph[edge.consumer.operator].kind, SinkKind)
            ),
            carried=_choose_carried(name, part, carrying, strategies, producers),
            strategy=_joint_strategy(part, producers, strategies),
        )
    return LocalLayout(
        elements,
        threads,
        positions_in(graph, plan),
        strategies,
        orders={
            region.name: Order(
                "position"
                if any(threads.leader[name] in carrying for name in region.operators)
                else strategies[region.name],
                "shuffle"
                if any(region.name == two for _, two in shuffles)
                else "split",
                "shuffle"
                if any(region.name == one for one, _ in shuffles)
                else "merge",
            )
            for region in plan.regions
            if region.name in strategies
        },
        one_to_one=frozenset(
            region.name
            for region in plan.regions
            if not resilient and is_one_to_one(graph, region)
        ),
        punctuated=find_punctuated_operators(graph),
    )


def _members(graph: Graph, threads: ThreadPropagation) -> dict[str, tuple[str, ...]]:
    members: dict[str, tuple[str, ...]] = {}
    for op in graph:
        leader = threads.leader[op.name]
        members[leader] = (*members.get(leader, ()), op.name)
    return members


def _choose_carried(
    name: str,
    part: str | None,
    carrying: frozenset[str],
    strategies: Mapping[str, Numbers],
    producers: Sequence[ElementLayout],
) -> Carried:
    if name in carrying:
        return "positions"
    if part is None or strategies[part] == "round_robin":
        return "nothing"
    fresh = all(p.part is None or p.carried == "nothing" for p in producers)
    return "nothing" if strategies[part] == "none" and fresh else "numbers"


def _joint_strategy(
    part: str | None,
    producers: list[ElementLayout],
    strategies: Mapping[str, Numbers],
) -> Strategy:
    """Return how an element merges the streams of its producing threads."""
    if sum(1 if p.part == part else p.degree for p in producers) <= 1:
        return "single"
    (first, *others) = producers
    if others or first.carried == "positions" or first.part is None:
        return "position"
    return strategies[first.part]
