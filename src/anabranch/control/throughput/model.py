"""The throughput of an arrangement of threads, from the cost of an item.

A pipeline runs at the pace of its busiest thread, unless all cores are busy, or the
interpreter lock is held all the time. Concurrent threads contend for the lock, and one
that finds it held loses more than the time until it is free, since it has to be woken
up. So an item costs the busiest thread, besides its own work, a share of the others'
work. That share cannot be seen in one thread; `calibrate` takes it from one measurement
with two.

With more threads than cores there are two more losses. A thread stays more or less on
the core that was least loaded when it arrived, so that one core idles while threads
wait for another. And a thread that is given the lock must first get a core, while all
others wait for it; `calibrate_crowding` takes that from a measurement with more threads
than cores, and from one with many how it grows. A thread that waits for the lock leaves
its core to others, so that the two losses do not add up.

User code may wait for something else: it sleeps, or a server answers. That takes time of
its thread, but no core and no lock, so further threads help even beyond the cores.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from anabranch.metrics.load import ThreadSamples
from anabranch.metrics.pipeline import Route
from anabranch.plan.plan import Arrangement

PORT_S = 0.05e-6  # for passing an item to another thread, on either side
BATCHES = 0.03  # of a thread's time, for the batches it takes or passes on
GROWTHS = 0.25, 3.0  # the search range
ORDERS = 256  # in which threads may be assigned to cores


@dataclass(frozen=True)
class ItemCosts:
    """Seconds per source item, on a core but for those of `blocked`.

    `at` is by place, and so is `blocked`: the time in which user code waited for
    something other than the lock, and needed no core. `port_s` is for passing it to another thread, on either side, and
    `batches` the share of its time that a thread needs in addition for what it passes
    on; `locked_s` is the part of all this that needs the interpreter lock, and
    `serial_s` the part that only one thread at a time can do for another reason, such
    as a device. `waiting` is how long a thread waits for the lock per second of others'
    work, and `crowding` what a second of work by a thread without a core adds to that;
    it grows with a power of their number, `growth`.
    """

    at: Mapping[Route, float]
    port_s: float = 0.0
    batches: float = 0.0
    serial_s: float = 0.0
    locked_s: float = 0.0
    waiting: float = 0.0
    crowding: float = 0.0
    growth: float = 2.0
    blocked: Mapping[Route, float] = field(default_factory=dict)

    @property
    def whole_s(self) -> float:
        """The time of an item in one thread."""
        return sum(self.at.values()) + self.blocked_s

    @property
    def blocked_s(self) -> float:
        """The part of it that needs no core."""
        return sum(self.blocked.values())


def costs_of(samples: Iterable[ThreadSamples], items: int) -> ItemCosts:
    """Estimate the cost of items from samples with one thread per source.

    >>> seen = ThreadSamples("read", 2.0, 1.5, {("read", "a"): 2, ("read",): 1})
    >>> costs_of([seen], items=2).at
    {('read', 'a'): 0.5, ('read',): 0.25}
    """
    at: dict[Route, float] = {}
    blocked: dict[Route, float] = {}
    locked: dict[str, float] = {}  # all threads see the same lock
    for thread in samples:
        total = sum(thread.at_work.values()) or 1.0
        for route, time in thread.at_work.items():
            whole = route or (thread.begin,)
            each_s = thread.cpu_s * time / total / items
            at[whole] = at.get(whole, 0.0) + each_s
        for route, share in thread.find_blocked().items():
            whole = route or (thread.begin,)
            each_s = share * (thread.elapsed_s - thread.denied_s) / items
            blocked[whole] = blocked.get(whole, 0.0) + each_s
        taken_s = thread.locked * (thread.elapsed_s - thread.denied_s)
        locked[thread.begin] = locked.get(thread.begin, 0.0) + taken_s
    whole_s = sum(at.values())
    return ItemCosts(
        at,
        PORT_S,
        BATCHES,
        locked_s=min(whole_s, max(locked.values(), default=0.0) / items),
        blocked=blocked,
    )


@dataclass(frozen=True)
class Thread:
    """A thread of the model, or all replicas of a region: seconds per item."""

    costs: Mapping[Route, float]  # by the path from where the thread begins
    handing_s: float
    replicas: int
    blocked: Mapping[Route, float] = field(default_factory=dict)  # as of `costs`

    @property
    def core_s(self) -> float:
        """The mean cost of an item for each of the replicas, on a core."""
        return (sum(self.costs.values()) + self.handing_s) / self.replicas

    @property
    def blocked_s(self) -> float:
        """The mean time per item in which each of the replicas needs no core."""
        return sum(self.blocked.values()) / self.replicas

    @property
    def each_s(self) -> float:
        """The mean time per item of each of the replicas."""
        return self.core_s + self.blocked_s


def threads_of(
    costs: ItemCosts, arrangement: Arrangement, regions: Mapping[str, tuple[str, ...]]
) -> dict[str, Thread]:
    """Return the threads of an arrangement by their first operator.

    >>> at = {("read",): 1.0, ("read", "a"): 2.0, ("read", "a", "b"): 3.0}
    >>> made = threads_of(ItemCosts(at), Arrangement(frozenset({"b"})), {})
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
    waits: dict[str, dict[Route, float]] = {}
    feeding: dict[str, set[str]] = {}  # thread -> its consumer threads
    for route in {**costs.at, **costs.blocked}:
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
        part[rest] = part.get(rest, 0.0) + costs.at.get(route, 0.0)
        if route in costs.blocked:
            wait = waits.setdefault(names[-1], {})
            wait[rest] = wait.get(rest, 0.0) + costs.blocked[route]
        for earlier, later in itertools.pairwise(names):
            feeding.setdefault(earlier, set()).add(later)
    fed = {name for names in feeding.values() for name in names}
    ends = {name: len(feeding.get(name, ())) + (name in fed) for name in parts}
    return {
        name: Thread(
            part,
            costs.port_s * ends[name]
            + (costs.batches * sum(part.values()) if ends[name] else 0.0),
            arrangement.degree(wide[name]) if name in wide else 1,
            waits.get(name, {}),
        )
        for name, part in parts.items()
    }


def throughput(costs: ItemCosts, threads: Mapping[str, Thread], cores: int) -> float:
    """Return the throughput in items per second.

    >>> at = {("read",): 0.5, ("read", "a"): 0.5}
    >>> split = threads_of(ItemCosts(at), Arrangement(frozenset({"a"})), {})
    >>> throughput(ItemCosts(at), split, cores=1), throughput(ItemCosts(at), split, cores=2)
    (1.0, 2.0)
    >>> throughput(ItemCosts(at, locked_s=0.8), split, cores=2)
    1.25
    """
    work = _work(threads)
    ideal_s = _ideal_s(threads, cores)
    uneven_s = max(0.0, estimate_busiest_core(work, cores) - ideal_s)
    lost_s = _estimate_loss_s(costs, work, cores, ideal_s)
    period_s = ideal_s + math.hypot(uneven_s, lost_s)
    return 1 / max(period_s, costs.serial_s, costs.locked_s)


def estimate_loss_of_two(costs: ItemCosts) -> float:
    """Return the share of the time that two threads, half the work each, would wait.

    >>> costs = ItemCosts({("read",): 0.5, ("read", "a"): 0.5}, locked_s=0.1)
    >>> split = threads_of(costs, Arrangement(frozenset({"a"})), {})
    >>> round(estimate_loss_of_two(calibrate(costs, split, 1.6)), 3)
    0.2
    """
    return costs.waiting / (1 + costs.waiting)


def estimate_waiting(
    costs: ItemCosts, threads: Mapping[str, Thread], cores: int
) -> float:
    """Return the threads' waiting time for the lock, relative to their work.

    >>> costs = ItemCosts({("read",): 0.5, ("read", "a"): 0.5}, locked_s=0.1)
    >>> split = threads_of(costs, Arrangement(frozenset({"a"})), {})
    >>> round(estimate_waiting(calibrate(costs, split, 1.6), split, cores=2), 3)
    0.25
    """
    period_s = 1 / throughput(replace(costs, serial_s=0.0), threads, cores)
    busiest_s = estimate_busiest_core(_work(threads), cores)
    return period_s / max(busiest_s, _longest_s(threads)) - 1


def calibrate(
    costs: ItemCosts, threads: Mapping[str, Thread], rate: float
) -> ItemCosts:
    """Return the costs with `waiting` fitted to the rate of two or more threads.

    >>> at = {("read",): 0.5, ("read", "a"): 0.5}
    >>> costs = ItemCosts(at, locked_s=0.1)
    >>> split = threads_of(costs, Arrangement(frozenset({"a"})), {})
    >>> round(throughput(calibrate(costs, split, 1.6), split, cores=2), 3)
    1.6
    """
    busiest_s = _longest_s(threads)
    others_s = sum(_work(threads)) - busiest_s
    if not costs.locked_s or others_s <= 0:
        return costs
    return replace(costs, waiting=max(0.0, (1 / rate - busiest_s) / others_s))


Measured = tuple[Mapping[str, Thread], float]  # threads, and their measured rate


def calibrate_crowding(
    costs: ItemCosts, cores: int, some: Measured, many: Measured | None = None
) -> ItemCosts:
    """Return the costs with `crowding` fitted to the rate of more threads than cores.

    A measurement with many more gives its growth.

    >>> at = {("read",): 0.5, ("read", "a"): 0.5}
    >>> split = threads_of(ItemCosts(at), Arrangement(frozenset({"a"})), {})
    >>> costs = calibrate_crowding(ItemCosts(at), 1, (split, 0.8))
    >>> round(throughput(costs, split, cores=1), 3)
    0.8
    """
    costs = _fit_crowding(costs, cores, *some)
    if many is None or costs.crowding <= 0:
        return costs
    threads, rate = many
    low, high = GROWTHS
    for _ in range(20):  # by bisection
        costs = _fit_crowding(replace(costs, growth=(low + high) / 2), cores, *some)
        if throughput(costs, threads, cores) > rate:
            low = costs.growth
        else:
            high = costs.growth
    return costs


def _fit_crowding(
    costs: ItemCosts, cores: int, threads: Mapping[str, Thread], rate: float
) -> ItemCosts:
    work = _work(threads)
    without_core_s = _without_core_s(costs, work, cores)
    if not without_core_s:
        return costs
    ideal_s = _ideal_s(threads, cores)
    uneven_s = max(0.0, estimate_busiest_core(work, cores) - ideal_s)
    slower_s = max(0.0, 1 / rate - ideal_s)
    lost_s = math.sqrt(max(0.0, slower_s**2 - uneven_s**2))
    known_s = _estimate_loss_s(replace(costs, crowding=0.0), work, cores, ideal_s)
    return replace(costs, crowding=(lost_s - known_s) / without_core_s)


def _longest_s(threads: Mapping[str, Thread]) -> float:
    """Return the time per item of the thread that has least to spare."""
    return max(one.each_s for one in threads.values())


def _work(threads: Mapping[str, Thread]) -> list[float]:
    """Return the cost of an item on a core for each thread, the busiest first."""
    each = (one.core_s for one in threads.values() for _ in range(one.replicas))
    return sorted(each, reverse=True)


def _ideal_s(threads: Mapping[str, Thread], cores: int) -> float:
    """Return the time per item if no core idles and no thread waits for the lock."""
    return max(_longest_s(threads), sum(_work(threads)) / cores)


def _estimate_loss_s(
    costs: ItemCosts, work: Sequence[float], cores: int, ideal_s: float
) -> float:
    """Return the lock waiting time per item."""
    meanwhile_s = max(0.0, sum(work) - ideal_s)
    without_core_s = _without_core_s(costs, work, cores)
    return max(0.0, costs.waiting * meanwhile_s + costs.crowding * without_core_s)


def _without_core_s(costs: ItemCosts, work: Sequence[float], cores: int) -> float:
    """Return the time of threads without a core, by a power of their number."""
    return sum(
        (math.pow(n, costs.growth) - math.pow(n - 1, costs.growth)) * each_s
        for n, each_s in enumerate(work[cores:], 1)
    )


def estimate_busiest_core(work: Sequence[float], cores: int) -> float:
    """Return the time of the busiest core, averaged over orders of the threads."""
    if len(work) <= cores:
        return work[0]
    if cores == 1:
        return sum(work)
    each_s, orders = sorted(work), random.Random(0)
    busiest = []
    for _ in range(ORDERS):
        orders.shuffle(each_s)
        loads = [0.0] * cores
        for load in each_s:
            heapq.heapreplace(loads, loads[0] + load)
        busiest.append(max(loads))
    return fmean(busiest)
