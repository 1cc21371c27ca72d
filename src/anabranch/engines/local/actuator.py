"""What the controller sees of a program on the local engine, and changes.

A fused operator has no counter of its own, which would cost something for each item.
So the throughput at an operator is told by the sources that lead to it: what they read
in a second, of which the operator gets a share that a thread more does not change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from time import perf_counter

from anabranch.engines.local.flow import LocalFlow, Switch
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.watching import list_watched_threads
from anabranch.engines.thread import RunningThread
from anabranch.errors import EngineError
from anabranch.graph.graph import Input, ancestors
from anabranch.graph.kind import SourceKind
from anabranch.metrics.load import Profile, ThreadSamples, profile_of
from anabranch.metrics.rates import Rates
from anabranch.plan.plan import Arrangement
from anabranch.runtime.profile import Sampler


def effect_of(switch: Switch) -> str:
    """Say what a change brought: the pause, and the locks that it turned on or off."""
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
        """Return what the profiler sees in so many seconds."""
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
