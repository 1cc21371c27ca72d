"""What the controllers see of a program on the local engine, and change.

A fused operator has no counter of its own, which would cost something for each item. So
the throughput at an operator follows from the sources that lead to it: what they read in a
second, of which the operator gets a share that one more thread does not change.

For the latency goal, replicas tell how long items take by wall-clock time: that is their
cost as things are, with all waiting inside. The profiler tells what a region takes of a
thread that it shares with others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

from anabranch.engines.local.flow import LocalFlow, Switch
from anabranch.engines.local.layout import (
    Configuration,
    LocalLayout,
    why_not_suspended,
)
from anabranch.engines.local.network import Network
from anabranch.engines.local.watching import list_watched_threads
from anabranch.engines.thread import RunningThread
from anabranch.errors import EngineError
from anabranch.graph.graph import Input, ancestors
from anabranch.graph.kind import SourceKind
from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import (
    Observed,
    Profile,
    RegionLoad,
    ThreadSamples,
    profile_of,
)
from anabranch.metrics.rates import LOOKS, Rates, StepArrivals
from anabranch.plan.plan import Arrangement
from anabranch.runtime.profile import Sampler, cpu_clock


def effect_of(switch: Switch) -> str:
    """Say what a change brought: the pause, and the locks that it turned on or off."""
    if switch.woken:
        parts = [
            f"{abs(more)} of {name} {'woken' if more > 0 else 'suspended'}"
            for name, more in switch.woken.items()
        ]
        return f"{', '.join(parts)}; the flow went on"
    text = f"the flow stood still for {switch.pause_s * 1000:.2f} ms"
    before, after = switch.before.threads.locks, switch.after.threads.locks
    for names, turned in ((after - before, "on"), (before - after, "off")):
        if names:
            text += f"; locks turned {turned}: {', '.join(sorted(names))}"
    return text


PERIOD_S = 1.0  # how long the program is watched for one answer
SLICES = 20
GLANCE_S = 0.2  # enough to see that threads wait for the world
GLANCES = 4
SETTLING_S = 0.25  # after a change, until threads have found how much to take at a time


class LocalActuator:
    """Watches and rearranges one program; used by one thread, its controller."""

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
        except EngineError:  # the program has ended, or failed, meanwhile
            return None
        self._settling_s = SETTLING_S
        return effect_of(switch)

    def profile(self) -> Profile | None:
        samples = self.samples(PERIOD_S)
        return None if samples is None else profile_of(samples)

    def samples(self, period_s: float) -> tuple[ThreadSamples, ...] | None:
        """Sample the threads for so many seconds."""
        sampler = Sampler(list_watched_threads(self._flow))
        sampler.start()
        over = self._ends_within(period_s)
        found = sampler.stop()
        return None if over else found

    def glance(self) -> tuple[Rates, Profile] | None:
        sampler = Sampler(list_watched_threads(self._flow))
        sampler.start()
        rates = self._rates(GLANCE_S, GLANCES)
        samples = sampler.stop()
        return None if rates is None else (rates, profile_of(samples))

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
        """Wait; tell whether the program came to its end meanwhile, good or bad."""
        return self._run.wait_for_end(seconds) or self._flow.ended


def arrangement_of(configuration: Configuration) -> Arrangement:
    """Return a configuration as the control layer sees it."""
    made = Arrangement(frozenset(port.operator for port in configuration.ports))
    for region, degree in configuration.degrees.items():
        made = made.with_degree(region, degree)
    return made


def rearrange(before: Configuration, arrangement: Arrangement) -> Configuration:
    """Return a configuration changed as the control layer wants it.

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


@dataclass(frozen=True)
class Work:
    """What a replica has done."""

    items: int = 0
    busy_s: float = 0.0


class LocalLatencyActuator:
    """Watches one program and changes its replicas; used by one thread."""

    epoch_items: int | None = None

    def __init__(
        self, run: RunningThread, flow: LocalFlow, latencies: Collection[Latencies]
    ) -> None:
        self._run = run
        self._flow = flow
        self._latencies = latencies
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
            if why_not_suspended(self._flow.regions[region]) is None:
                wanted = wanted.with_active(region, degree)
            else:
                wanted = wanted.with_degree(region, degree)
        try:
            switch = self._flow.switch(wanted)
        except EngineError:  # the program has ended, or failed, meanwhile
            return None
        return effect_of(switch)

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        network = self._flow.network
        before, seen_before = _work(network), sojourns(self._latencies)
        read_before, started_s = self._read(), perf_counter()
        cpu_before_s = self._cpu_s(network)
        sampler = None
        # A region may share a thread with others. On one core there is no room for another
        # thread whatever it does, and none for a profiler.
        if self.cores > 1 and 1 in self.degrees.values():
            sampler = Sampler(list_watched_threads(self._flow))
            sampler.start()
        step = StepArrivals(most_waiting)
        over = self._look_until_over(step, seconds)
        samples = () if sampler is None else sampler.stop()
        if over:
            return None
        took_s = perf_counter() - started_s
        read = max(1, self._read() - read_before)
        done = {
            name: [_less(a, b) for a, b in zip(ones, before[name], strict=True)]
            for name, ones in _work(network).items()
        }
        on_core = {load.thread: load for load in profile_of(samples).threads}
        regions: dict[str, RegionLoad] = {}
        inside_s = 0.0
        for region, operators in self._regions.items():
            works = _works(network.layout, region, operators, done)
            load = _load(
                works,
                operators,
                on_core,
                took_s,
                self._sharing(network.layout, operators),
                active=self.degrees[region],
            )
            per_item = load.items_per_s * took_s / read
            regions[region] = replace(
                load,
                per_item=per_item,
                operators=operators,
                keyed=bool(self._flow.regions[region].key),
            )
            inside_s += load.service_s * load.items_per_s * took_s
        all_s = sum(work.busy_s for works in done.values() for work in works)
        others_s = max(0.0, all_s - inside_s)
        stages = self._stages(network.layout, done, regions, read)
        used_s = self._cpu_s(network) - cpu_before_s
        return Observed(
            took_s,
            step.rates(),
            backlog=self._count_waiting(),
            sojourns=sojourns(self._latencies).since(seen_before),
            regions=regions,
            others_busy=others_s / took_s,
            others_s=others_s / read,
            closed=not any(source.is_live for source in self._flow.sources),
            alarmed=step.alarmed,
            stages=stages,
            on_core=min(1.0, max(0.0, used_s / all_s))
            if all_s > LITTLE * took_s
            else 1.0,
        )

    def _cpu_s(self, network: Network) -> float:
        """Return how long the threads have been on a core, or ready for one."""
        sources = [source.thread for source in self._flow.sources]
        clocks = map(cpu_clock, (*sources, *network.threads.values()))
        return sum(one.cpu_s + one.denied_s for one in clocks if one is not None)

    def _stages(
        self,
        layout: LocalLayout,
        done: Mapping[str, list[Work]],
        regions: Mapping[str, RegionLoad],
        read: int,
    ) -> dict[str, float]:
        """Return the cost of an item on each thread that is not a replica's."""
        found: dict[str, float] = {}
        for name, element in layout.elements.items():
            if element.part is not None:
                continue
            inside = [
                load
                for load in regions.values()
                if load.degree == 1 and load.operators[0] in element.operators
            ]
            within = {operator for load in inside for operator in load.operators}
            own = [one for one in element.operators if one not in within]
            own = [one for one in own if one not in self._sources] or own
            each_s = sum(work.busy_s for work in done[name]) / read
            each_s -= sum(load.service_s * load.per_item for load in inside)
            if own:
                found[" and ".join(own)] = max(0.0, each_s)
        return found

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(op.name for op in self._flow.graph.sources)

    def _sharing(self, layout: LocalLayout, operators: tuple[str, ...]) -> int:
        """Return how many regions share the thread of some operators."""
        own = layout.element_of(operators[0]).name
        return sum(
            layout.element_of(names[0]).name == own for names in self._regions.values()
        )

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


def _works(
    layout: LocalLayout,
    region: str,
    operators: tuple[str, ...],
    done: Mapping[str, list[Work]],
) -> dict[str, list[Work]]:
    """Return the work done by the elements of a region, or the one it is part of."""
    own = [e.name for e in layout.elements.values() if e.part == region]
    return {name: done[name] for name in own or [layout.element_of(operators[0]).name]}


def _work(network: Network) -> dict[str, list[Work]]:
    return {
        name: [Work(replica.received, replica.busy_s) for replica in replicas]
        for name, replicas in network.replicas.items()
    }


def _less(after: Work, before: Work) -> Work:
    return Work(after.items - before.items, after.busy_s - before.busy_s)


def _load(
    works: Mapping[str, list[Work]],
    operators: tuple[str, ...],
    on_core: Mapping[str, object],
    took_s: float,
    sharing: int,
    *,
    active: int,
) -> RegionLoad:
    """Return the load of a region from what its elements have done.

    Of its replicas so many are `active`; others may just have been suspended.
    """
    first = next(iter(works))
    items = sum(work.items for work in works[first])
    there = len(works[first])
    degree = min(active, there)
    channels = [
        sum(ones[channel].busy_s for ones in works.values()) for channel in range(there)
    ]
    busy_s = sum(channels)
    if degree == 1:
        busy_s *= _part(operators, on_core.get(first), busy_s / took_s, sharing)
    share = max(channels) / sum(channels) if sum(channels) > 0 else 1 / degree
    return RegionLoad(degree, busy_s / max(1, items), items / took_s, share)


def _part(operators: tuple[str, ...], load: object, busy: float, sharing: int) -> float:
    """Return which part of a thread's work is that of some operators."""
    own: Mapping[str, float] = getattr(load, "own", {})
    total = sum(own.values())
    if total < LITTLE * busy or total <= 0:  # it waits for something else
        return 1 / sharing
    return sum(own.get(name, 0.0) for name in operators) / total
