"""A running layout: replicas, the ports between them, and their threads.

A network does not change, except that its splitters deal to more or fewer of its
replicas, or move keys between them. Another configuration is another network: the old one is drained, the states
move over, and the flow continues in the new one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from anabranch.engines.local.layout import (
    Configuration,
    ElementLayout,
    LocalLayout,
    why_not_suspended,
)
from anabranch.graph.graph import Edge, Graph, Op, depth_first
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.metrics.job_metrics import ElementCounters, OperatorLoad, find_skew
from anabranch.operators.custom import Scan
from anabranch.operators.sinks import ToList
from anabranch.operators.stateless import Map
from anabranch.plan.plan import Region
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.batch import Batch
from anabranch.runtime.breaks import Breaks
from anabranch.runtime.codegen import Entry
from anabranch.runtime.compiled.program import NOTHING, CompileChoice, make_program
from anabranch.runtime.element import Deliver, Pace, Replica
from anabranch.runtime.failures import OnError
from anabranch.runtime.handover import Handover
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.memory_reserve import explain_lack
from anabranch.runtime.ordering.by_position import in_order_of_positions
from anabranch.runtime.ordering.choose import make_merge
from anabranch.runtime.ordering.merge import Dealt
from anabranch.runtime.ports import AbortedError, End, Inlet
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Program
from anabranch.runtime.split import (
    GroupRouter,
    KeyRouter,
    NewTable,
    Numbering,
    Outlet,
    RoundRobinRouter,
    Router,
    Slot,
    SplitOutlet,
    StraightOutlet,
    bucket_of,
    even_table,
)
from anabranch.runtime.state import LentStates, States
from anabranch.runtime.verify.verifier import Verifier


@dataclass(frozen=True)
class NetworkBuild:
    """The inputs for making replicas, besides the layout."""

    graph: Graph
    regions: Mapping[str, Region]
    configuration: Configuration
    deliver: Callable[[Op], Deliver]
    on_error: OnError
    breaks: Breaks
    choice: CompileChoice = NOTHING
    verifier: Verifier | None = None
    dealt: dict[Edge, Dealt] = field(
        default_factory=dict
    )  # by first operator of a region

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """The order in which an item visits operators."""
        return {name: rank for rank, name in enumerate(depth_first(self.graph))}

    def dealt_at(self, edge: Edge, region: str) -> Dealt:
        """Return the dealing state that a splitter and its merger share."""
        degree = self.configuration.degrees.get(region, 1)
        return self.dealt.setdefault(edge, Dealt(degree))


def build_replicas(
    layout: LocalLayout, build: NetworkBuild
) -> dict[str, tuple[Replica, ...]]:
    """Return the replicas of every element, connected, with empty states."""
    replicas = {
        name: tuple(
            _replica(layout, element, channel, build)
            for channel in range(element.degree)
        )
        for name, element in layout.elements.items()
    }
    for element in layout.elements.values():
        for channel, replica in enumerate(replicas[element.name]):
            for edge in element.sinks:
                sink = build.graph[edge.consumer.operator]
                replica.sinks[edge] = build.deliver(sink)
            for edge in element.outputs:
                replica.outlets[edge] = _outlet(layout, edge, channel, replicas, build)
            if replica.program is not None:
                replica.program.gives_arrays = _takes_arrays(replica)
    return replicas


def _takes_arrays(replica: Replica) -> bool:
    """Tell whether the outputs of a replica go as they are to one other thread."""
    outlets = [*replica.outlets.values()]
    return (
        len(outlets) == 1
        and not replica.sinks
        and isinstance(outlets[0], StraightOutlet)
        and outlets[0].slots[0].inlet.takes_arrays
    )


def table_of(configuration: Configuration, region: str) -> tuple[int, ...]:
    """Return the replica of each bucket of a region."""
    planned = configuration.tables.get(region)
    return planned or even_table(configuration.degrees.get(region, 1))


def _replica(
    layout: LocalLayout, element: ElementLayout, channel: int, build: NetworkBuild
) -> Replica:
    inlet = None
    if element.inputs:
        inlet = _inlet(layout, element, build)
    name = element.name if element.part is None else f"{element.name}[{channel}]"
    replica = Replica(
        name=name,
        program=None,
        inlet=inlet,
        carries=element.carried != "nothing",
        pace=_pace(build.configuration),
        one_to_one=element.carried == "numbers" and element.part in layout.one_to_one,
        breaks=build.breaks,
        ranks=build.ranks,
        fallible=frozenset(e for e in element.sinks if _may_fail(build.graph, e)),
        unordered=element.strategy == "none",
    )
    if build.verifier is not None:
        inside = build.verifier.operators.intersection(element.operators)
        if inside:
            replica.check = partial(build.verifier.check_some, sorted(inside))
            replica.rehearse = build.verifier.rehearse
    if element.carried == "nothing":
        replica.aligned = _is_aligned(element, build.graph)
        several = len(element.sinks) > 1
        asked = bool(element.outputs) or (several and bool(replica.fallible))
        replica.indexed = build.breaks.orderly and asked and not replica.aligned
    for edge in element.outputs:
        carried = element.carried == "positions"
        width = layout.positions.on(edge) if carried else 1
        replica.widths[edge] = 0 if element.carried == "nothing" else width
    head = build.graph[element.name]
    if isinstance(head.kind, SinkKind):
        replica.sinks[element.inputs[0]] = build.deliver(head)
    else:
        replica.program = _program(layout, element, replica, build)
        if build.verifier is not None and build.verifier.is_on:
            replica.program.watch_given()
    return replica


def _pace(configuration: Configuration) -> Pace:
    size = configuration.batch
    return Pace() if size is None else Pace.of_size(size)


def _program(
    layout: LocalLayout, element: ElementLayout, replica: Replica, build: NetworkBuild
) -> Program:
    graph = build.graph
    entries: list[Entry] = list(element.inputs)
    if isinstance(graph[element.name].kind, SourceKind):
        entries = [element.name]
    states = {
        op.name: States(op, kernel, fresh=False)
        for op in (graph[name] for name in element.operators)
        if not isinstance(op.kind, SourceKind | SinkKind)
        and (kernel := kernel_of(op)).stateful
    }
    return make_program(
        graph,
        element.operators,
        entries,
        build.choice,
        positions=_positions(layout, element, replica),
        states=states,
        on_error=build.on_error,
        describe=lambda _: replica.where,
    )


def _positions(
    layout: LocalLayout, element: ElementLayout, replica: Replica
) -> Positions | None:
    """Return the positions that a program carries."""
    if element.carried == "positions":
        return layout.positions
    if not replica.indexed and (element.carried == "nothing" or replica.one_to_one):
        return None
    one = dict.fromkeys(layout.positions.inside, 1)
    return Positions(inside=one, after=one, branch={}, prolific=frozenset())


def _is_aligned(element: ElementLayout, graph: Graph) -> bool:
    """Tell whether each output of an element corresponds to the item at its index."""
    ops = [graph[name] for name in element.operators]
    return all(isinstance(op.kind, SourceKind | Map | Scan | SinkKind) for op in ops)


def _may_fail(graph: Graph, edge: Edge) -> bool:
    return not isinstance(graph[edge.consumer.operator].kind, ToList)


def _inlet(layout: LocalLayout, element: ElementLayout, build: NetworkBuild) -> Inlet:
    entries: list[int] = []
    for number, edge in enumerate(element.inputs):
        entries += [number] * layout.queues(edge)
    producers = {edge.producer.operator for edge in element.inputs}
    merge = make_merge(
        element.strategy,
        entries,
        width=max(layout.positions.on(edge) for edge in element.inputs),
        turns={p for name in producers for p in layout.positions.turns.get(name, ())},
        punctuated=not producers.isdisjoint(layout.punctuated),
        numbered=element.carried == "numbers",
        dealt=_find_dealt(layout, element, build),
    )
    return Inlet(merge, threaded=element.threaded)


def _find_dealt(
    layout: LocalLayout, element: ElementLayout, build: NetworkBuild
) -> Dealt | None:
    """Return the dealing state for an element that merges round robin, if it does."""
    if element.strategy != "round_robin":
        return None
    (edge,) = element.inputs
    region = layout.element_of(edge.producer.operator)
    while (before := layout.element_of(edge.producer.operator)).part == region.part:
        (edge,) = before.inputs
    return build.dealt_at(edge, str(region.part))


def _outlet(
    layout: LocalLayout,
    edge: Edge,
    channel: int,
    replicas: Mapping[str, tuple[Replica, ...]],
    build: NetworkBuild,
) -> Outlet:
    producer = layout.element_of(edge.producer.operator)
    consumer = layout.element_of(edge.consumer.operator)
    queue = 0
    for other in consumer.inputs:
        if other == edge:
            break
        queue += layout.queues(other)
    inlets: list[Any] = [replica.inlet for replica in replicas[consumer.name]]
    if producer.part == consumer.part:
        return StraightOutlet([Slot(inlets[channel], queue)])
    slots = [Slot(inlet, queue + channel) for inlet in inlets]
    if consumer.part is None:
        return StraightOutlet(slots)
    numbering = None
    if producer.part is None and consumer.carried == "numbers":
        numbering = Numbering(
            build.configuration.epoch,
            build.configuration.degrees[consumer.part],
            pulses=layout.strategies[consumer.part] in ("strict", "relaxed"),
        )
    marked = edge.producer.operator in layout.punctuated
    router = _router(consumer.part, build, edge)
    return SplitOutlet(
        slots,
        router,
        numbering,
        carried=consumer.carried != "nothing",
        punctuated=marked,
    )


def _router(part: str, build: NetworkBuild, edge: Edge | None = None) -> Router:
    region = build.regions[part]
    degree = build.configuration.count_replicas(part)
    if region.period > 1:
        return GroupRouter(degree, region.period)
    if not region.key:
        return RoundRobinRouter(degree, edge and build.dealt_at(edge, part))
    return KeyRouter(region.key, table_of(build.configuration, part), degree)


def _bucket_of_state(graph: Graph, region: Region, operator: str, key: Any) -> int:
    """Return the bucket of a key of an operator in a region."""
    return bucket_of(key_projection(graph[operator].keyed_by, region.key)(key))


def key_projection(
    own: tuple[str, ...], coarser: tuple[str, ...]
) -> Callable[[Any], Any]:
    """Return the function from an operator's key to the key of its region.

    >>> key_projection(("a", "b"), ("b",))((1, 2))
    2
    >>> key_projection(("a",), ("a",))(1)
    1
    """
    if own == coarser:
        return lambda key: key
    places = [own.index(attribute) for attribute in coarser]
    if len(places) == 1:
        return lambda key: key[places[0]]
    return lambda key: tuple(key[place] for place in places)


Fail: TypeAlias = Callable[
    [BaseException], None
]  # called once about an error in a thread


class Network:
    """The running replicas of a layout."""

    def __init__(
        self, layout: LocalLayout, build: NetworkBuild, fail: Fail, ambient: Ambient
    ) -> None:
        self.layout = layout
        self._build = build
        self.replicas = build_replicas(layout, build)
        self._fail = fail
        owner_of: dict[Inlet, Replica] = {
            replica.inlet: replica
            for replicas in self.replicas.values()
            for replica in replicas
            if replica.inlet is not None
        }
        self._inlets = tuple(owner_of)
        self._inline: dict[str, tuple[Replica, ...]] = {}
        self._reach: dict[str, tuple[Slot, ...]] = {}
        for name in reversed(self.replicas):
            for replica in self.replicas[name]:
                self._look_ahead(replica, owner_of)
        self._threads = [
            threading.Thread(
                target=ambient.bind(self._work),
                args=(replica,),
                name=replica.name,
                daemon=True,
            )
            for replica in owner_of.values()
            if replica.inlet is not None and replica.inlet.threaded
        ]

    @property
    def threads(self) -> dict[str, threading.Thread]:
        """The threads of all ports, by the name of their replica."""
        return {thread.name: thread for thread in self._threads}

    def run_by_thread_of(self, replica: Replica) -> list[Replica]:
        """Return all replicas that the thread of a replica may continue with."""
        found = [replica]
        for one in found:
            found += [r for r in self._inline[one.name] if r not in found]
        return found

    def start(self) -> None:
        """Start the threads of all ports."""
        for thread in self._threads:
            thread.start()

    def feed(self, source: str, batch: Batch) -> None:
        """Send in a batch of a source; never waits for other threads."""
        (replica,) = self.replicas[source]
        self._flow(replica, batch)
        replica.settle()
        self._run_inline(replica)

    def fail(self, source: str, error: BaseException, batch: Batch) -> None:
        """End the stream of a source at an item that it cannot read."""
        (replica,) = self.replicas[source]
        replica.fail(error, batch)
        self._run_inline(replica)

    def await_room(self, source: str) -> None:
        """Wait until there is room for the next batch of a source."""
        (replica,) = self.replicas[source]
        for inlet, queue in self._reach[replica.name]:
            inlet.await_room(queue)

    def close(self, source: str, *, final: bool) -> None:
        """End the stream of a source, or detach it."""
        (replica,) = self.replicas[source]
        replica.close(final=final)
        self._run_inline(replica)

    def join(self) -> None:
        """Wait until all input has gone through."""
        for thread in self._threads:
            thread.join()

    def lift_bounds(self) -> None:
        """Let no thread wait for room any more; items in flight go through."""
        for inlet in self._inlets:
            inlet.lift_bound()

    def abort(self) -> None:
        """Wake all waiting threads so that they can stop."""
        for inlet in self._inlets:
            inlet.abort()

    def abandon(self) -> None:
        """Stop all threads, including those that return from an operator later."""
        self.abort()
        for replicas in self.replicas.values():
            for replica in replicas:
                replica.drop()

    def take_pending(self) -> dict[Edge, list[Batch]]:
        """Take out, once idle, the items that wait for another source to catch up."""
        found: dict[Edge, list[Batch]] = {}
        for name, element in self.layout.elements.items():
            edges = [e for e in element.inputs for _ in range(self.layout.queues(e))]
            for replica in self.replicas[name]:
                if replica.inlet is not None:
                    for queue, batch in replica.inlet.take_pending().items():
                        found.setdefault(edges[queue], []).append(batch)
        return found

    def resume(self, left_over: Mapping[Edge, list[Batch]]) -> None:
        """Take over the pending items of the network before this one; before the start."""
        for edge, batches in left_over.items():
            producer = self.layout.element_of(edge.producer.operator)
            consumer = self.layout.element_of(edge.consumer.operator)
            outlet = self.replicas[producer.name][0].outlets[edge]
            batch = in_order_of_positions(batches)
            if producer.carried == "nothing":
                batch.known, batch.columns = batch.columns, None
            if consumer.part is not None and producer.part == consumer.part:
                outlet = self._divide_within(edge, outlet)
            outlet.put(batch)

    def _divide_within(self, edge: Edge, first: Outlet) -> Outlet:
        """Return the outlet that deals waiting items between two elements of a region.

        Items for a keyed operator still have the key they came in with.
        """
        consumer = self.layout.element_of(edge.consumer.operator)
        part = str(consumer.part)
        slots = [
            Slot(inlet, first.slots[0].queue)
            for replica in self.replicas[consumer.name]
            if (inlet := replica.inlet) is not None
        ]
        marked = edge.producer.operator in self.layout.punctuated
        return SplitOutlet(slots, _router(part, self._build), punctuated=marked)

    def _edges_into(self, region: Region) -> list[Edge]:
        elements = self.layout.elements.values()
        edges = [edge for element in elements for edge in element.outputs]
        return [e for e in edges if e.consumer.operator in region.operators]

    def router_of(self, region: Region) -> Router | None:
        """Return the router of a region, if it has replicas."""
        for edge in self._edges_into(region):
            producer = self.layout.element_of(edge.producer.operator)
            outlet = self.replicas[producer.name][0].outlets.get(edge)
            if isinstance(outlet, SplitOutlet):
                return outlet.router
        return None

    def deal_to(self, region: Region, replicas: int) -> None:
        """Change the number of active replicas of a region while items keep flowing."""
        for edge in self._edges_into(region):
            producer = self.layout.element_of(edge.producer.operator)
            for replica in self.replicas[producer.name]:
                outlet = replica.outlets.get(edge)
                if isinstance(outlet, SplitOutlet):
                    outlet.deal_to(replicas)

    def why_not_moved(self, region: Region) -> str | None:
        """Return why keys of a region cannot move while items keep flowing, or None."""
        elements = [
            one for one in self.layout.elements.values() if one.part == region.name
        ]
        if len(elements) != 1:
            return "it has one replica, or a threaded port inside"
        (element,) = elements
        if why := why_not_suspended(self._build.graph, region):
            return why
        if self.layout.element_of(element.inputs[0].producer.operator).part:
            return "replicas of another region deal its items out"
        return None

    def move_keys(self, region: Region, table: Sequence[int]) -> None:
        """Divide the keys of a region by another table; the flow continues meanwhile.

        The states go with them: see `anabranch.runtime.handover`.
        """
        (edge,) = self._edges_into(region)
        producer = self.layout.element_of(edge.producer.operator)
        (replica,) = self.replicas[producer.name]
        outlet = replica.outlets[edge]
        if isinstance(outlet, SplitOutlet):
            graph = self._build.graph
            clocked = {name for name in region.operators if graph[name].timing}
            find_bucket = partial(_bucket_of_state, graph, region)
            outlet.move_to(NewTable(table, find_bucket, frozenset(clocked)))

    def take_key_counts(self, region: Region) -> Counter[Any]:
        """Return the items per key that entered a region since the last call."""
        counts: Counter[Any] = Counter()
        for edge in self._edges_into(region):
            producer = self.layout.element_of(edge.producer.operator)
            for replica in self.replicas[producer.name]:
                router = getattr(replica.outlets[edge], "router", None)
                if isinstance(router, KeyRouter):
                    counts.update(router.take_counts())
        return counts

    def limit(self, source: str) -> int:
        """Return the batch size for a source."""
        (replica,) = self.replicas[source]
        return replica.limit

    def takes_tables(self, source: str) -> bool:
        """Tell whether the next items of a source may come as a table."""
        (replica,) = self.replicas[source]
        return replica.program is not None and replica.program.takes_tables

    def _look_ahead(self, replica: Replica, owner_of: Mapping[Inlet, Replica]) -> None:
        """Find what a thread continues with, and where it may wait for room."""
        behind = [owner_of[slot.inlet] for slot in replica.slots]
        for other in behind:
            other.feeders += (replica,)
        inline = [r for r in behind if r.inlet is not None and not r.inlet.threaded]
        self._inline[replica.name] = tuple(dict.fromkeys(inline))
        reach = dict.fromkeys(replica.slots)
        for other in self._inline[replica.name]:
            reach.update(dict.fromkeys(self._reach[other.name]))
        self._reach[replica.name] = tuple(reach)

    def _work(self, replica: Replica) -> None:
        """Run a replica that has a thread of its own, until its streams end."""
        inlet = replica.inlet
        assert inlet is not None  # noqa: S101 - only ports have such threads
        try:
            while True:
                due = inlet.poll()
                if due is None:
                    replica.settle()
                    self._run_inline(replica)
                    due = inlet.take()
                if isinstance(due, End):
                    replica.close(final=due.final)
                    self._run_inline(replica)
                    return
                self._flow(replica, due)
                if due.handover is not None:
                    self._hand_over(replica, inlet, due.handover)
                self._await_room(replica)
        except AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            self._fail(explain_lack(error))

    def _hand_over(self, replica: Replica, inlet: Inlet, handover: Handover) -> None:
        """Give away the states of keys that move, and get those of others."""
        replica.settle()
        self._run_inline(replica)
        handover.give(replica.states)
        inlet.await_states(handover)
        handover.take(replica.states)

    def _flow(self, replica: Replica, batch: Batch) -> None:
        replica.run(batch)
        self._run_inline(replica)

    def _run_inline(self, replica: Replica) -> None:
        """Continue through the locks behind a replica, as far as something is due."""
        pending = list(self._inline[replica.name])
        while pending:
            following = pending.pop(0)
            if self._pass_lock(following):
                pending += self._inline[following.name]

    def _pass_lock(self, replica: Replica) -> bool:
        """Run what is due behind a lock, unless another thread does."""
        inlet = replica.inlet
        assert inlet is not None  # noqa: S101 - it stands behind its lock
        due = inlet.claim()
        if due is None:
            return False
        while due is not None:
            if isinstance(due, End):
                replica.close(final=due.final)
            else:
                replica.run(due)
            due = inlet.poll()
            if due is None:
                replica.settle()
                due = inlet.more()
        return True

    def _await_room(self, replica: Replica) -> None:
        reach = self._reach[replica.name]
        if all(inlet.has_room(queue) for inlet, queue in reach):
            return
        replica.settle()
        self._run_inline(replica)
        for inlet, queue in reach:
            inlet.await_room(queue)

    def count_waiting(self) -> int:
        """Return the number of items waiting between threads."""
        return sum(inlet.waiting for inlet in self._inlets)

    def counters(self) -> dict[str, ElementCounters]:
        """Return the input and backlog counts of each element."""
        return {
            name: ElementCounters(
                replicas=len(replicas),
                received=tuple(replica.received for replica in replicas),
                waiting=tuple(
                    0 if replica.inlet is None else replica.inlet.waiting
                    for replica in replicas
                ),
                limit=tuple(replica.limit for replica in replicas),
            )
            for name, replicas in self.replicas.items()
        }

    def measure_loads(self) -> dict[str, OperatorLoad]:
        """Return the load of each operator, which is that of its element."""
        found: dict[str, OperatorLoad] = {}
        for name, counters in self.counters().items():
            replicas = self.replicas[name]
            load = OperatorLoad(
                name,
                len(replicas),
                sum(counters.received),
                sum(replica.busy_s for replica in replicas),
                find_skew([replica.busy_s for replica in replicas]),
                sum(counters.waiting),
                sum(counters.waiting) / max(1, sum(counters.limit)),
            )
            for operator in self.layout.elements[name].operators:
                states = [
                    one.states[operator] for one in replicas if operator in one.states
                ]
                keys = [
                    one.count_keys() for one in states if isinstance(one, LentStates)
                ]
                found[operator] = replace(load, keys=sum(keys) if keys else None)
        return found
