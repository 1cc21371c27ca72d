"""The plan: the decisions of the compiler, as frozen data that prints, diffs and pickles.

The terms are those of *Safe Data Parallelism for General Streaming*: a *region* is a
part of the graph that may be replicated, a *joint* is the place where items enter or
leave it, and an *element* runs in one thread of control.

An `Arrangement` is the part that may change while a program runs: the threads, and the
replicas of regions. The control layer decides about it, and engines put it into effect.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from anabranch.graph.traits import Push
from anabranch.plan.column_kernels import ColumnKernel

Scope = Literal["global", "outer variable"]
State = Literal["stateless", "keyed", "global"]
Ordering = Literal[
    "contiguous", "round_robin", "seqno", "strict", "relaxed", "position", "none"
]
FirstJoint = Literal["parallel_source", "split", "shuffle"]
LastJoint = Literal["parallel_sink", "merge", "shuffle"]


class Reason(NamedTuple):
    """Why something was decided, and the line of the user's that it rests on."""

    trait: str
    text: str
    file: str
    line: int


@dataclass(frozen=True)
class PlanOperator:
    """The facts about an operator. `forwards` is None if it forwards everything.

    `effects` are those of user code that only the process it runs in can keep: what it
    changes outside its state, or reads from the world. They keep it in one process.
    An operator that `runs` in columns has a kernel in the plan.
    `lifted` are the variables that are its state, wherever it runs: scope and name.
    What comes to one `in_parts` has been added up by the replicas before it.
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
    """One attribute of the items of a stream as an array; an int has its bounds."""

    kind: Literal["float", "int", "bool"]
    low: int
    high: int


@dataclass(frozen=True)
class ArrayKernel:
    """An operator of fixed rates as a function over arrays, to be compiled.

    `source` is the text of `kernel(count, *arrays in, *arrays out, constants)`; it is
    empty for an operator that only passes items on by turns.
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
    """Connected operators of fixed rates, the kernels among them, and why these."""

    operators: tuple[str, ...]
    why: str
    kernels: tuple[ArrayKernel, ...] = ()

    @property
    def compiled(self) -> Literal["numba", "python"]:
        """The way it runs: compiled with Numba, or as Python."""
        return "numba" if any(kernel.source for kernel in self.kernels) else "python"


class Order(NamedTuple):
    """The ordering of a region, with the joints at its two ends."""

    ordering: Ordering
    first_joint: FirstJoint
    last_joint: LastJoint


@dataclass(frozen=True)
class Region:
    """Operators, connected with each other, that may be replicated together.

    `ordering` and the joints are those that the engine uses while every region has
    several replicas. `push` is of the region alone, `why` tells why its ordering is the
    cheapest safe one, and `ends` which operators could not join and why ("" at the
    program's end). Items are dealt out to its replicas `period` at a time. `inputs` are
    the streams that enter it and `outputs` those that leave it, each by the operator
    that gives it.
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
    """Everything that was decided about a program, in the order of its operators.

    An engine obeys it or refuses it. Reasons (`why`, `ends`, `reasons`) are there to be
    shown; every other field is read by an engine, or by the check that precedes a run.

    Elements stand behind those that they read from.
    `together` are operators that share something: nothing may come between them.
    `one_thread` tells why the whole program runs as one thread ("" where it need not).
    `chains` tells that regions were restricted to chains of operators.
    `bodies` are the bodies of rounds that have parallel regions; others run as one thread.
    `columns` are the kernels of operators that run in columns. They hold types of the
    user's, which JSON cannot: a plan that was read from JSON runs in Python.
    """

    operators: tuple[PlanOperator, ...]
    subgraphs: tuple[Subgraph, ...]
    regions: tuple[Region, ...]
    sequential: tuple[Sequential, ...]
    elements: tuple[Element, ...]
    together: tuple[tuple[str, ...], ...] = ()
    one_thread: str = ""
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
    """Operators with a threaded port, and regions that have more than one replica.

    >>> Arrangement().with_ports({"b"}).with_degree("r0", 2)
    Arrangement(ports=frozenset({'b'}), degrees=(('r0', 2),))
    """

    ports: frozenset[str] = frozenset()
    degrees: tuple[tuple[str, int], ...] = ()  # by region; 1 where nothing is said

    def degree(self, region: str) -> int:
        """Return how many replicas a region has."""
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
