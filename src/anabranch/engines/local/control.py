"""The controllers' view of a program on the local engine, and its controls.

Both controllers get the same model (`anabranch.metrics.pipeline`), with the rate at
each input as counted by `counters`. A change is judged by the progress of the sources
that lead to an operator: the operator's share of their items does not depend on one
more thread, whereas few items pass behind a filter, which would show a change late.

For the latency goal, replicas measure the cost of items in wall-clock time, including
all waiting. The profiler measures a region's share of a thread that it shares with
others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from time import perf_counter

from anabranch.engines.local.counters import (
    Counters,
    count_items,
    fill_elements,
    find_stream_rates,
    find_weights,
    list_inputs,
    list_watched_threads,
    shapes_of,
)
from anabranch.engines.local.flow import LocalFlow, Switch
from anabranch.engines.local.layout import Configuration, why_not_suspended
from anabranch.engines.local.network import Network
from anabranch.errors import EngineError
from anabranch.graph.graph import Input, ancestors
from anabranch.graph.kind import SourceKind
from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import (
    LOOKS,
    Observed,
    Rates,
    StepArrivals,
    ThreadSamples,
    pipeline_of,
)
from anabranch.metrics.pipeline import Pipeline
from anabranch.plan.plan import Arrangement
from anabranch.runtime.profile import RATE_HZ, Sampler, cpu_clock
from anabranch.runtime.split import BUCKETS
from anabranch.runtime.thread import RunningThread


def effect_of(switch: Switch) -> str:
    """Return the effect of a change: the pause, and the locks it added or removed."""
    if switch.woken or switch.moved:
        parts = [
            f"{abs(more)} of {name} {'resumed' if more > 0 else 'suspended'}"
            for name, more in switch.woken.items()
        ]
        parts += [
            f"{count} of {BUCKETS} buckets of {name} moved"
            for name, count in switch.moved.items()
        ]
        return f"{', '.join(parts)}; items kept flowing"
    text = f"all items paused for {switch.pause_s * 1000:.2f} ms"
    before, after = switch.before.threads.locks, switch.after.threads.locks
    for names, turned in ((after - before, "on"), (before - after, "off")):
        if names:
            text += f"; locks turned {turned}: {', '.join(sorted(names))}"
    return text


PERIOD_S = 1.0  # how long the program is observed for one answer
SLICES = 20
GLANCE_S = 0.2  # enough to see that threads block
GLANCES = 4
SETTLING_S = 0.25  # after a change, until threads have found their batch sizes


class LocalActuator:
    """Observes and rearranges one program; used by one thread, its controller."""

    def __init__(self, run: RunningThread, flow: LocalFlow) -> None:
        self._run = run
        self._flow = flow
        self._graph = flow.graph
        self._settling_s = SETTLING_S
        self.cores = len(os.sched_getaffinity(0))

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @cached_property
    def places(self) -> frozenset[str]:
        kept = self._flow.plan.undivided
        return frozenset(
            op.name
            for op in self._graph
            if not isinstance(op.kind, SourceKind) and op.name not in kept
        )

    @cached_property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        return {region.name: region.operators for region in self._flow.plan.regions}

    @cached_property
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        return {op.name: tuple(o.operator for o in op.inputs) for op in self._graph}

    @property
    def arrangement(self) -> Arrangement:
        return arrangement_of(self._flow.configuration)

    def arrange(self, arrangement: Arrangement) -> str | None:
        try:
            switch = self._flow.switch(rearrange(self._flow.configuration, arrangement))
        except EngineError:  # the program has ended or failed meanwhile
            return None
        self._settling_s = SETTLING_S
        return effect_of(switch)

    def profile(self) -> Pipeline | None:
        before = count_items(self._flow.network)
        samples = self.samples(PERIOD_S)
        return None if samples is None else self._describe(before, samples)

    def _describe(
        self, before: Counters, samples: tuple[ThreadSamples, ...]
    ) -> Pipeline:
        """Return the model of the program since an earlier reading of its counters."""
        done = count_items(self._flow.network).since(before)
        rates = find_stream_rates(self._flow, done)
        # A thread continues through the elements behind locks, so the profiler knows
        # best which operators lead to one; elements know the rates.
        known = [
            one
            for one in list_inputs(self._flow, done, rates)
            if one.in_per_s > 0 or one.operator == one.thread
        ]
        sources = {source.op.name for source in self._flow.sources}
        per_s = sum(one.in_per_s for one in known if one.operator in sources)
        return pipeline_of(
            samples, known, shapes=shapes_of(self._flow), source_per_s=per_s
        )

    def samples(
        self, period_s: float, rate_hz: float | None = None
    ) -> tuple[ThreadSamples, ...] | None:
        """Sample the threads for `period_s`."""
        sampler = Sampler(list_watched_threads(self._flow), rate_hz)
        sampler.start()
        over = self._ends_within(period_s)
        found = sampler.stop()
        return None if over else found

    def glance(self) -> tuple[Rates, Pipeline] | None:
        before = count_items(self._flow.network)
        sampler = Sampler(list_watched_threads(self._flow), RATE_HZ)
        sampler.start()
        rates = self._rates(GLANCE_S, GLANCES)
        samples = sampler.stop()
        return None if rates is None else (rates, self._describe(before, samples))

    def rates(self) -> Rates | None:
        if self._ends_within(self._settling_s):
            return None
        self._settling_s = 0.0
        return self._rates(PERIOD_S, SLICES)

    def _rates(self, period_s: float, slices: int) -> Rates | None:
        series: dict[str, list[float]] = {s.op.name: [] for s in self._flow.sources}
        before, before_s = self._read(), perf_counter()
        for _ in range(slices):
            if self._ends_within(period_s / slices):
                return None
            now, now_s = self._read(), perf_counter()
            for name, rates in series.items():
                rates.append((now[name] - before[name]) / (now_s - before_s))
            before, before_s = now, now_s
        return Rates(
            {
                op.name: tuple(
                    map(sum, zip(*(series[s] for s in leading), strict=True))
                )
                for op in self._graph
                for leading in (self._leading[op.name],)
            }
        )

    @cached_property
    def _leading(self) -> Mapping[str, tuple[str, ...]]:
        """The sources that lead to each operator; a source leads to itself."""
        sources = {op.name for op in self._graph.sources}
        return {
            op.name: tuple(sources & {op.name, *ancestors(self._graph, op.name)})
            for op in self._graph
        }

    def _read(self) -> dict[str, int]:
        return {source.op.name: source.read for source in self._flow.sources}

    def _ends_within(self, seconds: float) -> bool:
        """Wait; tell whether the program ended meanwhile, well or not."""
        return self._run.wait_for_end(seconds) or self._flow.ended


def arrangement_of(configuration: Configuration) -> Arrangement:
    """Return a configuration as the control layer sees it."""
    made = Arrangement(frozenset(port.operator for port in configuration.ports))
    for region, degree in configuration.degrees.items():
        made = made.with_degree(region, degree)
    return made


def rearrange(before: Configuration, arrangement: Arrangement) -> Configuration:
    """Return a configuration changed as the control layer requests.

    >>> rearrange(Configuration(), Arrangement(frozenset({"a"}))).ports
    frozenset({Input(operator='a', port=0)})
    """
    kept = {port for port in before.ports if port.operator in arrangement.ports}
    new = arrangement.ports - {port.operator for port in kept}
    made = replace(before, ports=frozenset(kept | {Input(name) for name in new}))
    for region in {*made.degrees, *dict(arrangement.degrees)}:
        degree = arrangement.degree(region)
        if made.degrees.get(region, 1) != degree:
            made = made.with_degree(region, degree)
    return made


LITTLE = 0.3  # a thread on a core for less of its time says nothing about the rest


class LocalLatencyActuator:
    """Observes one program and changes its replicas; used by one thread."""

    epoch_items: int | None = None

    def __init__(
        self,
        run: RunningThread,
        flow: LocalFlow,
        latencies: Collection[Latencies],
        find_shares: Callable[[str], Mapping[int, float]],
    ) -> None:
        self._run = run
        self._flow = flow
        self._latencies = latencies
        self._find_shares = find_shares
        self.cores = len(os.sched_getaffinity(0))

    @property
    def now_s(self) -> float:
        return self._run.elapsed_s

    @property
    def degrees(self) -> Mapping[str, int]:
        configured = self._flow.configuration.degrees
        return {name: configured.get(name, 1) for name in self._regions}

    @cached_property
    def others(self) -> int:
        """Elements of the plan that are not replicated."""
        inside = {name for names in self._regions.values() for name in names}
        elements = self._flow.plan.elements
        return sum(not inside.issuperset(one.operators) for one in elements)

    @cached_property
    def _regions(self) -> Mapping[str, tuple[str, ...]]:
        return {region.name: region.operators for region in self._flow.plan.regions}

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str | None:
        wanted = self._flow.configuration
        for region, degree in degrees.items():
            if why_not_suspended(self._flow.graph, self._flow.regions[region]) is None:
                wanted = wanted.with_active(region, degree)
            else:
                wanted = wanted.with_degree(region, degree)
        try:
            switch = self._flow.switch(wanted)
        except EngineError:  # the program has ended or failed meanwhile
            return None
        return effect_of(switch)

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        network = self._flow.network
        before, seen_before = count_items(network), sojourns(self._latencies)
        cpu_before_s = self._cpu_s(network)
        sampler = None
        # A region may share a thread with others. On one core there is no room for
        # another thread in any case, and none for a profiler.
        if self.cores > 1 and 1 in self.degrees.values():
            sampler = Sampler(list_watched_threads(self._flow))
            sampler.start()
        step = StepArrivals(most_waiting)
        over = self._look_until_over(step, seconds)
        samples = () if sampler is None else sampler.stop()
        if over:
            return None
        done = count_items(network).since(before)
        used_s = self._cpu_s(network) - cpu_before_s
        return Observed(
            done.at_s,
            step.rates(),
            backlog=self._count_waiting(),
            sojourns=sojourns(self._latencies).since(seen_before),
            pipeline=self._describe(done, samples, used_s),
            closed=not any(source.is_live for source in self._flow.sources),
            alarmed=step.alarmed,
        )

    def _describe(
        self, done: Counters, samples: Collection[ThreadSamples], used_s: float
    ) -> Pipeline:
        """Return the model of the program for one step, in which it used `used_s` of
        CPU.
        """
        busy_s = sum(work.busy_s for works in done.works.values() for work in works)
        on_core = 1.0
        if busy_s > LITTLE * done.at_s:
            on_core = min(1.0, max(0.0, used_s / busy_s))
        rates = find_stream_rates(self._flow, done)
        inputs = tuple(list_inputs(self._flow, done, rates))
        filled = fill_elements(inputs, done, find_weights(samples), on_core)
        sources = {source.op.name for source in self._flow.sources}
        read = sum(one.in_per_s for one in inputs if one.operator in sources)
        shapes = {
            name: replace(shape, shares=self._find_shares(name))
            if shape.keyed
            else shape
            for name, shape in shapes_of(self._flow).items()
        }
        return Pipeline(
            tuple(filled),
            shapes,
            source_per_s=max(read, 1 / max(done.at_s, 1e-9)),
        )

    def _cpu_s(self, network: Network) -> float:
        """Return the CPU time of the threads, including time ready to run."""
        sources = [source.thread for source in self._flow.sources]
        clocks = map(cpu_clock, (*sources, *network.threads.values()))
        return sum(one.cpu_s + one.denied_s for one in clocks if one is not None)

    def _look_until_over(self, step: StepArrivals, seconds: float) -> bool:
        """Wait until a step is over; tell whether the program has ended meanwhile."""
        while step.look(perf_counter(), self._count_arrivals(), self._count_waiting()):
            if self._run.wait_for_end(seconds / LOOKS) or self._flow.ended:
                return True
        return False

    def _count_waiting(self) -> int:
        return (
            self._count_arrivals() - self._read() + self._flow.network.count_waiting()
        )

    def _count_arrivals(self) -> int:
        return sum(source.arrivals for source in self._flow.sources)

    def _read(self) -> int:
        return sum(source.read for source in self._flow.sources)
