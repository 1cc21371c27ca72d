"""A program that runs on the local engine, and what can be changed while it does."""

from __future__ import annotations

import threading
from typing import Any

from anabranch.engines.engine import Change, Options
from anabranch.engines.local.actuator import LocalActuator
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.delivery import deliverer
from anabranch.engines.local.effects import effect_of
from anabranch.engines.local.finish import finish
from anabranch.engines.local.flow import Flow
from anabranch.engines.local.garbage import GarbageWatch
from anabranch.engines.local.latency_actuator import LocalLatencyActuator
from anabranch.engines.sinks import Sinks
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph, Input, Op
from anabranch.metrics.latency import Latencies, counted_ms, summary
from anabranch.plan.plan import Plan
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import Failure, stop
from anabranch.runtime.punctuated import punctuated_operators


class LocalRun(RunningThread):
    """A program on the local engine.

    `insert_port`, `remove_port`, `set_degree` and `set_table` change it while it runs;
    each returns what was done and how long the flow stood still for it.
    """

    def __init__(
        self, graph: Graph, plan: Plan, options: Options, configuration: Configuration
    ) -> None:
        super().__init__("anabranch-local")
        self._graph = graph
        self._users_on_error = options.on_error
        self._error_lock = threading.Lock()
        self._on_error = stop if options.on_error is stop else self._one_at_a_time
        self._sinks = Sinks(graph, self._on_error)
        self._marked = punctuated_operators(graph)
        self._latencies = {op.name: Latencies() for op in graph.sinks}
        self._changed = threading.Condition()
        self._garbage = GarbageWatch(self._note)
        self.flow = Flow(
            graph,
            plan,
            configuration,
            deliver=self._deliver,
            on_error=self._on_error,
            news=self._tell,
        )

    @property
    def configuration(self) -> Configuration:
        """Where the threaded ports are now, and how wide the regions."""
        return self.flow.configuration

    def actuator(self) -> LocalActuator:
        """Return what a controller sees of it, and changes."""
        self._garbage.start()
        return LocalActuator(self, self.flow)

    def latency_actuator(self) -> LocalLatencyActuator:
        """Return what keeps it within a bound sees of it, and changes."""
        return LocalLatencyActuator(self, self.flow, self._latencies.values())

    def begin(self) -> None:
        self.flow.start()  # from here on it can be changed
        super().begin()

    def stop(self) -> None:
        self._stopping.set()
        self._tell()
        self._ended.wait()

    def _run(self) -> None:
        try:
            self._run_through()
        finally:
            self._garbage.stop()

    def _run_through(self) -> None:
        try:
            self._sinks.flush_by_itself()
            with self._changed:
                self._changed.wait_for(self._is_over)
            states = self.flow.drain()
            if self.flow.ended:
                finish(self._graph, states, self._deliver, self._on_error)
            self._sinks.flush_all()
        except BaseException:
            self._sinks.abort()
            raise
        self._sinks.commit()

    def _is_over(self) -> bool:
        failed = self.flow.failure is not None
        return failed or self._stopping.is_set() or self.flow.ended

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _one_at_a_time(self, failure: Failure) -> None:
        with self._error_lock:
            self._users_on_error(failure)

    def _deliver(self, op: Op) -> Deliver:
        return deliverer(
            op,
            self._sinks,
            self._on_error,
            self._latencies[op.name],
            punctuated=not self._marked.isdisjoint(self._graph.producers(op.name)),
        )

    def insert_port(
        self, operator: str, port: int = 0, why: str = "asked for"
    ) -> Change:
        """Put a threaded port at an input of an operator."""
        place = self._place(operator, port)
        what = f"insert a threaded port at {operator}[{port}]"
        return self._change(self.configuration.with_port(place), what, why)

    def remove_port(
        self, operator: str, port: int = 0, why: str = "asked for"
    ) -> Change:
        """Take a threaded port away."""
        place = self._place(operator, port)
        what = f"remove the threaded port at {operator}[{port}]"
        return self._change(self.configuration.without_port(place), what, why)

    def set_degree(self, region: str, degree: int, why: str = "asked for") -> Change:
        """Give a region so many channels."""
        if region not in self.flow.regions or degree < 1:
            known = ", ".join(self.flow.regions) or "none"
            msg = (
                f"a region must have at least one channel; got {degree} for {region!r}; "
                f"the regions are: {known}"
            )
            raise ValueError(msg)
        what = f"{region} has {degree} channels"
        return self._change(self.configuration.with_degree(region, degree), what, why)

    def set_table(
        self, region: str, table: tuple[int, ...], why: str = "asked for"
    ) -> Change:
        """Give buckets of a keyed region to other channels of it."""
        what = f"{region} has another table of buckets"
        return self._change(self.configuration.with_table(region, table), what, why)

    def _place(self, operator: str, port: int) -> Input:
        if operator in self._graph and port < len(self._graph[operator].inputs):
            return Input(operator, port)
        msg = f"a threaded port must be at an operator's input; got {operator}[{port}]"
        raise ValueError(msg)

    def _change(self, configuration: Configuration, what: str, why: str) -> Change:
        return self._note(what, why, effect_of(self.flow.switch(configuration)))

    def _note(self, what: str, why: str, effect: str) -> Change:
        change = Change(self.elapsed_s, what, why, effect)
        self._history.append(change)
        return change

    def metrics(self) -> dict[str, Any]:
        read = {source.op.name: source.read for source in self.flow.sources}
        return {
            **super().metrics(),
            "read": read,
            "delivered": dict(self._sinks.delivered),
            "items_per_s": sum(read.values()) / max(self.elapsed_s, 1e-9),
            "latency": summary(self._latencies.values()),
            "latency_counts": counted_ms(self._latencies.values()),
            "elements": self.flow.network.counters(),
            "ports": sorted(
                f"{p.operator}[{p.port}]" for p in self.configuration.ports
            ),
            "degrees": dict(self.configuration.degrees),
        }
