"""A model of a program on any number of cores, adapted by the real controller.

The model (see `model`) knows what an item costs at each place, measured by the profiler
in the program as one thread, and what it costs to hand an item from thread to thread.

All sources keep the proportions in which they were measured.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.control.goals import ControlSettings
from anabranch.control.throughput.model import (
    ItemCosts,
    Thread,
    estimate_waiting,
    threads_of,
    throughput,
)
from anabranch.control.throughput.tune import Controller
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.metrics.rates import Rates
from anabranch.plan.plan import Arrangement

ENOUGH_ROUNDS = 1000  # no program takes as many to settle


@dataclass
class SimulatedProgram:
    """A program of the model; an actuator like the ones that engines have.

    Every answer takes `period_s` of its own time. `noise` is the relative spread of
    throughput. `costs` may be changed at any time: then the workload has shifted.
    """

    costs: ItemCosts
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
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        """Whom each operator gets its items from."""
        found: dict[str, tuple[str, ...]] = {}
        for route in sorted(self.costs.at, key=len):
            for number, operator in enumerate(route):
                found.setdefault(operator, route[max(0, number - 1) : number])
        return found

    @property
    def items_per_s(self) -> float:
        """The throughput as it is now, without noise."""
        return throughput(self.costs, self.find_threads(), self.cores)

    @property
    def threads(self) -> int:
        """How many threads it has now."""
        return sum(thread.replicas for thread in self.find_threads().values())

    def arrange(self, arrangement: Arrangement) -> str | None:
        self.arrangement = arrangement
        return None if self._over else "simulated"

    def glance(self) -> tuple[Rates, Profile] | None:
        return None

    def profile(self) -> Profile | None:
        if self._over:
            return None
        self._pass_time()
        rate, threads = self.items_per_s, self.find_threads()
        waited = estimate_waiting(self.costs, threads, self.cores)
        return Profile(
            tuple(load_of(name, one, rate, waited) for name, one in threads.items()),
            locked=min(1.0, self.costs.locked_s * rate),
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

    def find_threads(self) -> dict[str, Thread]:
        """Return its threads by the operator that they begin with."""
        return threads_of(self.costs, self.arrangement, self.regions)

    @property
    def _over(self) -> bool:
        return self.now_s >= self.most_s

    def _pass_time(self) -> None:
        self.timeline.append((self.now_s, self.items_per_s))
        self.now_s += self.period_s


def settle(
    program: SimulatedProgram, settings: ControlSettings | None = None
) -> Controller:
    """Let the controller adapt a simulated program until it halts.

    >>> at = {("read",): 0.2, ("read", "a"): 0.4, ("read", "a", "b"): 0.4}
    >>> program = SimulatedProgram(ItemCosts(at), cores=4)
    >>> [step.what for step in settle(program).history][0]
    'insert a threaded port at b'
    """
    controller = Controller(program, settings)
    for _ in range(ENOUGH_ROUNDS):
        if controller.settled or not controller.advance():
            break
    return controller


def load_of(name: str, thread: Thread, rate: float, waited: float) -> ThreadLoad:
    """Return how busy a thread is when so many items a second come through."""
    scale = rate / thread.replicas
    ports: dict[str, float] = {}
    own: dict[str, float] = {name: thread.handing_s * scale}
    for route, cost_s in thread.costs.items():
        own[route[-1]] = own.get(route[-1], 0.0) + cost_s * scale
        for operator in dict.fromkeys(route[1:]):
            ports[operator] = ports.get(operator, 0.0) + cost_s * scale
    use = thread.each_s * rate
    return ThreadLoad(name, use, ports, own, thread.replicas, use * waited)
