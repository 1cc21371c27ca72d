"""From the plan to what runs where on Spark.

A *unit* is an element without its sinks: one fused program, run by one task or by
several. Units stand on *levels*; an epoch goes through the levels one after another,
and between two levels rows move to the partition of the unit that they are for. So
any graph becomes one straight chain of stages, and nothing is computed twice.

A unit whose code has effects that only this process can keep (a counter in a closure,
a file that it writes) runs in the driver, between two Spark jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal

from anabranch.graph.graph import Edge, Graph, Input, Output
from anabranch.graph.sinks import SinkKind, WriteFiles
from anabranch.graph.sources import Source
from anabranch.plan.plan import Plan
from anabranch.runtime.compiled.program import NOTHING, Choice, choice_of
from anabranch.runtime.fusion import Entry
from anabranch.runtime.positions import Positions, positions_of

How = Literal["key", "range", "group", "one", "write", "driver"]


@dataclass(frozen=True)
class Unit:
    """A fused program and where it runs; `writes` are the file sinks that it fills.

    A unit with blocks gets its items `period` at a time.
    """

    name: str
    number: int
    level: int
    operators: tuple[str, ...]
    entries: tuple[Entry, ...]
    key: tuple[str, ...] = ()
    replicated: bool = False
    in_driver: bool = False
    writes: tuple[str, ...] = ()
    period: int = 1


@dataclass(frozen=True)
class Route:
    """Where a stream that leaves a unit goes, and how it is divided on the way.

    By `key` to the channel that has the key's state; by `range` of positions, or by
    range but in whole groups; to the `one` task of a unit; to files that are written on
    the spot; or to the `driver`.
    """

    how: How
    unit: int = -1
    entry: int = 0


@dataclass(frozen=True)
class Layout:
    """The units of a program, the streams between them, and the form of positions."""

    graph: Graph
    positions: Positions
    units: tuple[Unit, ...]
    routes: Mapping[Edge, Route]
    one_to_one: frozenset[str]  # operators with exactly one output for each item
    choice: Choice = NOTHING

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
        """The units that each unit takes items from."""
        found: dict[int, set[int]] = {unit.number: set() for unit in self.units}
        for edge, route in self.routes.items():
            if route.unit in found:
                found[route.unit].add(self.unit_of[edge.producer.operator].number)
        return {number: frozenset(units) for number, units in found.items()}

    def together(self, levels: range) -> list[list[Unit]]:
        """Return the units of some levels, those together that hand each other items."""
        if levels not in self._together:
            self._together[levels] = self._grouped(levels)
        return self._together[levels]

    @cached_property
    def _together(self) -> dict[range, list[list[Unit]]]:
        return {}

    def _grouped(self, levels: range) -> list[list[Unit]]:
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
    def unit_of(self) -> Mapping[str, Unit]:
        """The unit of each operator that is not a sink."""
        return {name: unit for unit in self.units for name in unit.operators}


def lay_out(graph: Graph, plan: Plan, *, resilient: bool = False) -> Layout:
    """Return the layout of a plan.

    Where items may fail and the program goes on, a region with blocks has one task: an
    item that fails would shift the groups of all others.
    """
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
        if resilient and region is not None and region.period > 1:
            region = None
        drafts.append(
            _Draft(
                inside,
                key=region.key if region else (),
                replicated=region is not None,
                in_driver=any(planned[n].effects for n in inside),
                period=region.period if region else 1,
            )
        )
    one_to_one = frozenset(
        op.name for op in plan.operators if op.push == (1, 1) and op.pop == 1
    )
    made = _connected(graph, drafts, positions_of(graph, prolific), one_to_one)
    return replace(made, choice=choice_of(plan))


@dataclass
class _Draft:
    operators: tuple[str, ...]
    key: tuple[str, ...] = ()
    replicated: bool = False
    in_driver: bool = False
    writes: tuple[str, ...] = ()
    period: int = 1
    edge: Edge | None = None  # of a unit that only writes files
    level: int = 0


def _connected(
    graph: Graph,
    drafts: list[_Draft],
    positions: Positions,
    one_to_one: frozenset[str],
) -> Layout:
    """Find the streams between units, add units that write, and set the levels."""
    owner = {name: draft for draft in drafts for name in draft.operators}
    entries: dict[int, list[Entry]] = {id(draft): [] for draft in drafts}
    hows: dict[Edge, tuple[How, _Draft | None]] = {}
    for op in graph:
        if isinstance(op.kind, Source):
            entries[id(owner[op.name])].append(op.name)
    for edge in graph.edges:
        producer = owner[edge.producer.operator]
        consumer = owner.get(edge.consumer.operator)
        if consumer is producer:
            continue
        if consumer is None:
            how, consumer = _to_sink(graph, edge, producer)
            if consumer is not None:
                drafts.append(consumer)
                entries[id(consumer)] = []
        elif consumer.key:
            how = "key"
        elif consumer.period > 1:
            how = "group"
        else:
            how = "range" if consumer.replicated else "one"
        hows[edge] = how, consumer
        if consumer is not None:
            entries[id(consumer)].append(edge)
    ordered = _leveled(drafts, hows, owner)
    number = {id(draft): index for index, draft in enumerate(ordered)}
    units = tuple(
        Unit(
            name=f"u{index}",
            number=index,
            level=draft.level,
            operators=draft.operators,
            entries=tuple(entries[id(draft)]),
            key=draft.key,
            replicated=draft.replicated,
            in_driver=draft.in_driver,
            writes=draft.writes,
            period=draft.period,
        )
        for index, draft in enumerate(ordered)
    )
    routes = {
        edge: Route(how)
        if consumer is None
        else Route(how, number[id(consumer)], entries[id(consumer)].index(edge))
        for edge, (how, consumer) in hows.items()
    }
    return Layout(graph, positions, units, routes, one_to_one)


def _to_sink(graph: Graph, edge: Edge, producer: _Draft) -> tuple[How, _Draft | None]:
    """Return how items reach a sink, with a new unit if that takes one.

    Tasks that hold a contiguous range of the stream write it where they are; what
    comes out of a keyed unit is first put in order, range by range.
    """
    sink = edge.consumer.operator
    if not isinstance(graph[sink].kind, WriteFiles):
        return "driver", None
    if not producer.key and not producer.in_driver:
        producer.writes += (sink,)
        return "write", None
    return "range", _Draft((), replicated=True, writes=(sink,), edge=edge)


def _leveled(
    drafts: list[_Draft],
    hows: Mapping[Edge, tuple[How, _Draft | None]],
    owner: Mapping[str, _Draft],
) -> list[_Draft]:
    """Put each unit behind what it reads; a level is all workers or all driver."""
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


def sink_edge(graph: Graph, sink: str) -> Edge:
    """Return the stream that a sink reads."""
    (output,) = graph[sink].inputs
    return Edge(Output(*output), Input(sink, 0))
