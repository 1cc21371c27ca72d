"""The flow of a program: sources, the network they feed, and its replacement.

Each source has a gate. To change something, the next network is built while the flow
continues; then all gates are closed, items in flight go through, the states move over,
and the gates open to the new network. The flow pauses only in between.

A region may have more replicas than are active. These are woken and suspended without a
pause: the splitter deals to more or fewer of them, and the states of keys that move go
from replica to replica (`anabranch.runtime.handover`).
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from anabranch.engines.local.interpreter_settings import LockWatch
from anabranch.engines.local.layout import Configuration, LocalLayout, lay_out
from anabranch.engines.local.network import (
    Network,
    NetworkBuild,
    key_projection,
    table_of,
)
from anabranch.engines.local.source_thread import Flusher, Gate, SourceThread, turns_of
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block
from anabranch.plan.plan import Plan, Region
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.batch import Batch, SourceLedger
from anabranch.runtime.breaks import Breaks
from anabranch.runtime.clocked import divide_state, join_states
from anabranch.runtime.compiled.program import choice_of
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import OnError, stop
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.memory_reserve import explain_lack
from anabranch.runtime.ports import AbortedError
from anabranch.runtime.split import GroupRouter, bucket_of
from anabranch.runtime.verify.verifier import Verifier


class Switch(NamedTuple):
    """The effect of a change: the pause of the flow, and the layouts before and after.

    If replicas were only woken or suspended, `woken` has their number by region;
    negative if suspended. If keys were only moved between replicas, `moved` has the
    number of buckets by region.
    """

    pause_s: float
    before: LocalLayout
    after: LocalLayout
    woken: Mapping[str, int] = MappingProxyType({})
    moved: Mapping[str, int] = MappingProxyType({})


class LocalFlow:
    """A running program's data flow; `news` is set when a source ends or something
    fails.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        configuration: Configuration,
        *,
        deliver: Callable[[Op], Deliver],
        on_error: OnError,
        news: Callable[[], None],
        ambient: Ambient,
        verifier: Verifier | None = None,
    ) -> None:
        self.graph = graph
        self.plan = plan
        self.regions = {region.name: region for region in plan.regions}
        self.failure: BaseException | None = None
        self.configuration = configuration
        self._deliver = deliver
        self._on_error = on_error
        self._verifier = verifier
        self._choice = choice_of(plan, configuration.fission)
        self._news = news
        self.breaks = Breaks(orderly=on_error is stop, news=news)
        self._cut_off = False  # all streams have ended, though the program has not
        self._changing = threading.Lock()  # one change at a time, none after the end
        self._failing = threading.Lock()
        self._drained = False
        self._ambient = ambient
        self._flusher = Flusher(self.fail, ambient)
        self._lock_watch = LockWatch()
        self.network = self._build(configuration)
        self._hand_over(first_states(graph), self.network)
        self._turns = turns_of(graph)
        gates = [Gate() for _ in graph.sources]
        if self._turns.by_arrival:
            gates = [gates[0]] * len(gates)
        self.sources: list[SourceThread] = []
        ledger = None if self._turns.by_arrival else SourceLedger(self.sources)
        self.sources += [
            SourceThread(
                op,
                ledger=ledger,
                index=index,
                turns=self._turns,
                gate=gate,
                on_error=on_error,
                into=self,
                flusher=self._flusher,
                ambient=ambient,
            )
            for index, (op, gate) in enumerate(zip(graph.sources, gates, strict=True))
        ]

    def start(self) -> None:
        """Start the flow."""
        self.network.start()
        self._flusher.start()
        for source in self.sources:
            source.start()
        self._attend()

    def share_in_columns(self) -> dict[str, float]:
        """Return, by operator that can run in columns, the share of its items that
        did.
        """
        return self._choice.tally.share()

    def count_backlog(self) -> int | None:
        """Return the backlog, at live sources and inside; None if there are none."""
        if not any(source.is_live for source in self.sources):
            return None
        outside = sum(source.arrivals - source.read for source in self.sources)
        return outside + self.network.count_waiting()

    @property
    def ended(self) -> bool:
        """Whether all sources have ended."""
        return all(source.over for source in self.sources)

    @property
    def broken(self) -> bool:
        """Whether everything before the first failure has been read."""
        return self.breaks.found and (
            self._cut_off
            or all(one.over or self.has_passed(one) for one in self.sources)
        )

    def has_passed(self, source: SourceThread) -> bool:
        """Tell whether a source need not be read any further, because of a failure."""
        if not self.breaks.found:
            return False
        return self._turns.by_arrival or self.breaks.has_passed(
            source.index, source.sent
        )

    def break_off(self, source: SourceThread, error: BaseException) -> None:
        """End the stream of a source that cannot be read any further."""
        ours = isinstance(error, EngineError) or not isinstance(error, Exception)
        if ours:
            self.fail(error)
            return
        with source.gate:
            if not source.stopping:
                self.network.fail(source.op.name, error, source.next_batch())
        self._news()

    def feed(self, source: str, batch: Batch) -> None:
        """Send in a batch of a source, which is passing its gate."""
        self.network.feed(source, batch)
        if self._turns.by_arrival:  # the others hold up nothing that precedes them
            for other in self.sources:
                if other.op.name != source and not other.over:
                    self.network.feed(other.op.name, Batch([], [[], []], batch.mark))
        if self.breaks.found:
            self._news()

    def await_room(self, source: str) -> None:
        """Wait until there is room for the next batch; its gate must be free.

        Room may depend on another source, which may be held at its gate.
        """
        self.network.await_room(source)

    def limit(self, source: str) -> int:
        """Return the batch size for a source."""
        return self.network.limit(source)

    def takes_tables(self, source: str) -> bool:
        """Tell whether the next items of a source may come as a table."""
        return self.network.takes_tables(source)

    def end(self, source: SourceThread) -> None:
        """Close the stream of a source that has ended."""
        try:
            with source.gate:
                if not source.stopping:
                    self.network.close(source.op.name, final=True)
                    source.over = True
        finally:
            self._news()

    def fail(self, error: BaseException) -> None:
        """Stop everything because of an error; the first one counts."""
        with self._failing:
            if self.failure is None:
                self.failure = error
        self.stop_reading()
        self.network.abort()
        self._news()

    def switch(self, configuration: Configuration) -> Switch:
        """Continue under another configuration.

        This thread may process items in flight, whichever thread they belong to.
        """
        return self._ambient.bind(self._switch)(configuration)

    def _switch(self, configuration: Configuration) -> Switch:
        with self._changing:
            if self._drained:
                msg = "only a running program can be changed; this one has ended"
                raise EngineError(msg)
            moved = self._find_moved(configuration)
            if self._why_not_wake(configuration, moved) is None:
                return self._wake(configuration, moved)
            before = self.network
            after = self._build(configuration)
            started_s = perf_counter()
            with self._suspend():
                self._let_through(before)
                # the new network would continue behind the failure
                if self.breaks.found:
                    self._cut_off = True
                    self.stop_reading()
                    self._news()
                    msg = "the program failed while it was being changed"
                    raise EngineError(msg) from self.breaks.first
                self._hand_over(gather_states(before, self.graph), after, configuration)
                after.resume(before.take_pending())
                for source in self.sources:
                    if source.over:
                        after.close(source.op.name, final=True)
                self.configuration, self.network = configuration, after
                after.start()
            self._attend()
            pause_s = perf_counter() - started_s
            if self.failure is not None:
                after.abort()
                msg = "the program failed while it was being changed"
                raise EngineError(msg) from self.failure
            return Switch(pause_s, before.layout, after.layout)

    def _find_moved(self, configuration: Configuration) -> dict[str, int]:
        """Return the number of buckets that change their replica, by keyed region."""
        tables = {
            region.name: (
                table_of(self.configuration, region.name),
                table_of(configuration, region.name),
            )
            for region in self.plan.regions
            if region.key
        }
        return {
            name: sum(map(operator.ne, before, after))
            for name, (before, after) in tables.items()
            if before != after
        }

    def _why_not_wake(
        self, configuration: Configuration, moved: Collection[str]
    ) -> str | None:
        """Return why a change needs another network, or None."""
        found = (self.network.why_not_moved(self.regions[name]) for name in moved)
        why = self.configuration.why_not_wake(configuration)
        return why or next(filter(None, found), None)

    def _wake(self, configuration: Configuration, moved: Mapping[str, int]) -> Switch:
        """Wake and suspend replicas, and move keys; nothing is built or waits."""
        before = self.configuration.degrees
        woken = {
            name: more
            for name, degree in configuration.degrees.items()
            if (more := degree - before.get(name, 1))
        }
        self.configuration = configuration
        for name in moved:
            table = table_of(configuration, name)
            self.network.move_keys(self.regions[name], table)
        for name in woken.keys() - moved:
            degree = configuration.degrees[name]
            self.network.deal_to(self.regions[name], degree)
        return Switch(0.0, self.network.layout, self.network.layout, woken, moved)

    def drain(self) -> AllStates:
        """Process everything in flight, and return the states."""
        with self._changing:
            self._drained = True
            self._flusher.stop()
            self._lock_watch.stop()
            with self._suspend():
                self.stop_reading()
                if self.failure is None and not self._cut_off:
                    self._let_through(self.network)
                self.network.join()
            if self.failure is not None:
                raise self.failure
            if self.breaks.found:
                raise self.breaks.first
            return gather_states(self.network, self.graph)

    @property
    def threads(self) -> list[threading.Thread]:
        """The threads that run user code."""
        return [
            *(source.thread for source in self.sources),
            *self.network.threads.values(),
            self._flusher.thread,
        ]

    def stop_reading(self) -> None:
        """Stop all sources after their current batch."""
        for source in self.sources:
            source.stopping = True

    def abandon(self) -> None:
        """Stop all threads that are not in an operator that does not return."""
        self.stop_reading()
        self._flusher.stop()
        self._lock_watch.stop()
        self.network.abandon()

    def _attend(self) -> None:
        self._lock_watch.attend(len(self.sources) + len(self.network.threads))

    def _let_through(self, network: Network) -> None:
        """Detach all sources, and wait until a network is idle.

        A source may be ahead of another that it meets; the items that wait for the other
        are left over.
        """
        network.lift_bounds()
        try:
            for source in self.sources:
                if not source.over:  # nothing follows a failure, so nothing waits
                    network.close(source.op.name, final=self.breaks.found)
        except AbortedError:
            pass
        except BaseException as error:  # noqa: BLE001 - kept for the waiting thread
            self.fail(explain_lack(error))
        network.join()

    @contextlib.contextmanager
    def _suspend(self) -> Iterator[None]:
        for source in self.sources:
            source.gate.close()
        try:
            yield
        finally:
            for source in self.sources:
                source.gate.open()

    def _build(self, configuration: Configuration) -> Network:
        layout = lay_out(
            self.graph,
            self.plan,
            configuration,
            resilient=self._on_error is not stop,
        )
        build = NetworkBuild(
            self.graph,
            self.regions,
            configuration,
            self._deliver,
            self._on_error,
            self.breaks,
            self._choice,
            self._verifier,
        )
        return Network(layout, build, self.fail, self._ambient)

    def _hand_over(
        self,
        states: AllStates,
        network: Network,
        configuration: Configuration | None = None,
    ) -> None:
        chosen = configuration or self.configuration
        hand_over(states, network, self.graph, self.regions, chosen)


AllStates: TypeAlias = dict[str, dict[Any, Any]]  # operator -> states by key


def first_states(graph: Graph) -> AllStates:
    """Return the initial states, present even if no item ever arrives."""
    states: AllStates = {}
    for op in graph:
        if not isinstance(op.kind, SourceKind | SinkKind):
            kernel = kernel_of(op)
            if kernel.stateful:
                states[op.name] = {} if op.state_key else {(): kernel.open()}
    return states


def gather_states(network: Network, graph: Graph) -> AllStates:
    """Take the states out of an idle network."""
    states: AllStates = {}
    clocked: dict[str, list[Any]] = {}
    for replicas in network.replicas.values():
        for replica in replicas:
            for name, own in replica.states.items():
                if graph[name].timing is not None:
                    clocked.setdefault(name, []).append(own[()])
                    continue
                # Replicas without keyed state are all alike, except the one that has
                # the incomplete group of a region with blocks.
                before = states.get(name, {})
                begun = {k: s for k, s in own.items() if _is_empty(before.get(k))}
                states[name] = {**own, **before, **begun}
    return states | {name: {(): join_states(own)} for name, own in clocked.items()}


def _is_empty(state: Any) -> bool:
    """Tell whether a state is an empty list; user objects are not asked."""
    return type(state) is list and not state


def hand_over(
    states: AllStates,
    network: Network,
    graph: Graph,
    regions: Mapping[str, Region],
    configuration: Configuration,
) -> None:
    """Put states into a network that has not started, each where its bucket is.

    The first replica gets the incomplete group of a region with blocks.
    """
    for element in network.layout.elements.values():
        replicas = network.replicas[element.name]
        for name in replicas[0].states:
            own = states.get(name, {})
            if element.part is None:
                replicas[0].states[name].update(own)
            elif graph[name].timing is not None:
                table = table_of(configuration, element.part)
                find = _find_replica(graph[name], regions[element.part], table)
                divided = divide_state(own[()], len(replicas), find)
                for replica, part in zip(replicas, divided, strict=True):
                    replica.states[name][()] = part
            elif not graph[name].state_key:
                for channel, replica in enumerate(replicas):
                    fresh = own[()] if channel == 0 else kernel_of(graph[name]).open()
                    replica.states[name][()] = fresh
            elif not set(regions[element.part].key) <= set(graph[name].state_key):
                # Only a stateless operator may be in a region of another key.
                replicas[0].states[name].update(own)
            else:
                key = regions[element.part].key
                table = table_of(configuration, element.part)
                part_of = key_projection(graph[name].state_key, key)
                for of_key, state in own.items():
                    channel = table[bucket_of(part_of(of_key))]
                    replicas[channel].states[name][of_key] = state
    _go_on_with_groups(states, network, graph, regions)


def _find_replica(
    op: Op, region: Region, table: Sequence[int]
) -> Callable[[Any], int] | None:
    """Return the function from an operator's key to its replica, if it has keys."""
    if not op.keyed_by:
        return None
    part_of = key_projection(op.keyed_by, region.key)
    return lambda key: table[bucket_of(part_of(key))]


def _go_on_with_groups(
    states: AllStates, network: Network, graph: Graph, regions: Mapping[str, Region]
) -> None:
    """Let regions with blocks continue with their incomplete group."""
    for region in regions.values():
        router = network.router_of(region) if region.period > 1 else None
        if isinstance(router, GroupRouter):
            router.go_on(count_begun_items(graph, region, states))


def count_begun_items(graph: Graph, region: Region, states: AllStates) -> int:
    """Return how many items of the current group have entered a region with blocks.

    The items waiting in front of its blocks tell: within a group no two places leave
    the same behind.
    """
    kinds = [graph[name].kind for name in region.operators]
    blocks = [kind for kind in kinds if isinstance(kind, Block)]
    names = [n for n in region.operators if isinstance(graph[n].kind, Block)]
    held = [len(states[name][()]) for name in names]
    waiting = [0] * len(blocks)
    for entered in range(region.period):
        if waiting == held:
            return entered
        coming = 1
        for number, block in enumerate(blocks):
            fired, waiting[number] = divmod(waiting[number] + coming, block.pop)
            coming = fired * block.push
    msg = f"the blocks of {region.name} hold {held}; no group leaves that behind"
    raise EngineError(msg)
