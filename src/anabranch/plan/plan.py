"""The plan: what the compiler decided, as frozen data that prints, diffs and pickles.

The words are those of *Safe Data Parallelism for General Streaming*: a *region* is a
chain of operators that may be replicated, a *joint* is what happens at its two ends,
and an *element* is what runs in one thread of control.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

State = Literal["stateless", "keyed", "global"]
Ordering = Literal["contiguous", "round_robin", "seqno", "strict", "relaxed", "none"]
FirstJoint = Literal["parallel_source", "split", "shuffle"]
LastJoint = Literal["parallel_sink", "merge", "shuffle"]


class Reason(NamedTuple):
    """Why something was decided, and the line of the user's that it rests on."""

    trait: str
    text: str
    file: str
    line: int


class Push(NamedTuple):
    """How many items come out for what goes in; `most` is None if there is no bound."""

    least: int
    most: int | None


@dataclass(frozen=True)
class Operator:
    """What is known about an operator. `forwards` is None if it forwards everything.

    `effects` are those of user code that only the process it runs in can keep: what it
    changes outside its state, or reads from the world. They keep it in one process.
    """

    name: str
    state: State
    key: tuple[str, ...]
    pop: int | None
    push: Push
    forwards: tuple[str, ...] | None
    reasons: tuple[Reason, ...]
    effects: bool = False


class Column(NamedTuple):
    """One attribute of the items of a stream as an array; an int has its bounds."""

    kind: Literal["float", "int", "bool"]
    low: int
    high: int


@dataclass(frozen=True)
class Kernel:
    """An operator of fixed rates as a function over arrays, to be compiled.

    `source` is the text of `kernel(count, *arrays in, *arrays out, constants)`; it is
    empty for an operator that only passes items on by turns.
    """

    operator: str
    pop: int
    push: int
    peek: int
    takes: tuple[Column, ...]
    gives: tuple[Column, ...]
    source: str
    constants: tuple[float, ...]


class Buffer(NamedTuple):
    """What a stream inside a subgraph must be able to hold, in items."""

    producer: str
    consumer: str
    items: int


@dataclass(frozen=True)
class Subgraph:
    """Operators of fixed rates with their schedule.

    `repetitions` tell how often each fires in a round, `initial` how often before the
    first one, so that operators that look ahead have something to look at.
    """

    operators: tuple[str, ...]
    repetitions: tuple[tuple[str, int], ...]
    compiled: Literal["numba", "python"]
    why: str
    initial: tuple[tuple[str, int], ...] = ()
    buffers: tuple[Buffer, ...] = ()
    kernels: tuple[Kernel, ...] = ()


class Queue(NamedTuple):
    """A stream on which items wait until there are enough of them, and why."""

    producer: str
    consumer: str
    why: str


@dataclass(frozen=True)
class Region:
    """A chain of operators that may be replicated.

    `push` is of the region alone, `why` tells why its ordering is the cheapest safe
    one, and `ends` which operator could not join and why ("" at the program's end).
    Items are dealt out to its replicas `period` at a time.
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


@dataclass(frozen=True)
class Sequential:
    """An operator that runs once, and what forces that."""

    operator: str
    why: str
    reason: Reason | None = None


@dataclass(frozen=True)
class Element:
    """Operators that run in one thread of control, producers first.

    An element of a region has its replicas; any other runs once. Elements of one
    `level` do not depend on one another, and depend only on lower levels.
    """

    name: str
    operators: tuple[str, ...]
    region: str | None
    level: int


@dataclass(frozen=True)
class Plan:
    """Everything that was decided about a program, in the order of its operators."""

    operators: tuple[Operator, ...]
    subgraphs: tuple[Subgraph, ...]
    regions: tuple[Region, ...]
    sequential: tuple[Sequential, ...]
    elements: tuple[Element, ...]
    queues: tuple[Queue, ...] = ()
