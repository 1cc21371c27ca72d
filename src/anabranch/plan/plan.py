"""The plan: the decisions of the compiler, as frozen data that prints, diffs and pickles.

The terms are those of *Safe Data Parallelism for General Streaming*: a *region* is a
part of the graph that may be replicated, a *joint* is the place where items enter or
leave it, and an *element* runs in one thread of control.

An `Arrangement` is the part that may change while a program runs: the threads, and the
replicas of regions. The control layer decides about it, and engines put it into effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from anabranch.graph.kind import Push
from anabranch.plan.column_kernels import ColumnKernel

Scope = Literal["global", "outer variable"]
State = Literal["stateless", "keyed", "global"]
Ordering = Literal[
    "contiguous", "round_robin", "seqno", "strict", "relaxed", "position", "none"
]
FirstJoint = Literal["parallel_source", "split", "shuffle"]
LastJoint = Literal["parallel_sink", "merge", "shuffle"]


class Reason(NamedTuple):
    """Why something was decided, and the user's line behind it."""

    trait: str
    text: str
    file: str
    line: int


@dataclass(frozen=True)
class PlanOperator:
    """The facts about an operator. `forwards` is None if it forwards everything.

    `effects` are those of user code that are confined to its process: what it changes
    outside its state, or reads from the outside world. They keep it in one process. An
    operator that `runs` in columns has a kernel in the plan. `lifted` are the variables
    that are its state, wherever it runs: scope and name. An operator `in_parts`
    receives partial aggregates from the replicas before it.
    """

    name: str
    state: State
    key: tuple[str, ...]
    pop: int | None
    push: Push
    forwards: tuple[str, ...] | None
    reasons: tuple[Reason, ...]
    effects: bool = False
    runs: Literal["columns", "python"] = "python"
    in_parts: bool = False
    why: str = ""  # it runs so
    lifted: tuple[tuple[Scope, str], ...] = ()


class ArrayColumn(NamedTuple):
    """One attribute of a stream's items as an array; an int has its bounds."""

    kind: Literal["float", "int", "bool"]
    low: int
    high: int


@dataclass(frozen=True)
class ArrayKernel:
    """An operator of fixed rates as a function over arrays, to be compiled.

    `source` is the text of `kernel(count, *arrays in, *arrays out, constants)`; it is
    empty for an operator that only deals or collects items.
    """

    operator: str
    pop: int
    push: int
    peek: int
    takes: tuple[ArrayColumn, ...]
    gives: tuple[ArrayColumn, ...]
    source: str
    constants: tuple[float, ...]


@dataclass(frozen=True)
class Subgraph:
    """Connected operators of fixed rates, their kernels, and why these."""

    operators: tuple[str, ...]
    why: str
    kernels: tuple[ArrayKernel, ...] = ()

    @property
    def compiled(self) -> Literal["numba", "python"]:
        """How it runs: compiled with Numba, or as Python."""
        return "numba" if any(kernel.source for kernel in self.kernels) else "python"


class Order(NamedTuple):
    """The ordering of a region, with the joints at its two ends."""

    ordering: Ordering
    first_joint: FirstJoint
    last_joint: LastJoint


@dataclass(frozen=True)
class Region:
    """Connected operators that may be replicated together.

    `ordering` and the joints are those that the engine uses while every region has
    several replicas. `push` is of the region alone, `why` says why its ordering is the
    cheapest safe one, and `ends` which operators could not join and why ("" at the
    program's end). The splitter gives its replicas `period` items at a time. `inputs` are the
    streams that enter it and `outputs` those that leave it, each by its producer.
    """

    name: str
    operators: tuple[str, ...]
    key: tuple[str, ...]
    push: Push
    ordering: Ordering
    first_joint: FirstJoint
    last_joint: LastJoint
    why: str
    ends: str = ""
    period: int = 1
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def order(self) -> Order:
        """The ordering of the region."""
        return Order(self.ordering, self.first_joint, self.last_joint)


@dataclass(frozen=True)
class Sequential:
    """An operator that runs once, and what forces that."""

    operator: str
    why: str
    reason: Reason | None = None


@dataclass(frozen=True)
class Element:
    """Operators that run in one thread of control, producers first.

    An element of a region has its replicas; any other runs once.
    """

    name: str
    operators: tuple[str, ...]
    region: str | None


@dataclass(frozen=True)
class Body:
    """The plan of the body of rounds: each round runs as a program of its own."""

    operator: str
    plan: Plan


@dataclass(frozen=True)
class Plan:
    """All decisions about a program, in the order of its operators.

    An engine obeys it or refuses it. Reasons (`why`, `ends`, `reasons`) are for
    display; every other field is read by an engine, or by the check that precedes a
    run.

    Elements come after those that they read from. `together` are operators that share
    something: nothing may come between them. `one_thread` is why the whole program runs
    as one thread ("" if it need not), `one_thread_advice` what to do about it. `chains` if regions were restricted to chains of
    operators. `bodies` are the bodies of rounds that have parallel regions; others run
    as one thread. `columns` are the kernels of operators that run in columns. They
    contain the user's types, which JSON cannot represent: a plan read from JSON runs in
    Python.
    """

    operators: tuple[PlanOperator, ...]
    subgraphs: tuple[Subgraph, ...]
    regions: tuple[Region, ...]
    sequential: tuple[Sequential, ...]
    elements: tuple[Element, ...]
    together: tuple[tuple[str, ...], ...] = ()
    one_thread: str = ""
    one_thread_advice: str = ""
    chains: bool = False
    bodies: tuple[Body, ...] = ()
    columns: tuple[ColumnKernel, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        return f"<Plan of {self.summary}>"

    @property
    def summary(self) -> str:
        """The number of operators that can run in parallel, in words.

        >>> Plan((), (), (), (), ()).summary
        '0 operators, 0 of them parallel'
        """
        inside = sum(len(region.operators) for region in self.regions)
        return f"{len(self.operators)} operators, {inside} of them parallel"

    @property
    def undivided(self) -> frozenset[str]:
        """The operators of elements that one thread must run as a whole."""
        kept = {name for group in self.together for name in group}
        return frozenset(
            name
            for element in self.elements
            if not kept.isdisjoint(element.operators)
            for name in element.operators
        )


@dataclass(frozen=True)
class Arrangement:
    """The operators with a threaded port, and the regions with more than one replica.

    >>> Arrangement().with_ports({"b"}).with_degree("r0", 2)
    Arrangement(ports=frozenset({'b'}), degrees=(('r0', 2),))
    """

    ports: frozenset[str] = frozenset()
    degrees: tuple[tuple[str, int], ...] = ()  # by region; 1 by default

    def degree(self, region: str) -> int:
        """Return the number of replicas of a region."""
        return dict(self.degrees).get(region, 1)

    def with_ports(self, ports: Collection[str]) -> Arrangement:
        """Return the arrangement with more threaded ports."""
        return replace(self, ports=self.ports.union(ports))

    def without_ports(self, ports: Collection[str]) -> Arrangement:
        """Return the arrangement with fewer threaded ports."""
        return replace(self, ports=self.ports.difference(ports))

    def with_degree(self, region: str, degree: int) -> Arrangement:
        """Return the arrangement with another number of replicas for a region."""
        degrees = {**dict(self.degrees), region: degree}
        kept = sorted((name, n) for name, n in degrees.items() if n > 1)
        return replace(self, degrees=tuple(kept))

    def __str__(self) -> str:
        ports = ", ".join(sorted(self.ports)) or "none"
        wide = "".join(f"; {n} replicas for {name}" for name, n in self.degrees)
        return f"threaded ports: {ports}{wide}"


def find_beside(
    streams: Iterable[tuple[str, str]], region_of: Mapping[str, str], heads: set[str]
) -> dict[str, list[str]]:
    """Return the threads that carry positions if a thread of a region does.

    All of its region, which has one ordering, and the regions that it shuffles to:
    items are not renumbered. A thread has the name of its first operator (`heads`).

    >>> find_beside([("a", "b")], {"a": "r0", "b": "r1"}, {"a", "b"})["a"]
    ['a', 'b']
    """
    inside: dict[str, list[str]] = {}
    for name in sorted(heads & region_of.keys()):
        inside.setdefault(region_of[name], []).append(name)
    beside = {name: list(names) for names in inside.values() for name in names}
    for producer, consumer in streams:
        if producer in region_of and consumer in region_of:
            beside[producer].append(consumer)
    return beside
