"""What keeps a program on the local engine within a latency bound sees of it.

How long items take is told by the replicas themselves, by the clock on the wall: it is
what they cost as things are, with all that they wait for inside. What a region takes of
a thread that it shares with others is told by the profiler.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

from anabranch.engines.local.actuator import arrangement_of, effect_of, rearrange
from anabranch.engines.local.flow import LocalFlow
from anabranch.engines.local.layout import LocalLayout
from anabranch.engines.local.network import Network
from anabranch.engines.local.watching import list_watched_threads
from anabranch.engines.thread import RunningThread
from anabranch.errors import EngineError
from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import Observed, RegionLoad, profile_of
from anabranch.runtime.profile import Sampler, cpu_clock

SLICES = 4  # of a control step, to see the load change within it
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
        wanted = arrangement_of(self._flow.configuration)
        for region, degree in degrees.items():
            wanted = wanted.with_degree(region, degree)
        try:
            switch = self._flow.switch(rearrange(self._flow.configuration, wanted))
        except EngineError:  # the program has ended, or failed, meanwhile
            return None
        return effect_of(switch)

    def watch(self, seconds: float, alarm_per_s: float = math.inf) -> Observed | None:
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
        over, arrivals = self._arrivals(seconds, alarm_per_s)
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
            arrivals,
            backlog=self._count_arrivals() - self._read() + network.count_waiting(),
            sojourns=sojourns(self._latencies).since(seen_before),
            regions=regions,
            others_busy=others_s / took_s,
            others_s=others_s / read,
            closed=not any(source.is_live for source in self._flow.sources),
            alarmed=max(arrivals[:-1], default=0.0) > alarm_per_s,
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
        """Return what an item takes of each thread that is not a replica's."""
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

    def _arrivals(
        self, seconds: float, alarm_per_s: float
    ) -> tuple[bool, tuple[float, ...]]:
        """Wait; return whether the program has ended, and what arrived meanwhile."""
        found: list[float] = []
        before, before_s = self._count_arrivals(), perf_counter()
        for _ in range(SLICES):
            if self._run.wait_for_end(seconds / SLICES) or self._flow.ended:
                return True, ()
            now, now_s = self._count_arrivals(), perf_counter()
            found.append((now - before) / (now_s - before_s))
            before, before_s = now, now_s
            if max(found[-2:-1], default=0.0) > alarm_per_s:  # and one whole part more
                break
        return False, tuple(found)

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
    """Return what was done by the elements of a region, or the one it is part of."""
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
) -> RegionLoad:
    """Return the load of a region from what its elements have done."""
    first = next(iter(works))
    items = sum(work.items for work in works[first])
    degree = len(works[first])
    channels = [
        sum(ones[channel].busy_s for ones in works.values())
        for channel in range(degree)
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
