"""The program as data: operators, their streams, and the order of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from anabranch.graph.kinds import Kind
from anabranch.graph.sinks import SinkKind
from anabranch.graph.site import UNKNOWN, Site
from anabranch.graph.sources import Source


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
    which its state is kept apart (empty: one state in all). `type` is the tuple type of
    its output where that is known.
    """

    name: str
    kind: Kind
    inputs: tuple[Output, ...] = ()
    key: tuple[str, ...] = ()
    type: Any = None
    site: Site = UNKNOWN
    fuse_with: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def state_key(self) -> tuple[str, ...]:
        """The attributes by which its state is kept apart; empty: one state in all."""
        return self.key if self.kind.keyable else ()


@dataclass(frozen=True, eq=False)
class Graph:
    """A program. The operators stand in the order in which the user wrote them.

    That order puts producers first, and it is also the order of the branches of a
    fan-out: the consumer that was written first gets each item first.
    """

    ops: tuple[Op, ...]

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
        return tuple(op for op in self.ops if isinstance(op.kind, Source))

    @property
    def sinks(self) -> tuple[Op, ...]:
        """The operators that write."""
        return tuple(op for op in self.ops if isinstance(op.kind, SinkKind))
