"""The model of a running pipeline: every input of every operator, with its cost per
item.

Both controllers read this model and nothing else; only their objectives differ. An item
costs a thread time in four ways: on a core, waiting for the interpreter lock, blocked
in user code (an answer of a server, a device), and waiting for room in the buffer
behind it. The first three are work; the last one shows that something else is the
limit.

The functions here answer, without touching the program: which operator limits it, how
busy its threads would be with one more threaded port or replica, and the capacity of
its regions and other threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

Route: TypeAlias = tuple[str, ...]  # operators from a thread's start to its position

LEAST_WORK = 0.2  # of a thread's time, to tell where it goes


@dataclass(frozen=True)
class ServiceTime:
    """The seconds per item of a thread at one operator, by use."""

    cpu_s: float = 0.0
    lock_s: float = 0.0
    blocked_s: float = 0.0
    output_s: float = 0.0

    @property
    def work_s(self) -> float:
        """The time at work, without waiting for others.

        >>> round(ServiceTime(cpu_s=0.1, lock_s=0.2, blocked_s=0.4).work_s, 3)
        0.5
        """
        return self.cpu_s + self.blocked_s

    @property
    def busy_s(self) -> float:
        """The time until the thread can take the next item, given room behind it."""
        return self.cpu_s + self.lock_s + self.blocked_s


@dataclass(frozen=True)
class InputLoad:
    """One input of an operator in one thread.

    `producer` is the operator that its items come from (none: it is a source). `route`
    are the operators of the thread that lead to it, from the thread's first operator to
    the operator itself. The rates count the items of all `replicas`, and `share` is the
    busiest replica's part of the work (0: unknown).
    """

    operator: str
    route: Route
    service: ServiceTime
    in_per_s: float
    out_per_s: float = 0.0
    replicas: int = 1
    share: float = 0.0
    port: int = 0
    producer: str = ""

    @property
    def thread(self) -> str:
        """The first operator of its thread."""
        return self.route[0]

    def use(self, seconds: float) -> float:
        """Return the share of a thread's time for a cost per item."""
        return self.in_per_s * seconds / self.replicas


@dataclass(frozen=True)
class RegionShape:
    """The operators of a region; `keyed`: replicas cannot share work.

    `per_item` is the number of its items per source item, if it was learned over a
    longer time. `shares` are the busiest replica's parts of the items by degree, if its
    keys were counted.
    """

    operators: tuple[str, ...]
    degree: int = 1
    keyed: bool = False
    per_item: float | None = None
    shares: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ThreadLoad:
    """One thread, or one of several alike, as the paper's optimizer sees it.

    `ports` has every operator in the thread's path that could have a threaded port, so
    not its first one. `own` is what the thread uses at each operator alone. A thread of
    a region stands for all its `replicas`. `held_up` is the share of the time in which
    it had work but waited for the interpreter lock. Of its utilization, `blocked` needs
    no core: user code waited for something.
    """

    thread: str
    utilization: float
    ports: Mapping[str, float]
    own: Mapping[str, float] = field(default_factory=dict)
    replicas: int = 1
    held_up: float = 0.0
    blocked: float = 0.0

    @property
    def on_core(self) -> float:
        """The share of a core it uses."""
        return max(0.0, self.utilization - self.blocked)

    @property
    def wanted(self) -> float:
        """The share of the time in which it had work.

        >>> ThreadLoad("a", 0.5, {}, held_up=0.25).wanted
        0.75
        """
        return min(1.0, self.utilization + self.held_up)


@dataclass(frozen=True)
class RegionLoad:
    """A region: `degree` replicas that each take `service_s` per item.

    `items_per_s` came in, `per_item` per source item, and `share` of the work was the
    busiest replica's. `operators` are those of the region; a `keyed` one has a queue
    per replica, which others cannot help with. By its counted keys, the busiest replica
    would have the part `shares` at other degrees.
    """

    degree: int
    service_s: float
    items_per_s: float
    share: float = 0.0
    per_item: float = 1.0
    operators: tuple[str, ...] = ()
    keyed: bool = False
    shares: Mapping[int, float] = field(default_factory=dict)

    @property
    def capacity_per_s(self) -> float:
        """Its maximum throughput at the present degree.

        >>> RegionLoad(degree=4, service_s=0.02, items_per_s=50).capacity_per_s
        200.0
        """
        if self.service_s <= 0:
            return float("inf")
        return 1 / (self.service_s * max(self.share, 1 / self.degree))


@dataclass(frozen=True)
class Pipeline:
    """All inputs of a running program, including sequential operators, while observed.

    The sources gave `source_per_s` items per second. `locked` is the share of the time
    in which a lock that all threads need was held, which is the interpreter's if they
    are in one process.

    If parts of a program run one after the other, as the levels of an epoch do, these
    are the inputs of the longest part, and `share` is its share of the whole time.
    There, `with_more` and `with_fewer` give, by region, the relative time of the whole
    with one replica more, and with one fewer.

    >>> a = InputLoad("a", ("read", "a"), ServiceTime(cpu_s=0.006), in_per_s=100)
    >>> b = InputLoad("b", ("read", "a", "b"), ServiceTime(cpu_s=0.1), in_per_s=1)
    >>> made = Pipeline((a, b), source_per_s=100)
    >>> made.find_limit().operator, round(made.capacity_per_s)
    ('a', 143)
    >>> made.divide({"b"}).find_limit().thread
    'read'
    """

    inputs: tuple[InputLoad, ...] = ()
    shapes: Mapping[str, RegionShape] = field(default_factory=dict)
    source_per_s: float = 1.0
    locked: float = 0.0
    share: float = 1.0
    with_more: Mapping[str, float] = field(default_factory=dict)
    with_fewer: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def threads(self) -> tuple[ThreadLoad, ...]:
        """The threads, by their first operator."""
        alike: dict[str, list[InputLoad]] = {}
        for one in self.inputs:
            alike.setdefault(one.thread, []).append(one)
        return tuple(_load_of_thread(name, group) for name, group in alike.items())

    @cached_property
    def regions(self) -> Mapping[str, RegionLoad]:
        """The regions that may have several replicas."""
        return {name: self._load_region(shape) for name, shape in self.shapes.items()}

    @cached_property
    def stages(self) -> Mapping[str, float]:
        """The seconds per source item of each thread that is no replica.

        Without the operators of regions, by the names of the others.
        """
        inside = {one for shape in self.shapes.values() for one in shape.operators}
        found: dict[str, tuple[dict[str, None], float]] = {}
        for one in self.inputs:
            if one.operator not in inside:
                names, spent_s = found.get(one.thread, ({}, 0.0))
                work_s = (
                    one.service.busy_s * one.in_per_s / max(self.source_per_s, 1e-9)
                )
                found[one.thread] = {**names, one.operator: None}, spent_s + work_s
        return {" and ".join(names): spent_s for names, spent_s in found.values()}

    @property
    def others_s(self) -> float:
        """The seconds per source item outside all regions."""
        return sum(self.stages.values())

    @property
    def others_busy(self) -> float:
        """The number of threads busy with work that is not replicated."""
        return self.others_s * self.source_per_s

    @property
    def on_core(self) -> float:
        """The share of work that needs a core.

        >>> half = ServiceTime(cpu_s=0.1, blocked_s=0.1)
        >>> Pipeline((InputLoad("a", ("a",), half, 1.0),)).on_core
        0.5
        """
        work_s = sum(one.in_per_s * one.service.busy_s for one in self.inputs)
        if work_s <= 0:
            return 1.0
        core_s = sum(
            one.in_per_s * (one.service.cpu_s + one.service.lock_s)
            for one in self.inputs
        )
        return core_s / work_s

    @property
    def busy_cores(self) -> float:
        """The number of busy cores."""
        return sum(load.on_core * load.replicas for load in self.threads)

    @property
    def wanted_cores(self) -> float:
        """The number of cores it would keep busy if no thread waited for a lock."""
        return sum(
            (load.wanted - load.blocked) * load.replicas for load in self.threads
        )

    @property
    def busiest(self) -> float:
        """The utilization of the busiest thread."""
        return max((load.utilization for load in self.threads), default=0.0)

    @property
    def capacity_per_s(self) -> float:
        """The maximum source items per second as it is."""
        busiest = max((hottest_use(self, load) for load in self.threads), default=0.0)
        return self.source_per_s / busiest if busiest > 0 else float("inf")

    def shares(self) -> dict[str, float]:
        """Return each operator's share of the work; empty if there is little.

        >>> a, b = ServiceTime(cpu_s=0.2), ServiceTime(cpu_s=0.6)
        >>> both = InputLoad("a", ("a",), a, 1.0), InputLoad("b", ("a", "b"), b, 1.0)
        >>> round(Pipeline(both).shares()["b"], 2)
        0.75
        """
        work: dict[str, float] = {}
        for one in self.inputs:
            spent = one.in_per_s * one.service.work_s
            work[one.operator] = work.get(one.operator, 0.0) + spent
        total = sum(work.values())
        if total < LEAST_WORK:
            return {}
        return {operator: use / total for operator, use in work.items()}

    def find_limit(self) -> InputLoad | None:
        """Return the limiting input: the one that causes most of the work of the busiest thread."""
        busiest = max(
            self.threads, key=lambda load: hottest_use(self, load), default=None
        )
        if busiest is None:
            return None
        inside = [one for one in self.inputs if one.thread == busiest.thread]
        return max(inside, key=lambda one: one.use(one.service.busy_s))

    def divide(self, ports: Collection[str]) -> Pipeline:
        """Return the pipeline as it would be with more threaded ports."""
        return replace(self, inputs=tuple(_cut(one, ports) for one in self.inputs))

    def widen(self, operators: Collection[str], degree: int) -> Pipeline:
        """Return the pipeline as it would be with another degree of a region.

        Its operators get threads of their own, if they have none. An excess of one
        replica cannot be divided (see `predict_share`).

        >>> a = InputLoad("a", ("read", "a"), ServiceTime(cpu_s=0.8), 1.0)
        >>> read = InputLoad("read", ("read",), ServiceTime(cpu_s=0.2), 1.0)
        >>> wide = Pipeline((read, a)).widen({"a"}, 2)
        >>> [(load.thread, load.utilization) for load in wide.threads]
        [('read', 0.2), ('a', 0.4)]
        """
        shapes = {
            name: replace(shape, degree=degree)
            if set(shape.operators) == set(operators)
            else shape
            for name, shape in self.shapes.items()
        }
        inputs = tuple(_widen(one, operators, degree) for one in self.inputs)
        return replace(self, inputs=inputs, shapes=shapes)

    def with_gains(self, gains: Mapping[str, float]) -> Pipeline:
        """Return the pipeline with learned numbers of items per source item for
        regions.

        They are for each item of the sources.
        """
        shapes = {
            name: replace(shape, per_item=gains.get(name, shape.per_item))
            for name, shape in self.shapes.items()
        }
        return replace(self, shapes=shapes)

    def _load_region(self, shape: RegionShape) -> RegionLoad:
        inside = [one for one in self.inputs if one.operator in shape.operators]
        begin = [one for one in inside if one.operator == shape.operators[0]]
        items_per_s = sum(one.in_per_s for one in begin)
        work = sum(one.in_per_s * one.service.busy_s for one in inside)
        per_item = shape.per_item
        if per_item is None:
            per_item = items_per_s / self.source_per_s if self.source_per_s > 0 else 1.0
        return RegionLoad(
            shape.degree,
            work / items_per_s if items_per_s > 0 else 0.0,
            items_per_s,
            max((one.share for one in inside), default=0.0),
            per_item,
            shape.operators,
            shape.keyed,
            shape.shares,
        )


def predict_share(share: float, replicas: int, degree: int) -> float:
    """Return the busiest replica's share of the work at another degree.

    The busiest of `replicas` has a `share` now. Its excess is attributed to one key,
    whose items no number of replicas can divide; the rest divides evenly.

    >>> predict_share(0.25, 7, 8), predict_share(0.9, 2, 100), predict_share(0.5, 2, 4)
    (0.234375, 0.802, 0.25)
    """
    if replicas < 2:  # noqa: PLR2004 - one replica says nothing about keys
        return 1 / degree
    hot = min(1.0, max(0.0, (share * replicas - 1) / (replicas - 1)))
    return hot + (1 - hot) / degree


def find_sharing(threads: Iterable[ThreadLoad], port: str) -> tuple[ThreadLoad, ...]:
    """Return the threads that pass a port: T(o)."""
    return tuple(load for load in threads if load.ports.get(port, 0.0) > 0)


def hottest_use(pipeline: Pipeline, load: ThreadLoad) -> float:
    """Return the utilization of a thread's busiest replica.

    >>> hot = InputLoad("a", ("a",), ServiceTime(cpu_s=0.1), 10, replicas=4, share=0.5)
    >>> made = Pipeline((hot,))
    >>> hottest_use(made, made.threads[0])
    0.5
    """
    inside = [one for one in pipeline.inputs if one.thread == load.thread]
    hottest = max((one.share for one in inside), default=0.0)
    return (load.utilization + load.held_up) * max(1.0, hottest * load.replicas)


def _load_of_thread(name: str, group: Collection[InputLoad]) -> ThreadLoad:
    ports: dict[str, float] = {}
    own: dict[str, float] = {}
    used = blocked = held_up = 0.0
    for one in sorted(group, key=lambda each: len(each.route)):
        use = one.use(one.service.work_s)
        used += use
        blocked += one.use(one.service.blocked_s)
        held_up += one.use(one.service.lock_s)
        own[one.operator] = own.get(one.operator, 0.0) + use
        for operator in dict.fromkeys(one.route):
            if operator != name:
                ports[operator] = ports.get(operator, 0.0) + use
    replicas = max(one.replicas for one in group)
    return ThreadLoad(name, min(1.0, used), ports, own, replicas, held_up, blocked)


def _cut(one: InputLoad, ports: Collection[str]) -> InputLoad:
    begins = [place for place, name in enumerate(one.route) if place and name in ports]
    return replace(one, route=one.route[begins[-1] :]) if begins else one


def _widen(one: InputLoad, inside: Collection[str], degree: int) -> InputLoad:
    crossings = [
        place
        for place, name in enumerate(one.route)
        if place and (name in inside) != (one.route[place - 1] in inside)
    ]
    route = one.route[crossings[-1] :] if crossings else one.route
    if one.operator not in inside:
        return replace(one, route=route)
    share = predict_share(one.share, one.replicas, degree)
    return replace(one, route=route, replicas=degree, share=share)
