"""A model of a program on an engine that works in epochs, as Spark does.

Such an engine has limits that threads do not have. An epoch goes through the levels of a
program one after another, so the times of levels add up. An element of a level can be
cut into workers that overlap. All regions have the same number of replicas. Workers are
processes, so no lock is shared.

What it costs to start a stage and to move rows between workers is not in the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch.control.simulate.threads import SimulatedProgram, load_of
from anabranch.control.throughput.model import ItemCosts, Thread, threads_of
from anabranch.metrics.load import Profile
from anabranch.metrics.rates import Rates
from anabranch.plan.plan import Arrangement

REGIONS = "all regions"


@dataclass(frozen=True)
class ElementDivision:
    """How an engine divides a program.

    `of` is the element of each operator, by the operator that it begins with; `level`
    the level of each element. `cuts` are the operators before which an element can be
    cut, and `replicated` the elements that have replicas.
    """

    of: Mapping[str, str] = field(default_factory=dict)
    level: Mapping[str, int] = field(default_factory=dict)
    cuts: frozenset[str] = frozenset()
    replicated: frozenset[str] = frozenset()

    def regions(self) -> dict[str, tuple[str, ...]]:
        """Return all operators with replicas as one region: they have one degree."""
        inside = tuple(name for name, at in self.of.items() if at in self.replicated)
        return {REGIONS: inside} if inside else {}


class Slowest(NamedTuple):
    """The busiest thread of the level that takes longest.

    `share` is the level's share of the epoch, and `busy` how busy it keeps the cores.
    """

    name: str
    thread: Thread
    share: float
    busy: float


@dataclass
class SimulatedEpochs(SimulatedProgram):
    """A program of the model whose epochs go through levels.

    Regions have as many replicas as there are cores from the start.
    """

    elements: ElementDivision = field(default_factory=ElementDivision)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.costs = ItemCosts(self.costs.at)
        self.regions = self.elements.regions()
        if self.regions:
            self.arrangement = self.arrangement.with_degree(REGIONS, self.cores)

    @property
    def places(self) -> frozenset[str]:
        """Where elements can be cut and are not."""
        return self.elements.cuts - self.arrangement.ports

    @property
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        """Nothing, as on Spark."""
        return {}

    @property
    def items_per_s(self) -> float:
        return 1 / sum(self._seconds(self.arrangement).values())

    def glance(self) -> tuple[Rates, Profile] | None:
        return None

    def profile(self) -> Profile | None:
        if self._over:
            return None
        self._pass_time()
        seconds = self._seconds(self.arrangement)
        slowest = max(seconds, key=lambda level: seconds[level])
        return Profile(
            tuple(
                load_of(name, thread, 1 / seconds[slowest], 0.0)
                for name, thread in self._at(slowest)
            ),
            share=seconds[slowest] / sum(seconds.values()),
            with_more=self._relative(+1),
            with_fewer=self._relative(-1),
        )

    def slowest(self) -> Slowest:
        """Return what the level with most to do waits for."""
        seconds = self._seconds(self.arrangement)
        slowest = max(seconds, key=lambda level: seconds[level])
        threads = dict(self._at(slowest))
        name = max(threads, key=lambda one: threads[one].each_s)
        work_s = sum(one.each_s * one.replicas for one in threads.values())
        return Slowest(
            name,
            threads[name],
            seconds[slowest] / sum(seconds.values()),
            work_s / self.cores / seconds[slowest],
        )

    def _relative(self, more: int) -> dict[str, float]:
        """Return how much longer an epoch would take with other replicas."""
        degree = self.arrangement.degree(REGIONS) + more
        if not self.regions or degree < 1:
            return {}
        other = self.arrangement.with_degree(REGIONS, degree)
        now_s = sum(self._seconds(self.arrangement).values())
        return {REGIONS: sum(self._seconds(other).values()) / now_s}

    def _seconds(self, arrangement: Arrangement) -> dict[int, float]:
        """Return how long each level takes for an item."""
        work: dict[int, list[float]] = {}
        for name, thread in self._threads_of_arrangement(arrangement).items():
            at = work.setdefault(self._level(name), [])
            at += [thread.each_s] * thread.replicas
        return {
            level: max(*each, sum(each) / self.cores) for level, each in work.items()
        }

    def _at(self, level: int) -> Iterator[tuple[str, Thread]]:
        for name, thread in self.find_threads().items():
            if self._level(name) == level:
                yield name, thread

    def _level(self, thread: str) -> int:
        return self.elements.level.get(self.elements.of.get(thread, thread), 0)

    def find_threads(self) -> dict[str, Thread]:
        return self._threads_of_arrangement(self.arrangement)

    def _threads_of_arrangement(self, arrangement: Arrangement) -> dict[str, Thread]:
        """Return the workers: elements begin a thread as cuts do."""
        begins = arrangement.with_ports(self.elements.of.values())
        return threads_of(self.costs, begins, self.regions)
