"""From the plan to an epoch: units, their levels, and their cuts.

A *unit* is an element without its sinks: one fused program, run by one task or by
several. Units are arranged in *levels*; an epoch goes through the levels one after
another, and between two levels rows move to the partition of their unit. So any graph
becomes one straight chain of stages, and nothing is computed twice.

A unit whose effects are confined to this process (a counter in a closure, a file that
it writes) runs in the driver, between two jobs of the engine.

Replicas of a region without a key have contiguous ranges of the stream; the outputs of
a keyed region are sorted by position. A plan that asks for another ordering is refused.

Cuts: several Python workers of one task run a unit, one behind the other.

A threaded port of the paper is a cut between two workers of a task; on Spark, between two
chained `mapInArrow`. The first worker runs the operators before it and passes each chunk
on at once, so that the two overlap. Behind the cut are an operator and all that it leads
to; if several streams lead there, a chunk's items on them are ordered by position. Only
the last worker saves states: it gets the changes of the others with the last row, and
writes them in one transaction, as if there had been no cut.

Workers run a changed graph: lifted states become states of operators, and windows
computed in two steps take partial aggregates.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from anabranch.errors import PlanError
from anabranch.graph.graph import Edge, Graph, Op, streams_into
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block
from anabranch.operators.lifted import Lifted, StatePlace
from anabranch.operators.rates import find_pairing
from anabranch.operators.sinks import WriteFiles, WriteSink, is_in_parts
from anabranch.operators.sources import FromIterable, Generate
from anabranch.operators.stateless import Filter, FlatMap, Map
from anabranch.operators.window_parts import MergedAggregate
from anabranch.operators.windows import Aggregate
from anabranch.plan.integrity import check, check_orders
from anabranch.plan.plan import FirstJoint, LastJoint, Order, Ordering, Plan, Region
from anabranch.runtime.codegen import Entry, find_punctuated_operators
from anabranch.runtime.compiled.program import NOTHING, CompileChoice, choice_of
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import Positions, positions_of

ON = "spark"  # the engine that plans for epochs are compiled for


def lift_states(graph: Graph, plan: Plan) -> Graph:
    """Return the graph with the plan's lifted states, as they are now."""
    lifted = {
        op.name: tuple(StatePlace(scope, name) for scope, name in op.lifted)
        for op in plan.operators
        if op.lifted
    }
    if not lifted:
        return graph
    return Graph(
        tuple(_lift(op, lifted[op.name]) if op.name in lifted else op for op in graph)
    )


def merge_parts(graph: Graph, plan: Plan) -> Graph:
    """Return the graph in which two-step windows accept partial aggregates."""
    in_parts = {op.name for op in plan.operators if op.in_parts}
    if not in_parts:
        return graph
    return Graph(tuple(_merge(op) if op.name in in_parts else op for op in graph))


def _merge(op: Op) -> Op:
    kind = op.kind
    if not isinstance(kind, Aggregate):
        return op
    merged = MergedAggregate(kind.window, kind.function, kind.columns, kind.into)
    return replace(op, kind=merged)


def _lift(op: Op, places: tuple[StatePlace, ...]) -> Op:
    if isinstance(op.kind, Lifted):
        return op
    function: Any = op.kind.user_code[0].function if op.kind.user_code else None
    try:
        values = tuple(place.get(function) for place in places)
    except (AttributeError, KeyError, ValueError) as error:
        values = None
        why = f"{error!r}"
    if values is None or not isinstance(op.kind, Map | Filter | FlatMap):
        why = f"it is a {op.kind.label}" if values is not None else why
        msg = (
            f"only the state of a function can be lifted, out of its own variables; the "
            f"plan lifts {', '.join(map(str, places))} out of {op.name!r}, but {why}; "
            f"compile the program with on={ON!r}"
        )
        raise PlanError(msg)
    return replace(op, kind=Lifted(op.kind, places, values))


_STRONGEST: tuple[LastJoint, ...] = ("shuffle", "merge", "parallel_sink")

How = Literal["key", "range", "group", "one", "write", "driver"]


@dataclass(frozen=True)
class Unit:
    """A fused program and where it runs; `writes` are the sinks it writes in parts.

    A unit of a region has replicas, whose outputs are ordered by `ordering`. One with
    blocks gets its items `period` at a time.
    """

    name: str
    number: int
    level: int
    operators: tuple[str, ...]
    entries: tuple[Entry, ...]
    key: tuple[str, ...] = ()
    region: str | None = None
    ordering: Ordering | None = None
    in_driver: bool = False
    writes: tuple[str, ...] = ()
    period: int = 1

    @property
    def replicated(self) -> bool:
        """Whether it may have several replicas."""
        return self.ordering is not None


@dataclass(frozen=True)
class UnitRoute:
    """The destination of a unit's output stream, and how it is divided.

    By `key` to the replica that has the key's state; by `range` of positions, or by
    range but in whole groups; to the `one` task of a unit; to parts written locally; or
    to the `driver`.
    """

    how: How
    unit: int = -1
    entry: int = 0


@dataclass(frozen=True)
class EpochLayout:
    """The units of a program, the streams between them, and the form of positions."""

    graph: Graph
    positions: Positions
    units: tuple[Unit, ...]
    routes: Mapping[Edge, UnitRoute]
    one_to_one: frozenset[str]  # operators with exactly one output per item
    stateless: frozenset[str] = frozenset()  # according to the plan
    choice: CompileChoice = NOTHING

    @cached_property
    def levels(self) -> tuple[tuple[Unit, ...], ...]:
        """The units by level."""
        count = 1 + max((unit.level for unit in self.units), default=-1)
        return tuple(
            tuple(unit for unit in self.units if unit.level == level)
            for level in range(count)
        )

    @cached_property
    def feeding(self) -> Mapping[int, frozenset[int]]:
        """The producing units of each unit."""
        found: dict[int, set[int]] = {unit.number: set() for unit in self.units}
        for edge, route in self.routes.items():
            if route.unit in found:
                found[route.unit].add(self.unit_of[edge.producer.operator].number)
        return {number: frozenset(units) for number, units in found.items()}

    def together(self, levels: range) -> list[list[Unit]]:
        """Return the units of some levels, grouped by those that exchange items."""
        if levels not in self._together:
            self._together[levels] = self._group(levels)
        return self._together[levels]

    @cached_property
    def _together(self) -> dict[range, list[list[Unit]]]:
        return {}

    def _group(self, levels: range) -> list[list[Unit]]:
        group_of: dict[int, list[Unit]] = {}
        for level in levels:
            for unit in self.levels[level]:
                before = self.feeding[unit.number] & group_of.keys()
                groups = {id(group_of[n]): group_of[n] for n in before}
                joined = [*itertools.chain(*groups.values()), unit]
                group_of |= dict.fromkeys((one.number for one in joined), joined)
        found = {id(group): group for group in group_of.values()}
        return [sorted(group, key=attrgetter("number")) for group in found.values()]

    @cached_property
    def orders(self) -> Mapping[str, Order]:
        """The ordering of each region."""
        return {
            unit.region: Order(unit.ordering, self._first(unit), self._last(unit))
            for unit in self.units
            if unit.region is not None and unit.ordering is not None
        }

    def _first(self, unit: Unit) -> FirstJoint:
        if any(isinstance(entry, str) for entry in unit.entries):
            return "parallel_source"
        before = (self.units[number] for number in self.feeding[unit.number])
        return "shuffle" if any(one.replicated for one in before) else "split"

    def _last(self, unit: Unit) -> LastJoint:
        """Return the joint at which streams leave a region: to replicas, or to one."""
        if not unit.operators:
            return _end_in_files(self.graph, unit.writes[0])
        found: set[LastJoint] = set()
        for name in unit.operators:
            for edge in self.graph.out_edges(name):
                if edge in self.routes:
                    found.add(self._joint_of(unit, edge))
        for joint in _STRONGEST:
            if joint in found:
                return joint
        return "parallel_sink"

    def _joint_of(self, unit: Unit, edge: Edge) -> LastJoint:
        sink = edge.consumer.operator
        if sink in unit.writes:
            return _end_in_files(self.graph, sink)
        after = self.routes[edge].unit
        if after < 0 or not self.units[after].replicated:
            return "merge"
        written = not self.units[after].operators
        if written and _end_in_files(self.graph, sink) == "merge":
            return "merge"
        return "shuffle"

    @cached_property
    def unit_of(self) -> Mapping[str, Unit]:
        """The unit of each operator, sinks excluded."""
        return {name: unit for unit in self.units for name in unit.operators}


def lay_out(graph: Graph, plan: Plan, *, resilient: bool = False) -> EpochLayout:
    """Return the layout of a plan; refuse one that asks for something else.

    `resilient` programs continue after errors, so that items may be missing anywhere.
    """
    check(graph, plan)
    graph = merge_parts(lift_states(graph, plan), plan)
    _refuse_regions(graph, plan, resilient=resilient)
    planned = {op.name: op for op in plan.operators}
    prolific = frozenset(
        op.name
        for op in plan.operators
        if graph[op.name].inputs and (op.push.most is None or op.push.most > 1)
    )
    regions = {region.name: region for region in plan.regions}
    drafts: list[_Draft] = []
    for element in plan.elements:
        inside = tuple(n for n in element.operators if not _is_sink(graph, n))
        if not inside:
            continue
        region = regions.get(element.region) if element.region else None
        drafts.append(
            _Draft(
                inside,
                key=region.key if region else (),
                region=region.name if region else None,
                ordering=region.ordering if region else None,
                in_driver=any(
                    planned[n].effects for n in inside if _runs_here(graph, n)
                ),
                period=region.period if region else 1,
            )
        )
    one_to_one = _find_one_to_one(graph, plan)
    region_of = {
        name: region.name for region in plan.regions for name in region.operators
    }
    made = _connect(graph, drafts, region_of, positions_of(graph, prolific), one_to_one)
    check_orders(plan, made.orders, ON)
    # A failed epoch is repeated from its initial states, so the outputs before the
    # failure are of no use.
    return replace(
        made,
        stateless=frozenset(
            op.name for op in plan.operators if op.state == "stateless"
        ),
        choice=replace(choice_of(plan), repeatable=None),
    )


def _refuse_regions(graph: Graph, plan: Plan, *, resilient: bool) -> None:
    """Raise `PlanError` for a region that cannot run as planned here."""
    marked = find_punctuated_operators(graph)
    for region in plan.regions:
        why = _why_not_run(graph, region, resilient=resilient)
        before = {e.producer.operator for e in streams_into(graph, region.operators)}
        if why is None and region.period > 1 and not marked.isdisjoint(before):
            why = "punctuations or advances of a clock would be counted as items"
        if why is not None:
            msg = (
                f"the {ON} engine must be able to run region {region.name} as planned, "
                f"ordered by {region.ordering}; {why}; compile the program with "
                f"on={ON!r} and the on_error of the run"
            )
            raise PlanError(msg)


def _why_not_run(graph: Graph, region: Region, *, resilient: bool) -> str | None:
    """Return why a region cannot run as planned here, or None."""
    if resilient and region.period > 1:
        return "an item that fails would shift the groups of all others"
    if resilient and (pairing := find_pairing(graph, region.operators)):
        return f"an item that fails would shift the pairs of {pairing}"
    if region.key and region.first_joint == "parallel_source":
        return "a source is cut into ranges, whatever the keys in them"
    if region.key and region.ordering not in ("position", "none"):
        return "what is divided by key can only be sorted by position"
    if not region.key and region.ordering != "contiguous":
        return "what has no key is cut into contiguous ranges"
    return None


def _runs_here(graph: Graph, name: str) -> bool:
    """Tell whether an operator's effects require the driver.

    A list or a generator is read by its intake; a row becomes an item, by a user's
    constructor, in the unit of its source.
    """
    return not isinstance(graph[name].kind, FromIterable | Generate)


@dataclass
class _Draft:
    operators: tuple[str, ...]
    key: tuple[str, ...] = ()
    region: str | None = None
    ordering: Ordering | None = None
    in_driver: bool = False
    writes: tuple[str, ...] = ()
    period: int = 1
    edge: Edge | None = None  # of a unit that only writes files
    level: int = 0


def _find_one_to_one(graph: Graph, plan: Plan) -> frozenset[str]:
    """Return the operators with exactly one output per input item.

    The rates of a plan count firings. A block that peeks does not fire for the first
    items, and an operator that does not pass signs on gives nothing for them.
    """
    marked = find_punctuated_operators(graph)
    return frozenset(
        op.name
        for op in plan.operators
        if (op.push, op.pop) == ((1, 1), 1)
        and not _looks_ahead(graph[op.name])
        and marked.isdisjoint(graph.producers(op.name))
    )


def _looks_ahead(op: Op) -> bool:
    return isinstance(op.kind, Block) and op.kind.peek > op.kind.pop


def _connect(
    graph: Graph,
    drafts: list[_Draft],
    region_of: Mapping[str, str],
    positions: Positions,
    one_to_one: frozenset[str],
) -> EpochLayout:
    """Find the streams between units, add units that write, and set the levels."""
    owner = {name: draft for draft in drafts for name in draft.operators}
    entries: dict[int, list[Entry]] = {id(draft): [] for draft in drafts}
    hows: dict[Edge, tuple[How, _Draft | None]] = {}
    for op in graph:
        if isinstance(op.kind, SourceKind):
            entries[id(owner[op.name])].append(op.name)
    for edge in graph.edges:
        producer = owner[edge.producer.operator]
        consumer = owner.get(edge.consumer.operator)
        if consumer is producer:
            continue
        if consumer is None:
            how, consumer = _to_sink(graph, edge, producer, region_of)
            if consumer is not None:
                drafts.append(consumer)
                entries[id(consumer)] = []
        else:
            how = _to_unit(consumer)
        hows[edge] = how, consumer
        if consumer is not None:
            entries[id(consumer)].append(edge)
    ordered = _set_levels(drafts, hows, owner)
    number = {id(draft): index for index, draft in enumerate(ordered)}
    names = _name_units(graph, ordered)
    units = tuple(
        Unit(
            name=names[index],
            number=index,
            level=draft.level,
            operators=draft.operators,
            entries=tuple(entries[id(draft)]),
            key=draft.key,
            region=draft.region,
            ordering=draft.ordering,
            in_driver=draft.in_driver,
            writes=draft.writes,
            period=draft.period,
        )
        for index, draft in enumerate(ordered)
    )
    routes = {
        edge: UnitRoute(how)
        if consumer is None
        else UnitRoute(how, number[id(consumer)], entries[id(consumer)].index(edge))
        for edge, (how, consumer) in hows.items()
    }
    return EpochLayout(graph, positions, units, routes, one_to_one)


def _name_units(graph: Graph, drafts: list[_Draft]) -> list[str]:
    """Return the names under which a checkpoint knows units.

    Earlier releases had no units that only write an `ab.Sink`: the others keep theirs.
    """
    made: list[str] = []
    known = itertools.count()
    for draft in drafts:
        new = not draft.operators and isinstance(graph[draft.writes[0]].kind, WriteSink)
        made.append(f"w{len(made)}" if new else f"u{next(known)}")
    return made


def _to_unit(consumer: _Draft) -> How:
    match consumer.ordering:
        case None:
            return "one"
        case "position" | "none":
            return "key"
        case _:
            return "group" if consumer.period > 1 else "range"


def _to_sink(
    graph: Graph, edge: Edge, producer: _Draft, region_of: Mapping[str, str]
) -> tuple[How, _Draft | None]:
    """Return how items reach a sink, with a new unit if necessary.

    Tasks with a contiguous range of the stream write it locally; the outputs of a keyed
    unit are first ordered, range by range, unless the sink is in its region: then it
    takes items in any order.
    """
    sink = edge.consumer.operator
    if not is_in_parts(graph[sink]):
        return "driver", None
    region = region_of.get(sink)
    unordered = (
        region is not None and region == producer.region
    )  # it need not be sorted
    if (not producer.key or unordered) and not producer.in_driver:
        producer.writes += (sink,)
        return "write", None
    return "range", _Draft(
        (), region=region, ordering="contiguous", writes=(sink,), edge=edge
    )


def _end_in_files(graph: Graph, sink: str) -> LastJoint:
    """Return how files end a region: a single one is assembled from parts."""
    kind = graph[sink].kind
    single = isinstance(kind, WriteFiles) and kind.single
    return "merge" if single else "parallel_sink"


def _set_levels(
    drafts: list[_Draft],
    hows: Mapping[Edge, tuple[How, _Draft | None]],
    owner: Mapping[str, _Draft],
) -> list[_Draft]:
    """Assign levels: each unit after its inputs; a level is all workers or all
    driver.
    """
    before: dict[int, list[_Draft]] = {id(draft): [] for draft in drafts}
    for edge, (_, consumer) in hows.items():
        if consumer is not None:
            before[id(consumer)].append(owner[edge.producer.operator])
    in_driver: dict[int, bool] = {}
    done: set[int] = set()
    waiting = list(drafts)
    ordered: list[_Draft] = []
    while waiting:
        ready = [d for d in waiting if all(id(p) in done for p in before[id(d)])]
        for draft in ready:
            draft.level = max((p.level + 1 for p in before[id(draft)]), default=0)
            while in_driver.setdefault(draft.level, draft.in_driver) != draft.in_driver:
                draft.level += 1
            done.add(id(draft))
            ordered.append(draft)
        waiting = [draft for draft in waiting if id(draft) not in done]
    return _without_gaps(ordered)


def _without_gaps(drafts: list[_Draft]) -> list[_Draft]:
    used = sorted({draft.level for draft in drafts})
    for draft in drafts:
        draft.level = used.index(draft.level)
    return sorted(drafts, key=lambda draft: draft.level)


def _is_sink(graph: Graph, name: str) -> bool:
    return isinstance(graph[name].kind, SinkKind)


@dataclass(frozen=True)
class CutPart:
    """The operators between two cuts of a unit, run by one worker of a task.

    `received` are the streams that cross the cut before it and `sent` those that cross
    the cut after it; some only pass through.
    """

    operators: tuple[str, ...]
    received: tuple[Edge, ...]
    sent: tuple[Edge, ...]

    @property
    def entries(self) -> tuple[Edge, ...]:
        """The streams from other parts that its operators read."""
        inside = self.operators
        return tuple(e for e in self.received if e.consumer.operator in inside)


def parts_of(
    layout: EpochLayout, unit: Unit, cuts: Collection[str]
) -> tuple[CutPart, ...]:
    """Return the parts of a unit cut before some operators, first to last.

    Operators behind a cut are in a later part, so that every stream goes forwards.
    """
    graph = layout.graph
    number = dict.fromkeys(unit.operators, 0)
    ordered = [name for name in unit.operators if name in cuts]
    behind: set[str] = set()
    for name in reversed(ordered):
        behind |= behind_cut(layout, unit, name)
        for one in behind:
            number[one] += 1
    inner = [
        edge
        for name in unit.operators
        for edge in graph.out_edges(name)
        if edge.consumer.operator in number
    ]

    def crossing(cut: int) -> tuple[Edge, ...]:
        return tuple(
            edge
            for edge in inner
            if number[edge.producer.operator] < cut <= number[edge.consumer.operator]
        )

    return tuple(
        CutPart(
            tuple(name for name in unit.operators if number[name] == part),
            crossing(part) if part else (),
            crossing(part + 1),
        )
        for part in range(len(ordered) + 1)
    )


MOST_UNDER_WAY = 8  # overlapping epochs; tasks hold them in memory


def why_not_overlap(layout: EpochLayout) -> str | None:
    """Return why epochs cannot overlap, or None."""
    if any(unit.in_driver for unit in layout.units):
        return "what the driver runs of an epoch cannot be taken back"
    if any(unit.period > 1 for unit in layout.units):
        return "a group of items may continue in the next epoch"
    inside = (layout.graph[name] for unit in layout.units for name in unit.operators)
    kernels = [kernel_of(op) for op in inside if op.inputs]
    if any(kernel.find_shared(kernel.open()) is not None for kernel in kernels):
        return "the clock is known only when its epoch is over"
    return None


def why_not_cut(layout: EpochLayout, operator: str) -> str | None:
    """Return why there can be no cut before an operator, or None."""
    unit = layout.unit_of.get(operator)
    if unit is None:
        return f"there is no operator {operator} that runs in a worker"
    if unit.in_driver:
        return f"{operator} runs in the driver"
    if unit.period > 1:
        return f"{operator} is in an element that takes {unit.period} items at a time"
    graph = layout.graph
    if not set(graph.producers(operator)).intersection(unit.operators):
        return f"{operator} begins its element: there is nothing before it"
    behind = behind_cut(layout, unit, operator)
    for edge in graph.edges:
        producer = edge.producer.operator
        if edge.consumer.operator in behind and producer not in {
            *behind,
            *unit.operators,
        }:
            return f"{operator} and what follows it also read {producer} elsewhere"
    return None


def behind_cut(layout: EpochLayout, unit: Unit, operator: str) -> set[str]:
    """Return the operators behind a cut: one, and all it leads to in its unit."""
    behind = {operator}
    for name in unit.operators:
        if behind.intersection(layout.graph.producers(name)):
            behind.add(name)
    return behind
