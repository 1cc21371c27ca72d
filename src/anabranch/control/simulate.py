"""A model of a program on any number of cores, adapted by the real controller.

The model knows what an item costs at each place, measured by the profiler in the
program as one thread, and what it costs to hand an item from thread to thread. A
pipeline goes at the pace of its busiest thread, unless all cores are busy before:
threads share them fairly, and nothing waits for anything but items and cores.

All sources keep the proportions in which they were measured.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.control.controller import Controller
from anabranch.control.settings import Settings
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.metrics.rates import Rates
from anabranch.metrics.samples import Route, ThreadSamples
from anabranch.plan.arrangement import Arrangement

ENOUGH_ROUNDS = 1000  # no program takes as many to settle


@dataclass(frozen=True)
class Costs:
    """Seconds of a core for each item that the sources give.

    `at` is by place; `port_s` is for handing it to another thread, on either side; and
    `serial_s` is what of all this only one thread at a time can do, whatever else it
    holds: the interpreter's lock, a device.
    """

    at: Mapping[Route, float]
    port_s: float = 0.0
    serial_s: float = 0.0

    @property
    def whole_s(self) -> float:
        """What an item costs in one thread."""
        return sum(self.at.values())


def costs_of(
    samples: Iterable[ThreadSamples], items: int, port_s: float = 0.0
) -> Costs:
    """Return what items cost, from samples of the program as one thread per source.

    >>> seen = ThreadSamples("read", 2.0, 1.5, {("read", "a"): 2, ("read",): 1})
    >>> costs_of([seen], items=2).at
    {('read', 'a'): 0.5, ('read',): 0.25}
    """
    at: dict[Route, float] = {}
    for thread in samples:
        total = sum(thread.at_work.values()) or 1.0
        for route, time in thread.at_work.items():
            whole = route or (thread.begin,)
            each_s = thread.cpu_s * time / total / items
            at[whole] = at.get(whole, 0.0) + each_s
    return Costs(at, port_s)


@dataclass(frozen=True)
class Thread:
    """A thread of the model, or all channels of a region: seconds for each item."""

    costs: Mapping[Route, float]  # by the way from where the thread begins
    handing_s: float
    replicas: int

    @property
    def each_s(self) -> float:
        """What an item costs each of the replicas, on average."""
        return (sum(self.costs.values()) + self.handing_s) / self.replicas


def threads_of(
    costs: Costs, arrangement: Arrangement, regions: Mapping[str, tuple[str, ...]]
) -> dict[str, Thread]:
    """Return the threads of an arrangement by the operator that they begin with.

    >>> at = {("read",): 1.0, ("read", "a"): 2.0, ("read", "a", "b"): 3.0}
    >>> made = threads_of(Costs(at), Arrangement(frozenset({"b"})), {})
    >>> {name: thread.each_s for name, thread in made.items()}
    {'read': 3.0, 'b': 3.0}
    """
    wide = {
        operator: region
        for region, operators in regions.items()
        if arrangement.degree(region) > 1
        for operator in operators
    }
    parts: dict[str, dict[Route, float]] = {}
    feeding: dict[str, set[str]] = {}  # thread -> threads that it hands items to
    for route, cost_s in costs.at.items():
        begins = [
            number
            for number, operator in enumerate(route)
            if number == 0
            or operator in arrangement.ports
            or wide.get(operator) != wide.get(route[number - 1])
        ]
        names = [route[number] for number in begins]
        part = parts.setdefault(names[-1], {})
        rest = route[begins[-1] :]
        part[rest] = part.get(rest, 0.0) + cost_s
        for earlier, later in itertools.pairwise(names):
            feeding.setdefault(earlier, set()).add(later)
    fed = {name for names in feeding.values() for name in names}
    return {
        name: Thread(
            part,
            costs.port_s * (len(feeding.get(name, ())) + (name in fed)),
            arrangement.degree(wide[name]) if name in wide else 1,
        )
        for name, part in parts.items()
    }


def throughput(costs: Costs, threads: Mapping[str, Thread], cores: int) -> float:
    """Return how many items a second come through.

    >>> at = {("read",): 0.5, ("read", "a"): 0.5}
    >>> split = threads_of(Costs(at), Arrangement(frozenset({"a"})), {})
    >>> throughput(Costs(at), split, cores=1), throughput(Costs(at), split, cores=2)
    (1.0, 2.0)
    """
    busiest_s = max(thread.each_s for thread in threads.values())
    all_s = sum(thread.each_s * thread.replicas for thread in threads.values())
    return 1 / max(busiest_s, all_s / cores, costs.serial_s)


@dataclass
class SimulatedProgram:
    """A program of the model; an actuator like the ones that engines have.

    Every answer takes `period_s` of its own time. `noise` is the relative spread of
    throughput. `costs` may be changed at any time: then the workload has shifted.
    """

    costs: Costs
    cores: int
    regions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    noise: float = 0.0
    seed: int = 0
    period_s: float = 1.0
    slices: int = 10
    most_s: float = float("inf")
    arrangement: Arrangement = field(default_factory=Arrangement)
    now_s: float = 0.0
    timeline: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def places(self) -> frozenset[str]:
        """Every operator but the sources."""
        return frozenset(operator for route in self.costs.at for operator in route[1:])

    @property
    def items_per_s(self) -> float:
        """The throughput as it is now, without noise."""
        return throughput(self.costs, self._threads(), self.cores)

    def arrange(self, arrangement: Arrangement) -> str | None:
        self.arrangement = arrangement
        return None if self._over else "simulated"

    def profile(self) -> Profile | None:
        if self._over:
            return None
        self._pass_time()
        rate = self.items_per_s
        return Profile(
            tuple(_load(name, one, rate) for name, one in self._threads().items())
        )

    def rates(self) -> Rates | None:
        if self._over:
            return None
        self._pass_time()
        rate = self.items_per_s
        series = tuple(
            rate * max(0.0, self._random.gauss(1.0, self.noise))
            for _ in range(self.slices)
        )
        operators = dict.fromkeys(o for route in self.costs.at for o in route)
        return Rates(dict.fromkeys(operators, series))

    @property
    def _over(self) -> bool:
        return self.now_s >= self.most_s

    def _threads(self) -> dict[str, Thread]:
        return threads_of(self.costs, self.arrangement, self.regions)

    def _pass_time(self) -> None:
        self.timeline.append((self.now_s, self.items_per_s))
        self.now_s += self.period_s


def settle(program: SimulatedProgram, settings: Settings | None = None) -> Controller:
    """Let the controller adapt a simulated program until it halts.

    >>> at = {("read",): 0.2, ("read", "a"): 0.4, ("read", "a", "b"): 0.4}
    >>> program = SimulatedProgram(Costs(at), cores=4)
    >>> [step.what for step in settle(program).history][0]
    'insert a threaded port at b'
    """
    controller = Controller(program, settings)
    for _ in range(ENOUGH_ROUNDS):
        if controller.settled or not controller.advance():
            break
    return controller


def _load(name: str, thread: Thread, rate: float) -> ThreadLoad:
    scale = rate / thread.replicas
    ports: dict[str, float] = {}
    own: dict[str, float] = {name: thread.handing_s * scale}
    for route, cost_s in thread.costs.items():
        own[route[-1]] = own.get(route[-1], 0.0) + cost_s * scale
        for operator in dict.fromkeys(route[1:]):
            ports[operator] = ports.get(operator, 0.0) + cost_s * scale
    return ThreadLoad(name, thread.each_s * rate, ports, own, thread.replicas)
