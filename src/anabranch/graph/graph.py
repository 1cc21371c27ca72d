"""The program as data: operators, streams, their order and connections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from anabranch.graph.kind import Kind, SinkKind, SourceKind
from anabranch.graph.site import UNKNOWN, Site

MOST_SHOWN = 8  # names of operators


class Output(NamedTuple):
    """An output stream of an operator."""

    operator: str
    port: int = 0


class Input(NamedTuple):
    """An input port of an operator."""

    operator: str
    port: int = 0


class Edge(NamedTuple):
    """A stream from an output to an input."""

    producer: Output
    consumer: Input


@dataclass(frozen=True, eq=False)
class Op:
    """An operator of a graph.

    `inputs` are the streams it consumes, by input port. `key` names the attributes by
    which its state is partitioned (empty: one state for all). `type` is the tuple type
    of its output if known. `timing` says how it follows the clock of its stream; a
    replica then keeps the states of its keys together, since they share the clock.
    `copied` tells engines to copy each output, see `Traits.copied`.
    """

    name: str
    kind: Kind
    inputs: tuple[Output, ...] = ()
    key: tuple[str, ...] = ()
    type: Any = None
    site: Site = UNKNOWN
    fuse_with: str | None = None
    timing: Any = None
    copied: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def keyed_by(self) -> tuple[str, ...]:
        """The attributes by which it distinguishes items; empty: none."""
        return self.key if self.kind.keyable else ()

    @property
    def key_functions(self) -> tuple[Any, ...]:
        """The user's functions that compute a part of its key."""
        found = (getattr(name, "function", None) for name in self.keyed_by)
        return tuple(function for function in found if function is not None)

    @property
    def called(self) -> tuple[Any, ...]:
        """The functions of the user's that engines call for an item, those of its key too."""
        return (*(code.function for code in self.kind.user_code), *self.key_functions)

    @property
    def state_key(self) -> tuple[str, ...]:
        """The attributes by which its state is partitioned; empty: one state for
        all.
        """
        return self.keyed_by if self.timing is None else ()


def has_turns(op: Op) -> bool:
    """Tell whether an advance of the clock may make an operator emit outputs by key."""
    return op.timing is not None and bool(op.keyed_by)


@dataclass(frozen=True, eq=False)
class Graph:
    """A program. The operators are in the order in which the user wrote them.

    That order puts producers first, and it is also the order of the branches of a
    fan-out: the consumer written first gets each item first.
    """

    ops: tuple[Op, ...]

    def __repr__(self) -> str:
        shown = [op.name for op in self.ops]
        if len(shown) > MOST_SHOWN:
            shown[MOST_SHOWN - 2 : -1] = ["..."]
        return f"<Graph of {len(self.ops)} operators: {', '.join(shown)}>"

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __getitem__(self, name: str) -> Op:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, Op]:
        return {op.name: op for op in self.ops}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the operators, producers first."""
        return tuple(op.name for op in self.ops)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Every stream, in the order of its consumer."""
        return tuple(
            Edge(output, Input(op.name, port))
            for op in self.ops
            for port, output in enumerate(op.inputs)
        )

    @cached_property
    def _consumers(self) -> dict[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {op.name: [] for op in self.ops}
        for edge in self.edges:
            if edge.producer.operator in found:
                found[edge.producer.operator].append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    def out_edges(self, name: str) -> tuple[Edge, ...]:
        """Return the streams that leave an operator, first connected branch first."""
        return self._consumers[name]

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the operators that an operator feeds, each once, in branch order."""
        return tuple(dict.fromkeys(e.consumer.operator for e in self.out_edges(name)))

    def producers(self, name: str) -> tuple[str, ...]:
        """Return the operators that feed an operator, each once, in port order."""
        return tuple(dict.fromkeys(out.operator for out in self[name].inputs))

    @property
    def sources(self) -> tuple[Op, ...]:
        """The operators that read."""
        return tuple(op for op in self.ops if isinstance(op.kind, SourceKind))

    @property
    def live(self) -> bool:
        """Whether only `stop()` ends the program: one of its sources is endless."""
        return any(isinstance(op.kind, SourceKind) and op.kind.live for op in self.ops)

    @property
    def sinks(self) -> tuple[Op, ...]:
        """The operators that write."""
        return tuple(op for op in self.ops if isinstance(op.kind, SinkKind))


def name_stream(output: Output) -> str:
    """Return the name of a stream: that of its operator, with the port unless it is 0.

    >>> name_stream(Output("route")), name_stream(Output("route", 1))
    ('route', 'route.1')
    """
    return f"{output.operator}.{output.port}" if output.port else output.operator


def streams_into(graph: Graph, operators: Collection[str]) -> tuple[Edge, ...]:
    """Return the streams that enter a part of a graph."""
    return tuple(
        Edge(output, Input(name, port))
        for name in operators
        for port, output in enumerate(graph[name].inputs)
        if output.operator not in operators
    )


def streams_out_of(graph: Graph, operators: Collection[str]) -> tuple[Edge, ...]:
    """Return the streams that leave a part of a graph."""
    return tuple(
        edge
        for name in operators
        for edge in graph.out_edges(name)
        if edge.consumer.operator not in operators
    )


def ancestors(graph: Graph, name: str) -> set[str]:
    """Return the operators that lead to an operator, without itself."""
    return _reach(name, graph.producers)


def descendants(graph: Graph, name: str) -> set[str]:
    """Return the operators that an operator leads to, without itself."""
    return _reach(name, graph.consumers)


def depth_first(graph: Graph) -> tuple[str, ...]:
    """Return the operators in the order in which one item reaches them.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> from anabranch.graph.kind import SourceKind
    >>> read, left, right = Output("read"), Output("left"), Output("right")
    >>> ops = [Op("read", SourceKind()), Op("left", Kind(), (read,))]
    >>> ops += [Op("right", Kind(), (read,)), Op("behind", Kind(), (left,))]
    >>> depth_first(Graph(tuple(ops)))
    ('read', 'left', 'behind', 'right')
    """
    found: dict[str, None] = {}
    pending = [op.name for op in reversed(graph.sources)]
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = None
            pending += reversed(graph.consumers(name))
    return tuple(found)


def _reach(name: str, neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        for one in neighbours(pending.pop()):
            if one not in found:
                found.add(one)
                pending.append(one)
    return found
