"""The local engine: a program that runs in threads of this process."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from functools import partial
from typing import Any

from anabranch.engines.local.control import (
    LocalActuator,
    LocalLatencyActuator,
    effect_of,
)
from anabranch.engines.local.counters import PLACES
from anabranch.engines.local.delivery import deliverer, finish
from anabranch.engines.local.flow import LocalFlow
from anabranch.engines.local.interpreter_settings import GarbageWatch
from anabranch.engines.local.key_watch import KeyWatch
from anabranch.engines.local.layout import Configuration
from anabranch.engines.sinks import Sinks
from anabranch.graph.graph import Graph, Input, Op
from anabranch.metrics.job_metrics import Adaptation, Metrics
from anabranch.metrics.latency import (
    SinkLatencies,
    count_by_ms,
    recent_summary,
    summary,
)
from anabranch.operators.iterate import Iterate
from anabranch.plan.plan import Plan
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.body import BodyRunner, feed_body
from anabranch.runtime.codegen import find_punctuated_operators
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import Failure, stop
from anabranch.runtime.memory_reserve import release_for
from anabranch.runtime.thread import Options, RunningThread, operators_of
from anabranch.runtime.verify.verifier import Verifier, find_verdicts

WORTH_S = 0.02  # duration of a round above which several replicas are tried


def run_body(
    plan: Plan, options: Options, graph: Graph, items: list[Any], degree: int
) -> list[Any]:
    """Run a body on the items of a window, with `degree` replicas."""
    outputs: list[Any] = []
    # Of the thread that runs the operator, with what watches its calls.
    ambient = Ambient(limit=options.ambient.limit)
    told = Options(degree=degree, verify=options.verify, ambient=ambient)
    LocalEngine().start(feed_body(graph, items, outputs), plan, told).wait()
    return outputs


def run_bodies_in_parallel(graph: Graph, plan: Plan, options: Options) -> Graph:
    """Return a program whose rounds run as planned."""
    runners = {
        body.operator: BodyRunner(
            partial(run_body, body.plan, options),
            options.degree or os.cpu_count() or 1,
            WORTH_S,
        )
        for body in plan.bodies
    }
    if not runners:
        return graph
    ops = [
        replace(op, kind=replace(op.kind, run=runners[op.name]))
        if isinstance(op.kind, Iterate) and op.name in runners
        else op
        for op in graph
    ]
    return Graph(tuple(ops))


class LocalRun(RunningThread):
    """A program on the local engine.

    `insert_port`, `remove_port`, `set_degree` and `set_table` change it while it runs;
    each returns what was done and how long the flow paused for it.
    """

    def __init__(
        self, graph: Graph, plan: Plan, options: Options, configuration: Configuration
    ) -> None:
        graph = run_bodies_in_parallel(graph, plan, options)
        super().__init__("anabranch-local", graph, options)
        self._users_on_error = options.on_error
        self._error_lock = threading.Lock()
        self._on_error = stop if options.on_error is stop else self._one_at_a_time
        self._sinks = Sinks(graph, self._on_error)
        self._marked = find_punctuated_operators(graph)
        self._latencies = {op.name: SinkLatencies() for op in graph.sinks}
        self._changed = threading.Condition()
        self._garbage = GarbageWatch(self._note)
        verdicts = find_verdicts(graph, plan)
        self._verifier = Verifier(graph, verdicts, options.verify)
        self._verifier.watch()
        self.flow = LocalFlow(
            graph,
            plan,
            configuration,
            deliver=self._deliver,
            on_error=self._on_error,
            news=self._tell,
            ambient=options.ambient,
            verifier=self._verifier,
        )
        self._balance = KeyWatch(self.flow, self.set_table, self._note)

    @property
    def configuration(self) -> Configuration:
        """The current threaded ports and degrees."""
        return self.flow.configuration

    def actuator(self) -> LocalActuator:
        """Return the throughput controller's view and controls."""
        self._garbage.start()
        return LocalActuator(self, self.flow)

    def latency_actuator(self) -> LocalLatencyActuator:
        """Return the latency controller's view and controls."""
        latencies = [one.from_birth for one in self._latencies.values()]
        shares = self._balance.find_shares
        return LocalLatencyActuator(self, self.flow, latencies, shares)

    def begin(self) -> None:
        self.flow.start()  # from here on it can be changed
        self._balance.start()
        super().begin()

    def _ask_to_stop(self) -> None:
        super()._ask_to_stop()
        self.flow.stop_reading()
        self._tell()

    def _busy_operators(self) -> list[str]:
        return operators_of(self._threads, PLACES)

    @property
    def _threads(self) -> list[threading.Thread]:
        return [self._thread, *self._sinks.threads, *self.flow.threads]

    def _abandon(self) -> None:
        self._balance.stop()
        self.flow.abandon()
        self._garbage.stop()
        self._sinks.abandon(publish=self._graph.live)

    def _run(self) -> bool:
        try:
            return self._run_through()
        finally:
            self._balance.stop()
            self._garbage.stop()

    def _run_through(self) -> bool:
        try:
            self._sinks.flush_by_itself()
            with self._changed:
                self._changed.wait_for(self._is_over)
            states = self.flow.drain()
            self._verifier.check()
            complete = self.flow.ended and finish(
                self._graph, states, self._deliver, self._on_error, self._goes_on
            )
            self._verifier.check()
            self._sinks.flush_all()
        except BaseException as error:
            release_for(error)
            self._sinks.fail()
            raise
        self._sinks.close(publish=complete or self._graph.live)
        return complete

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()

    def _is_over(self) -> bool:
        failed = self.flow.failure is not None or self.flow.broken
        return failed or self._stopping.is_set() or self.flow.ended

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _one_at_a_time(self, failure: Failure) -> None:
        with self._error_lock:
            self._sinks.refuse_if_abandoned()
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
    ) -> Adaptation:
        """Insert a threaded port at an input of an operator."""
        place = self._place(operator, port)
        what = f"insert a threaded port at {operator}[{port}]"
        return self._change(self.configuration.with_port(place), what, why)

    def remove_port(
        self, operator: str, port: int = 0, why: str = "asked for"
    ) -> Adaptation:
        """Remove a threaded port."""
        place = self._place(operator, port)
        what = f"remove the threaded port at {operator}[{port}]"
        return self._change(self.configuration.without_port(place), what, why)

    def set_degree(
        self, region: str, degree: int, why: str = "asked for"
    ) -> Adaptation:
        """Set the number of replicas of a region."""
        if region not in self.flow.regions or degree < 1:
            known = ", ".join(self.flow.regions) or "none"
            msg = (
                f"a region must have at least one replica; got {degree} for {region!r}; "
                f"the regions are: {known}"
            )
            raise ValueError(msg)
        what = f"{region} has {degree} replicas"
        return self._change(self.configuration.with_degree(region, degree), what, why)

    def set_table(
        self,
        region: str,
        table: tuple[int, ...],
        what: str | None = None,
        why: str = "asked for",
        effect: str = "",
    ) -> Adaptation:
        """Assign buckets of a keyed region to other replicas."""
        what = what or f"{region} has another table of buckets"
        changed = self.configuration.with_table(region, table)
        return self._change(changed, what, why, effect)

    def _place(self, operator: str, port: int) -> Input:
        if operator in self.flow.plan.undivided:
            msg = (
                f"nothing may come between operators that share something; got a "
                f"threaded port at {operator}[{port}]; leave it out"
            )
            raise ValueError(msg)
        if operator in self._graph and port < len(self._graph[operator].inputs):
            return Input(operator, port)
        msg = f"a threaded port must be at an operator's input; got {operator}[{port}]"
        raise ValueError(msg)

    def _change(
        self, configuration: Configuration, what: str, why: str, expected: str = ""
    ) -> Adaptation:
        effects = (expected, effect_of(self.flow.switch(configuration)))
        return self._note(what, why, "; ".join(filter(None, effects)))

    def metrics(self) -> Metrics:
        read = {source.op.name: source.read for source in self.flow.sources}
        elapsed_s = self.elapsed_s
        ports = (f"{p.operator}[{p.port}]" for p in self.configuration.ports)
        from_birth = [one.from_birth for one in self._latencies.values()]
        from_reading = [one.from_reading for one in self._latencies.values()]
        return Metrics(
            "local",
            self.status,
            elapsed_s,
            read=read,
            delivered=dict(self._sinks.delivered),
            items_per_s=sum(read.values()) / max(elapsed_s, 1e-9),
            latency=summary(from_birth),
            latency_from_reading=summary(from_reading),
            recent_latency=recent_summary(from_birth),
            recent_latency_from_reading=recent_summary(from_reading),
            latency_counts=count_by_ms(from_birth),
            elements=self.flow.network.counters(),
            ports=tuple(sorted(ports)),
            degrees=dict(self.configuration.degrees),
            backlog=self.flow.count_backlog(),
            in_columns=self.flow.share_in_columns(),
            load=self.flow.network.measure_loads(),
            hot_keys=self._balance.find_hot_keys(),
        )


class LocalEngine:
    """Runs programs in this process, with a given initial configuration if any."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = configuration

    def start(self, graph: Graph, plan: Plan, options: Options) -> LocalRun:
        configuration = self._configuration
        if configuration is None:
            # Threads that hold the interpreter lock gain nothing from replicas; the
            # control layer finds out whether user code releases it.
            degree = options.degree or 1
            degrees = dict.fromkeys((region.name for region in plan.regions), degree)
            configuration = Configuration(
                degrees=degrees, fission=options.degree or os.cpu_count() or 1
            )
        run = LocalRun(graph, plan, options, configuration)
        run.begin()
        return run
