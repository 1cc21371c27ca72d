"""The flow of a program: sources, the network they feed, and how it is exchanged.

Each source has a gate. To change something, the next network is built while the flow
goes on; then all gates are closed, what is under way goes through, the states move
over, and the gates open to the new network. The flow stands still only in between.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

from anabranch.engines.local.build import Build
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.flusher import Flusher
from anabranch.engines.local.gate import Gate
from anabranch.engines.local.layout import Layout, lay_out
from anabranch.engines.local.lock_watch import LockWatch
from anabranch.engines.local.network import Network
from anabranch.engines.local.source import SourceThread
from anabranch.engines.local.state import AllStates, first_states, gathered, hand_over
from anabranch.engines.local.turns import turns_of
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph, Op
from anabranch.plan.plan import Plan
from anabranch.runtime.batch import Batch
from anabranch.runtime.compiled.program import choice_of
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import OnError, stop
from anabranch.runtime.ports import AbortedError


class Switch(NamedTuple):
    """What a change did: how long the flow stood still, and the layouts before and after."""

    pause_s: float
    before: Layout
    after: Layout


class Flow:
    """Everything that moves; `news` is told when a source has ended or something failed."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        configuration: Configuration,
        *,
        deliver: Callable[[Op], Deliver],
        on_error: OnError,
        news: Callable[[], None],
    ) -> None:
        self.graph = graph
        self.plan = plan
        self.regions = {region.name: region for region in plan.regions}
        self.failure: BaseException | None = None
        self.configuration = configuration
        self._deliver = deliver
        self._on_error = on_error
        self._choice = choice_of(plan, configuration.fission)
        self._news = news
        self._changing = threading.Lock()  # one change at a time, none after the end
        self._failing = threading.Lock()
        self._drained = False
        self._flusher = Flusher(self.fail)
        self._lock_watch = LockWatch()
        self.network = self._built(configuration)
        self._hand_over(first_states(graph), self.network)
        self._turns = turns_of(graph)
        gates = [Gate() for _ in graph.sources]
        if self._turns.by_arrival:
            gates = [gates[0]] * len(gates)
        self.sources = [
            SourceThread(
                op,
                index=index,
                turns=self._turns,
                gate=gate,
                on_error=on_error,
                into=self,
                flusher=self._flusher,
            )
            for index, (op, gate) in enumerate(zip(graph.sources, gates, strict=True))
        ]

    def start(self) -> None:
        """Let it flow."""
        self.network.start()
        self._flusher.start()
        for source in self.sources:
            source.start()
        self._attend()

    @property
    def ended(self) -> bool:
        """Whether all sources have come to their end."""
        return all(source.over for source in self.sources)

    def feed(self, source: str, batch: Batch) -> None:
        """Send a batch of a source in; it is passing its gate."""
        self.network.feed(source, batch)
        if self._turns.by_arrival:  # the others hold nothing up that came before theirs
            for other in self.sources:
                if other.op.name != source and not other.over:
                    self.network.feed(other.op.name, Batch([], [[], []], batch.mark))

    def await_room(self, source: str) -> None:
        """Wait until there is room for the next batch; its gate must be free.

        Room may depend on another source, which may have been held up at its gate.
        """
        self.network.await_room(source)

    def limit(self, source: str) -> int:
        """Return how many items of a source should come at a time."""
        return self.network.limit(source)

    def end(self, source: SourceThread) -> None:
        """Close the stream of a source that has been read to its end."""
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
        for source in self.sources:
            source.stopping = True
        self.network.abort()
        self._news()

    def switch(self, configuration: Configuration) -> Switch:
        """Go on under another configuration."""
        with self._changing:
            if self._drained:
                msg = "only a running program can be changed; this one has ended"
                raise EngineError(msg)
            before = self.network
            after = self._built(configuration)
            started_s = perf_counter()
            with self._suspended():
                self._let_through(before)
                self._hand_over(gathered(before), after, configuration)
                after.resume(before.left_over())
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

    def drain(self) -> AllStates:
        """Let everything that is under way come to its end, and return the states."""
        with self._changing:
            self._drained = True
            self._flusher.stop()
            self._lock_watch.stop()
            with self._suspended():
                for source in self.sources:
                    source.stopping = True
                if self.failure is None:
                    self._let_through(self.network)
                self.network.join()
            if self.failure is not None:
                raise self.failure
            return gathered(self.network)

    def _attend(self) -> None:
        self._lock_watch.attend(len(self.sources) + len(self.network.threads))

    def _let_through(self, network: Network) -> None:
        """Cut the streams of all sources off, and wait until a network is at rest.

        A source may be ahead of another that it meets with; what waits for the other
        is left over.
        """
        network.lift_bounds()
        try:
            for source in self.sources:
                if not source.over:
                    network.close(source.op.name, final=False)
        except AbortedError:
            pass
        except BaseException as error:  # noqa: BLE001 - kept for whoever waits
            self.fail(error)
        network.join()

    @contextlib.contextmanager
    def _suspended(self) -> Iterator[None]:
        for source in self.sources:
            source.gate.close()
        try:
            yield
        finally:
            for source in self.sources:
                source.gate.open()

    def _built(self, configuration: Configuration) -> Network:
        layout = lay_out(
            self.graph,
            self.plan,
            configuration,
            resilient=self._on_error is not stop,
        )
        build = Build(
            self.graph,
            self.regions,
            configuration,
            self._deliver,
            self._on_error,
            self._choice,
        )
        return Network(layout, build, self.fail)

    def _hand_over(
        self,
        states: AllStates,
        network: Network,
        configuration: Configuration | None = None,
    ) -> None:
        chosen = configuration or self.configuration
        hand_over(states, network, self.graph, self.regions, chosen)
