"""The rules that every plan obeys, independent of the passes that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from anabranch.errors import PlanError
from anabranch.graph.graph import Graph, name_stream, streams_into, streams_out_of
from anabranch.graph.kind import Push, SinkKind, SourceKind
from anabranch.operators.blocks import Block
from anabranch.operators.clock import EventTime, keeps_clock
from anabranch.operators.iterate import Iterate
from anabranch.operators.rates import find_paired
from anabranch.operators.sinks import is_unordered
from anabranch.operators.stateless import Map
from anabranch.operators.window_parts import why_not_in_parts
from anabranch.operators.windows import Aggregate
from anabranch.plan.plan import Order, Plan, PlanOperator, Region


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
    """Raise `PlanError` if an engine's layout orders regions unlike the plan."""
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
    """A plan with the lookups that the rules share."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan

    @cached_property
    def known(self) -> dict[str, PlanOperator]:
        return {operator.name: operator for operator in self.plan.operators}

    @cached_property
    def region_of(self) -> dict[str, Region]:
        return {name: r for r in self.plan.regions for name in r.operators}

    @cached_property
    def paired(self) -> dict[str, frozenset[str]]:
        """The fan-ins that hold nothing back, with the operators before them."""
        return find_paired(self.graph)

    def before(self, region: Region) -> list[Region]:
        """Return the regions that feed a region directly."""
        edges = streams_into(self.graph, region.operators)
        return self._regions(e.producer.operator for e in edges)

    def after(self, region: Region) -> list[Region]:
        """Return the regions that a region feeds directly."""
        edges = streams_out_of(self.graph, region.operators)
        return self._regions(e.consumer.operator for e in edges)

    def _regions(self, names: Iterable[str]) -> list[Region]:
        found = [self.region_of[name] for name in names if name in self.region_of]
        return list({region.name: region for region in found}.values())


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
    """Check what all other rules rely on."""
    for region in look.plan.regions:
        if not region.operators:
            yield f"region {region.name} is empty"
        for name in region.operators:
            if name not in look.graph:
                yield f"operator {name} of {region.name} is not in the program"


def _regions_are_connected(look: _Look) -> Iterator[str]:
    """Check that a region is connected, and knows its streams."""
    count = Counter(n for r in look.plan.regions for n in r.operators)
    yield from (f"operator {n} is in {c} regions" for n, c in count.items() if c > 1)
    place = {name: index for index, name in enumerate(look.graph.names)}
    for region in look.plan.regions:
        if list(region.operators) != sorted(region.operators, key=place.__getitem__):
            yield f"{region.name} does not name its operators in the order of the program"
        apart = set(region.operators) - _find_connected(look.graph, region.operators)
        if apart:
            listed = ", ".join(sorted(apart))
            yield f"{listed} is not connected with the rest of {region.name}"
        for end, edges, known in (
            ("inputs", streams_into(look.graph, region.operators), region.inputs),
            ("outputs", streams_out_of(look.graph, region.operators), region.outputs),
        ):
            streams = tuple(dict.fromkeys(name_stream(e.producer) for e in edges))
            if streams != known:
                yield f"the {end} of {region.name} are {streams}; the plan says {known}"
        if region.period > 1 and len(region.operators) > 1:
            yield from _chain_faults(look, region)


def _find_connected(graph: Graph, operators: Sequence[str]) -> set[str]:
    inside = frozenset(operators)
    found = {operators[0]}
    pending = [operators[0]]
    while pending:
        name = pending.pop()
        beside = inside.intersection((*graph.producers(name), *graph.consumers(name)))
        pending += beside - found
        found |= beside
    return found


def _chain_faults(look: _Look, region: Region) -> Iterator[str]:
    """Check that items in groups have one path through a region."""
    for name in region.operators:
        op = look.graph[name]
        streams = max(len(op.inputs), op.kind.outputs, len(look.graph.out_edges(name)))
        if streams > 1:
            yield f"operator {name} of {region.name} has more than one stream"


def _region_keys_reach_keyed_operators(look: _Look) -> Iterator[str]:
    """Check that items of one key reach one replica on every path.

    If a region has a key, every stream must lead to an operator with the key too, by one
    of its entries: nothing else guarantees that the attribute exists.
    """
    for region in look.plan.regions:
        key = frozenset(region.key)
        ways = _Ways(look, key)
        for name in region.operators:
            known = look.known.get(name)
            if known is None:
                continue
            reaches = ways.reaches(name)
            in_groups = isinstance(look.graph[name].kind, Block)
            by_range = isinstance(look.graph[name].kind, EventTime)
            paired = look.paired.get(name)
            if paired is not None and not paired <= set(region.operators):
                yield f"the streams of {name} part outside of {region.name}"
            free = in_groups or by_range or paired is not None
            if known.state == "global" and not free:
                yield f"operator {name} of {region.name} has one state for all items"
            if known.state == "keyed" and not (key and key <= set(known.key)):
                yield f"the key of {region.name} is not a part of the key of {name}"
            if known.state == "keyed" and not reaches:
                yield f"the key of {region.name} does not reach {name} unchanged"
            ways.go_through(known, unchanged=reaches)
        if key and (without := ways.find_without_key(region.operators)):
            listed = ", ".join(sorted(without))
            yield f"what enters {region.name} at {listed} may not have its key"


class _Ways:
    """The paths of items through a region, as far as followed."""

    def __init__(self, look: _Look, key: frozenset[str]) -> None:
        self._graph = look.graph
        self._key = key
        self._kept: dict[str, bool] = {}  # the key is unchanged since the entries
        self._entries: dict[str, frozenset[str]] = {}  # that lead to an operator
        self._entered: set[str] = set()  # all entries
        self._unkeyed: set[str] = set()  # entries that lead to no operator with a key

    def reaches(self, name: str) -> bool:
        """Tell whether the key reaches an operator unchanged."""
        inputs = [output.operator for output in self._graph[name].inputs]
        return all(self._kept.get(producer, True) for producer in inputs)

    def go_through(self, known: PlanOperator, *, unchanged: bool) -> None:
        """Follow items through an operator."""
        op = self._graph[known.name]
        before = [o.operator for o in op.inputs if o.operator in self._kept]
        own = {op.name} if len(before) < max(len(op.inputs), 1) else set()
        entries = frozenset(own).union(*(self._entries[name] for name in before))
        self._entered |= own
        self._unkeyed |= own
        if known.state == "keyed":
            self._unkeyed -= entries
        if known.forwards is not None and op.inputs:
            unchanged = unchanged and self._key <= set(known.forwards)
        self._kept[op.name], self._entries[op.name] = unchanged, entries

    def find_without_key(self, operators: Sequence[str]) -> set[str]:
        """Return the entries of streams of which none leads to an operator with a key."""
        coming = {
            name: {o for o in self._graph[name].inputs if o.operator not in operators}
            for name in self._entered
        }
        keyed = self._entered - self._unkeyed
        known = {stream for name in keyed for stream in coming[name]}
        return {n for n in self._unkeyed if not coming[n] or not coming[n] <= known}


def _groups_are_whole(look: _Look) -> Iterator[str]:
    """Check that all blocks of a region are complete after every `period` items."""
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
        ops = [look.graph[name] for name in region.operators]
        reads = any(isinstance(op.kind, SourceKind) for op in ops)
        if reads != (region.first_joint == "parallel_source"):
            yield f"{region.name} starts with {ops[0].name} but {region.first_joint}"
        written = [op.name for op in ops if isinstance(op.kind, SinkKind)]
        ends = bool(written) and not streams_out_of(look.graph, region.operators)
        if ends != (region.last_joint == "parallel_sink"):
            yield f"{region.name} ends with {ops[-1].name} but {region.last_joint}"
        if reads and streams_into(look.graph, region.operators):
            yield f"{region.name} reads a source, and takes in another stream"
        ordered = [name for name in written if not is_unordered(look.graph[name])]
        if ordered and region.ordering != "contiguous":
            yield f"{region.name} writes {ordered[0]}, but not in contiguous parts"
        leaving = streams_out_of(look.graph, region.operators)
        asked = [
            e for e in leaving if not is_unordered(look.graph[e.consumer.operator])
        ]
        if region.ordering == "none" and (ordered or asked or not (ends or leaving)):
            yield f"{region.name} has no order, although a consumer needs it"
        before, after = look.before(region), look.after(region)
        fed_by_shuffle = any(one.last_joint == "shuffle" for one in before)
        if region.first_joint == "shuffle" and not fed_by_shuffle:
            yield f"{region.name} starts with {region.first_joint}; {before} is before it"
        if region.first_joint == "split" and region.period == 1 and fed_by_shuffle:
            yield f"{region.name} starts with {region.first_joint}; {before} is before it"
        feeds_shuffle = any(one.first_joint == "shuffle" for one in after)
        waits = region.period > 1 and region.last_joint == "merge"  # with one replica
        if (region.last_joint == "shuffle") != feeds_shuffle and not waits:
            yield f"{region.name} ends with {region.last_joint}; {after} is after it"


def _orderings_are_safe(look: _Look) -> Iterator[str]:
    pushes = _since_numbered(look)
    for region in look.plan.regions:
        why = why_not_ordered(region, pushes[region.name])
        if why is not None:
            yield f"{region.name} cannot be ordered by {region.ordering}: {why}"


def why_not_ordered(region: Region, push: Push) -> str | None:
    """Return why a region's ordering would lose the order of its items, or None.

    `push` counts from where the items were numbered, through all shuffles.
    """
    between = (region.first_joint, region.last_joint) == ("split", "merge")
    dense = push == (1, 1) and region.last_joint != "shuffle"
    match region.ordering:
        case "contiguous" if region.key:
            return "its items are divided by key"
        case "none" if not region.key and region.last_joint == "parallel_sink":
            return "without a key, contiguous parts cost nothing"
        case "round_robin" if region.key or not dense or not between:
            return "the turns would not come out even"
        case "seqno" if not dense:
            return "a number may be missing"
        case "strict" if push.most is None or push.most > 1:
            return "a number may come more than once"
        case _:
            return None


def _since_numbered(look: _Look) -> dict[str, Push]:
    """Return the push of each region, including the shuffles that lead to it."""
    found: dict[str, Push] = {}
    for region in look.plan.regions:  # left to right
        least, most = region.push
        before = look.before(region) if region.first_joint == "shuffle" else []
        earlier = [found[one.name] for one in before if one.name in found]
        if earlier:
            least *= min(push.least for push in earlier)
            bounds = [push.most for push in earlier]
            if most == 0 or all(bound == 0 for bound in bounds):
                most = 0
            elif most is not None:
                known = [bound for bound in bounds if bound is not None]
                most = most * max(known) if len(known) == len(bounds) else None
        found[region.name] = Push(least, most)
    return found


def _bodies_are_those_of_rounds(look: _Look) -> Iterator[str]:
    for body in look.plan.bodies:
        inside = body.operator in look.graph
        kind = look.graph[body.operator].kind if inside else None
        if not isinstance(kind, Iterate):
            yield f"{body.operator} has the plan of a body, but no rounds"
            continue
        try:
            check(kind.body, body.plan)
        except PlanError as error:
            yield f"the body of {body.operator}: {error}"


def _parts_are_of_ranges(look: _Look) -> Iterator[str]:
    """Check that items aggregated before a window are adjacent in the stream."""
    for known in look.plan.operators:
        if not known.in_parts or known.name not in look.graph:
            continue
        op = look.graph[known.name]
        if not isinstance(op.kind, Aggregate) or op.state_key:
            yield f"{op.name} takes parts of windows, but has none without a key"
        elif (why := why_not_in_parts(op.kind)) is not None:
            yield f"{op.name} takes parts of windows, but {why}"
        region = look.region_of.get(op.inputs[0].operator) if op.inputs else None
        if region is None or region.ordering != "contiguous":
            yield f"{op.name} takes parts of windows, but not from contiguous ranges"


def _clocks_begin_ranges(look: _Look) -> Iterator[str]:
    """Check that replicas with ranges receive the clocks of the earlier ranges."""
    for region in look.plan.regions:
        for name in region.operators:
            op = look.graph[name]
            if not keeps_clock(op):
                continue
            if isinstance(op.kind, EventTime) and region.ordering != "contiguous":
                yield f"{name} of {region.name} has a clock, but no contiguous ranges"
            inside = set(region.operators).intersection(look.graph.producers(name))
            if region.ordering == "contiguous" and inside:
                listed = ", ".join(sorted(inside))
                yield f"{name} has the clock of {listed}, which is in its region too"


RULES: tuple[Callable[[_Look], Iterator[str]], ...] = (
    _operators_have_one_element,
    _operators_are_those_of_the_program,
    _operators_are_parallel_or_sequential,
    _regions_are_connected,
    _region_keys_reach_keyed_operators,
    _groups_are_whole,
    _fused_operators_stay_together,
    _elements_are_regions_or_sequential,
    _elements_stand_behind_what_they_read,
    _kernels_are_of_their_subgraph,
    _joints_fit_their_neighbours,
    _orderings_are_safe,
    _bodies_are_those_of_rounds,
    _parts_are_of_ranges,
    _clocks_begin_ranges,
)
