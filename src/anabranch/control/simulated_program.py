"""A model of a program on any number of cores, adapted by the real controller.

The model (see `model`) has the cost of an item at each place, measured by the profiler
in a run with one thread, and the cost of passing an item between threads. All sources
keep the proportions in which they were measured.

An engine that works in epochs, as Spark does, has limits that threads do not have. An
epoch goes through the levels of a program one after another. If the next epoch waits
for its end, the times of levels add up; if epochs overlap, the busiest process counts.
An element of a level can be cut into workers that overlap. All regions have the same
number of replicas. Workers are processes, so no lock is shared. The cost of starting a
stage and of moving rows between workers is not in the model.

`describe_limit` says what limits the throughput of a simulated program.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch.control.goals import ControlSettings
from anabranch.control.throughput.model import (
    ItemCosts,
    Thread,
    estimate_waiting,
    threads_of,
    throughput,
)
from anabranch.control.throughput.tune import Controller
from anabranch.metrics.load import Rates
from anabranch.metrics.pipeline import InputLoad, Pipeline, ServiceTime
from anabranch.plan.plan import Arrangement

ENOUGH_ROUNDS = 1000  # no program takes as many to settle


@dataclass
class SimulatedProgram:
    """A program of the model; an actuator like those of the engines.

    Every answer takes `period_s` of simulated time. `noise` is the relative spread of
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
        """The producers of each operator."""
        found: dict[str, tuple[str, ...]] = {}
        for route in sorted(self.costs.at, key=len):
            for number, operator in enumerate(route):
                found.setdefault(operator, route[max(0, number - 1) : number])
        return found

    @property
    def items_per_s(self) -> float:
        """The present throughput, without noise."""
        return throughput(self.costs, self.find_threads(), self.cores)

    @property
    def threads(self) -> int:
        """The present number of threads."""
        return sum(thread.replicas for thread in self.find_threads().values())

    def arrange(self, arrangement: Arrangement) -> str | None:
        self.arrangement = arrangement
        return None if self._over else "simulated"

    def glance(self) -> tuple[Rates, Pipeline] | None:
        return None

    def profile(self) -> Pipeline | None:
        if self._over:
            return None
        self._pass_time()
        rate, threads = self.items_per_s, self.find_threads()
        waited = estimate_waiting(self.costs, threads, self.cores)
        return Pipeline(
            tuple(
                load
                for name, one in threads.items()
                for load in loads_of(name, one, rate, waited)
            ),
            source_per_s=rate,
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
        """Return its threads by their first operator."""
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
    """Let the controller adapt a simulated program until it settles.

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


def loads_of(
    name: str, thread: Thread, rate: float, waited: float
) -> Iterator[InputLoad]:
    """Yield the inputs of a thread at a rate.

    Per second of work it waits for the lock for `waited` seconds.
    """
    costs = dict(thread.costs)
    costs[name,] = costs.get((name,), 0.0) + thread.handing_s
    for route, cost_s in costs.items():
        blocked_s = thread.blocked.get(route, 0.0)
        service = ServiceTime(cost_s, cost_s * waited, blocked_s)
        yield InputLoad(route[-1], route, service, rate, rate, thread.replicas)


CLOSE = 0.95  # of the time per item: beyond this it is the limit
PART = 0.8  # of an epoch: a shorter level is not all that counts


def describe_limit(program: SimulatedProgram) -> str:
    """Return the limit of a program on threads of one process, in words.

    With one core the lock is never the limit: code that holds it needs the core too.

    >>> from anabranch.control.throughput.model import ItemCosts
    >>> at = {("read",): 0.5, ("read", "a"): 0.5}
    >>> describe_limit(SimulatedProgram(ItemCosts(at, locked_s=1.0), cores=4))
    "the interpreter's lock: 100% of the work needs it, whatever the number of threads"
    """
    costs, period_s = program.costs, 1 / program.items_per_s
    threads = program.find_threads()
    if program.cores > 1 and costs.locked_s >= CLOSE * period_s:
        share = costs.locked_s / costs.whole_s
        return (
            f"the interpreter's lock: {share:.0%} of the work needs it, whatever the "
            "number of threads"
        )
    if costs.serial_s >= CLOSE * period_s:
        return "work that only one thread at a time can do"
    work_s = sum(one.core_s * one.replicas for one in threads.values())
    if work_s / program.cores >= CLOSE * period_s:
        return _busy(program.cores)
    if len(threads) == 1 and costs.waiting and not costs.blocked:
        return (
            "the interpreter's lock: further threads would lose more by waiting for it"
        )
    name, busiest = max(threads.items(), key=lambda pair: pair[1].each_s)
    if busiest.each_s >= CLOSE * period_s:
        return f"the thread of {_describe_thread(name, busiest)}{_waits(busiest)}"
    return "threads that wait for the interpreter's lock"


def describe_limit_of_epochs(program: SimulatedEpochs) -> str:
    """Return the limit of a program whose epochs go through levels, in words."""
    name, busiest, share, busy = program.slowest()
    if busy >= CLOSE:
        waits = _waits(busiest)
        return f"one worker for each core{waits}" if waits else _busy(program.cores)
    elements = program.elements
    element = elements.of.get(name, name)
    inside = [one for one, at in elements.of.items() if at == element]
    text = _names(inside or [name])
    cuts = program.arrangement.ports.intersection(inside)
    if element in elements.replicated:
        text += f": {busiest.replicas} replicas"
    elif cuts:
        text += (
            f": {1 + len(cuts)} workers of an element without replicas, and no further "
            "cut promises a gain"
        )
    elif elements.cuts.isdisjoint(inside):
        text += ": one worker, which can be neither replicated nor cut"
    else:
        text += ": one worker without replicas, and no cut promises a gain"
    text += _waits(busiest)
    if share < PART:
        text += f"; it takes {share:.0%} of an epoch"
        if not elements.overlap:
            text += ", whose levels follow one another"
    return text


WAITS = 0.1  # of a thread's time: less is not worth a word


def _waits(thread: Thread) -> str:
    """Return in words that the code of a thread waits, if it does.

    >>> _waits(Thread({("a",): 1.0}, 0.0, 2, {("a",): 3.0}))
    ', whose code waits for 75% of its time, with no need of a core'
    """
    share = thread.blocked_s / thread.each_s if thread.each_s else 0.0
    if share < WAITS:
        return ""
    return f", whose code waits for {share:.0%} of its time, with no need of a core"


def _busy(cores: int) -> str:
    return "the core" if cores == 1 else f"all {cores} cores are busy"


def _describe_thread(name: str, thread: Thread) -> str:
    routes = sorted(thread.costs, key=len)
    inside = dict.fromkeys(route[-1] for route in routes)
    if thread.replicas > 1:
        return f"{_names(inside or [name])}, with {thread.replicas} replicas"
    if len(inside) <= 1:
        return f"{name}: one operator without replicas cannot be divided"
    return f"{_names(inside)}: no further division promises a gain"


def _names(operators: Collection[str]) -> str:
    """Return operators in words, the first and the last of many.

    >>> _names(["a", "b"]), _names(["a", "b", "c", "d"])
    ('a and b', 'a to d')
    """
    first, *others = operators
    if not others:
        return first
    return f"{first} {'and' if len(others) == 1 else 'to'} {others[-1]}"


def spread(levels: Iterable[Sequence[float]], processes: int) -> float:
    """Return the cost of an item for the busiest of so many processes.

    The workers of a level go to different ones, the least loaded first, as those of
    resident tasks do; a level that has more starts over.

    >>> spread([[1.0, 1.0], [2.0]], processes=3), spread([[1.0, 1.0], [2.0]], processes=2)
    (2.0, 3.0)
    """
    busy_s = [0.0] * processes
    for workers in levels:
        for start in range(0, len(workers), processes):
            some = workers[start : start + processes]
            least = sorted(range(processes), key=busy_s.__getitem__)
            for process, worker_s in zip(least, some, strict=False):
                busy_s[process] += worker_s
    return max(busy_s)


REGIONS = "all regions"


@dataclass(frozen=True)
class ElementDivision:
    """How an engine divides a program.

    `of` is the element of each operator, by its first operator; `level` the level of
    each element. `cuts` are the operators before which an element can be cut, and
    `replicated` the elements that have replicas. If epochs `overlap`, each worker
    continues with the next one, up to `depth` epochs at a time.
    """

    of: Mapping[str, str] = field(default_factory=dict)
    level: Mapping[str, int] = field(default_factory=dict)
    cuts: frozenset[str] = frozenset()
    replicated: frozenset[str] = frozenset()
    overlap: bool = False
    depth: int = 8

    def regions(self) -> dict[str, tuple[str, ...]]:
        """Return all replicated operators as one region: they have one degree."""
        inside = tuple(name for name, at in self.of.items() if at in self.replicated)
        return {REGIONS: inside} if inside else {}


class Slowest(NamedTuple):
    """The busiest thread of the longest level.

    `share` is the level's share of the epoch, and `busy` its utilization of the cores.
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
        self.costs = ItemCosts(self.costs.at, blocked=self.costs.blocked)
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
        return 1 / self._period_s(self.arrangement)

    def glance(self) -> tuple[Rates, Pipeline] | None:
        return None

    def profile(self) -> Pipeline | None:
        if self._over:
            return None
        self._pass_time()
        seconds = self._seconds(self.arrangement)
        slowest = max(seconds, key=lambda level: seconds[level])
        rate = 1 / seconds[slowest]
        return Pipeline(
            tuple(
                load
                for name, thread in self._at(slowest)
                for load in loads_of(name, thread, rate, 0.0)
            ),
            source_per_s=rate,
            share=min(1.0, seconds[slowest] * self.items_per_s),
            with_more=self._relative(+1),
            with_fewer=self._relative(-1),
        )

    def slowest(self) -> Slowest:
        """Return the bottleneck of the longest level."""
        seconds = self._seconds(self.arrangement)
        slowest = max(seconds, key=lambda level: seconds[level])
        threads = dict(self._at(slowest))
        name = max(threads, key=lambda one: threads[one].each_s)
        work_s = sum(one.each_s * one.replicas for one in threads.values())
        return Slowest(
            name,
            threads[name],
            min(1.0, seconds[slowest] * self.items_per_s),
            self._busy_share(work_s / seconds[slowest]),
        )

    def _busy_share(self, busy: float) -> float:
        """Return the utilization of the cores, with `busy` of them on the slowest
        level.
        """
        if self.elements.overlap:
            work_s = (one.each_s * one.replicas for one in self.find_threads().values())
            busy = sum(work_s) * self.items_per_s
        return busy / self.cores

    def _relative(self, more: int) -> dict[str, float]:
        """Return how much longer an epoch would take with other replicas."""
        degree = self.arrangement.degree(REGIONS) + more
        if not self.regions or degree < 1:
            return {}
        other = self.arrangement.with_degree(REGIONS, degree)
        return {REGIONS: self._period_s(other) / self._period_s(self.arrangement)}

    def _period_s(self, arrangement: Arrangement) -> float:
        """Return the time until the next item comes out.

        Levels follow each other; or they overlap, so that the busiest process counts,
        unless that needs more concurrent epochs than allowed.
        """
        through_s = sum(self._seconds(arrangement).values())
        if not self.elements.overlap:
            return through_s
        work = self._work(arrangement)
        workers = sum(map(len, work.values()))
        under_way = min(workers, self.cores, self.elements.depth)
        return max(spread(work.values(), self.cores), through_s / under_way)

    def _seconds(self, arrangement: Arrangement) -> dict[int, float]:
        """Return the time of each level per item."""
        return {
            level: max(*each, sum(each) / self.cores)
            for level, each in self._work(arrangement).items()
        }

    def _work(self, arrangement: Arrangement) -> dict[int, list[float]]:
        """Return the cost of an item for each worker, by level."""
        work: dict[int, list[float]] = {}
        for name, thread in self._threads_of_arrangement(arrangement).items():
            at = work.setdefault(self._level(name), [])
            at += [thread.each_s] * thread.replicas
        return dict(sorted(work.items()))

    def _at(self, level: int) -> Iterator[tuple[str, Thread]]:
        for name, thread in self.find_threads().items():
            if self._level(name) == level:
                yield name, thread

    def _level(self, thread: str) -> int:
        return self.elements.level.get(self.elements.of.get(thread, thread), 0)

    def find_threads(self) -> dict[str, Thread]:
        return self._threads_of_arrangement(self.arrangement)

    def _threads_of_arrangement(self, arrangement: Arrangement) -> dict[str, Thread]:
        """Return the workers: elements begin a thread, and so do cuts."""
        begins = arrangement.with_ports(self.elements.of.values())
        return threads_of(self.costs, begins, self.regions)
