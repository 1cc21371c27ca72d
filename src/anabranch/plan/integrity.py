"""What must hold of any plan, whichever passes made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from anabranch.errors import PlanError
from anabranch.graph.graph import Graph
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block
from anabranch.operators.stateless import Map
from anabranch.plan.plan import Order, Plan, PlanOperator, Push, Region


def check(graph: Graph, plan: Plan) -> None:
    """Raise `PlanError` with everything that is wrong with a plan.

    >>> from anabranch.graph.graph import Op
    >>> from anabranch.graph.kind import Kind
    >>> check(Graph((Op("a", Kind()),)), Plan((), (), (), (), ()))
    Traceback (most recent call last):
    anabranch.errors.PlanError: a plan must be whole; it is not:
      operator a is in 0 elements; it must be in exactly one
      the plan knows the operators (); the program has ('a',)
      operator a must be either in a region or sequential
    """
    look = _Look(graph, plan)
    faults = list(_regions_have_operators(look))
    faults = faults or [fault for rule in RULES for fault in rule(look)]
    if faults:
        listed = "".join(f"\n  {fault}" for fault in faults)
        msg = f"a plan must be whole; it is not:{listed}"
        raise PlanError(msg)


def check_orders(plan: Plan, orders: Mapping[str, Order], engine: str) -> None:
    """Raise `PlanError` if the layout of an engine orders regions unlike the plan."""
    for region in plan.regions:
        found = orders.get(region.name)
        if found != region.order:
            offered = "one replica" if found is None else _list_order(found)
            msg = (
                f"the {engine} engine must run region {region.name} as planned; the plan "
                f"says {_list_order(region.order)}, the engine can only do {offered}; "
                f"compile the program with on={engine!r}"
            )
            raise PlanError(msg)


def _list_order(order: Order) -> str:
    return f"{order.first_joint}, {order.ordering}, {order.last_joint}"


class _Look:
    """A plan with the look-ups that the rules share."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan

    @cached_property
    def known(self) -> dict[str, PlanOperator]:
        return {operator.name: operator for operator in self.plan.operators}

    @cached_property
    def region_of(self) -> dict[str, Region]:
        return {name: r for r in self.plan.regions for name in r.operators}

    def before(self, region: Region) -> Region | None:
        """Return the region that feeds a region directly."""
        producers = self.graph.producers(region.operators[0])
        return self.region_of.get(producers[0]) if producers else None

    def after(self, region: Region) -> Region | None:
        """Return the region that a region feeds directly."""
        consumers = self.graph.consumers(region.operators[-1])
        return self.region_of.get(consumers[0]) if consumers else None


def _operators_have_one_element(look: _Look) -> Iterator[str]:
    count = Counter(n for e in look.plan.elements for n in e.operators)
    for name in look.graph.names:
        if count[name] != 1:
            yield f"operator {name} is in {count[name]} elements; it must be in exactly one"
    for name in count:
        if name not in look.graph:
            yield f"element operator {name} is not in the program"


def _operators_are_those_of_the_program(look: _Look) -> Iterator[str]:
    names = tuple(operator.name for operator in look.plan.operators)
    if names != look.graph.names:
        yield f"the plan knows the operators {names}; the program has {look.graph.names}"


def _operators_are_parallel_or_sequential(look: _Look) -> Iterator[str]:
    sequential = {one.operator for one in look.plan.sequential}
    for name in look.graph.names:
        if (name in sequential) == (name in look.region_of):
            yield f"operator {name} must be either in a region or sequential"


def _regions_have_operators(look: _Look) -> Iterator[str]:
    """Check what all other rules rest on."""
    for region in look.plan.regions:
        if not region.operators:
            yield f"region {region.name} is empty"
        for name in region.operators:
            if name not in look.graph:
                yield f"operator {name} of {region.name} is not in the program"


def _regions_are_chains(look: _Look) -> Iterator[str]:
    count = Counter(n for r in look.plan.regions for n in r.operators)
    yield from (f"operator {n} is in {c} regions" for n, c in count.items() if c > 1)
    for region in look.plan.regions:
        for name in region.operators:
            op = look.graph[name]
            streams = max(
                len(op.inputs), op.kind.outputs, len(look.graph.out_edges(name))
            )
            if streams > 1:
                yield f"operator {name} of {region.name} has more than one stream"
        for one, two in zip(region.operators, region.operators[1:], strict=False):
            if look.graph.consumers(one) != (two,):
                yield f"{one} does not lead to {two} in region {region.name}"


def _region_keys_reach_keyed_operators(look: _Look) -> Iterator[str]:
    for region in look.plan.regions:
        key = frozenset(region.key)
        kept = True
        for name in region.operators:
            known = look.known.get(name)
            if known is None:
                continue
            in_groups = isinstance(look.graph[name].kind, Block)
            if known.state == "global" and not in_groups:
                yield f"operator {name} of {region.name} has one state for all items"
            if known.state == "keyed" and not (key and key <= set(known.key)):
                yield f"the key of {region.name} is not a part of the key of {name}"
            if known.state == "keyed" and not kept:
                yield f"the key of {region.name} does not reach {name} unchanged"
            if known.forwards is not None and look.graph[name].inputs:
                kept = kept and key <= set(known.forwards)


def _groups_are_whole(look: _Look) -> Iterator[str]:
    """Check that every `period` items, all blocks of a region are complete."""
    for region in look.plan.regions:
        coming: int | None = region.period
        for name in region.operators:
            known = look.known.get(name)
            match look.graph[name].kind:
                case Block(pop=pop, push=push, peek=peek):
                    whole = pop == peek and coming is not None and coming % pop == 0
                    by_key = known is not None and known.state == "keyed"
                    if peek > 1 and not by_key and not whole:
                        yield f"the groups of {region.name} are not whole at {name}"
                    coming = None if coming is None else coming // pop * push
                case Map():
                    pass
                case _:
                    coming = None


def _fused_operators_stay_together(look: _Look) -> Iterator[str]:
    element_of = {n: e.name for e in look.plan.elements for n in e.operators}
    for op in look.graph:
        if op.fuse_with is not None and op.fuse_with in look.graph:
            one, two = element_of.get(op.name), element_of.get(op.fuse_with)
            if one != two:
                yield f"{op.name} and {op.fuse_with} are fused, but not in one element"


def _elements_are_regions_or_sequential(look: _Look) -> Iterator[str]:
    regions = {region.name: region for region in look.plan.regions}
    for element in look.plan.elements:
        inside = {
            look.region_of[n].name for n in element.operators if n in look.region_of
        }
        if inside != ({element.region} - {None}):
            yield f"element {element.name} is of {element.region}; it holds {inside}"
        elif element.region is not None and (
            element.operators != regions[element.region].operators
        ):
            yield f"element {element.name} is only a part of {element.region}"


def _elements_stand_behind_what_they_read(look: _Look) -> Iterator[str]:
    place_of = {
        name: place
        for place, element in enumerate(look.plan.elements)
        for name in element.operators
    }
    for edge in look.graph.edges:
        one = place_of.get(edge.producer.operator, -1)
        two = place_of.get(edge.consumer.operator, one)
        if one > two:
            early, late = (look.plan.elements[place].name for place in (two, one))
            yield f"element {early} reads from {late}, which stands behind it"


def _kernels_are_of_their_subgraph(look: _Look) -> Iterator[str]:
    for subgraph in look.plan.subgraphs:
        for kernel in subgraph.kernels:
            if kernel.operator not in subgraph.operators:
                yield f"kernel {kernel.operator} is not of its subgraph"


def _joints_fit_their_neighbours(look: _Look) -> Iterator[str]:
    for region in look.plan.regions:
        head = look.graph[region.operators[0]]
        tail = look.graph[region.operators[-1]]
        if isinstance(head.kind, SourceKind) != (
            region.first_joint == "parallel_source"
        ):
            yield f"{region.name} starts with {head.name} but {region.first_joint}"
        if isinstance(tail.kind, SinkKind) != (region.last_joint == "parallel_sink"):
            yield f"{region.name} ends with {tail.name} but {region.last_joint}"
        before, after = look.before(region), look.after(region)
        fed_by_shuffle = before is not None and before.last_joint == "shuffle"
        if (region.first_joint == "shuffle") != fed_by_shuffle:
            yield f"{region.name} starts with {region.first_joint}; {before} is before it"
        feeds_shuffle = after is not None and after.first_joint == "shuffle"
        if (region.last_joint == "shuffle") != feeds_shuffle:
            yield f"{region.name} ends with {region.last_joint}; {after} is after it"


def _orderings_are_safe(look: _Look) -> Iterator[str]:
    pushes = _since_numbered(look)
    for region in look.plan.regions:
        why = why_not_ordered(region, pushes[region.name])
        if why is not None:
            yield f"{region.name} cannot be ordered by {region.ordering}: {why}"


def why_not_ordered(region: Region, push: Push) -> str | None:
    """Return why a region's ordering would lose the order of its items, or None.

    `push` counts from where the items were numbered: it goes through all shuffles.
    """
    between = (region.first_joint, region.last_joint) == ("split", "merge")
    dense = push == (1, 1) and region.last_joint != "shuffle"
    match region.ordering:
        case "contiguous" if region.key:
            return "its items are divided by key"
        case "round_robin" if region.key or not dense or not between:
            return "the turns would not come out even"
        case "seqno" if not dense:
            return "a number may be missing"
        case "strict" if push.most is None or push.most > 1:
            return "a number may come more than once"
        case _:
            return None


def _since_numbered(look: _Look) -> dict[str, Push]:
    """Return the push of each region, taken through the shuffles that lead to it."""
    found: dict[str, Push] = {}
    for region in look.plan.regions:  # left to right
        least, most = region.push
        before = look.before(region) if region.first_joint == "shuffle" else None
        if before is not None and before.name in found:
            earlier = found[before.name]
            least *= earlier.least
            if 0 in {most, earlier.most}:
                most = 0
            elif most is not None:
                most = None if earlier.most is None else most * earlier.most
        found[region.name] = Push(least, most)
    return found


RULES: tuple[Callable[[_Look], Iterator[str]], ...] = (
    _operators_have_one_element,
    _operators_are_those_of_the_program,
    _operators_are_parallel_or_sequential,
    _regions_are_chains,
    _region_keys_reach_keyed_operators,
    _groups_are_whole,
    _fused_operators_stay_together,
    _elements_are_regions_or_sequential,
    _elements_stand_behind_what_they_read,
    _kernels_are_of_their_subgraph,
    _joints_fit_their_neighbours,
    _orderings_are_safe,
)
