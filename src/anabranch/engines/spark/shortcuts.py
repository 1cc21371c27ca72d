"""Cheaper ways to run a unit, where its shape allows it, with the same result.

Positions cost about as much as a small function. They are not needed when the outputs
are written on the spot, in the order in which they come; and when each item has
exactly one output, the outputs simply have the positions of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from anabranch.engines.spark.layout import Layout, Unit
from anabranch.engines.spark.wire import Batch, Numbers, end_to_end
from anabranch.errors import OperatorError
from anabranch.graph.graph import Edge
from anabranch.runtime.columns import form_of
from anabranch.runtime.program import Program
from anabranch.runtime.punctuated import punctuated_operators


class Shortcut(Protocol):
    """A way to run a unit on its only stream."""

    def run(self, stream: Batch) -> Iterator[tuple[Edge, Batch]]:
        """Return what leaves the unit."""


def shortcut_of(
    layout: Layout,
    unit: Unit,
    make: Callable[[], Program],
    in_full: Callable[[], Iterator[tuple[Edge, Batch]]],
) -> Shortcut | None:
    """Return a shortcut for a unit, if there is one.

    If an item fails on it, `in_full` runs the epoch from its beginning.
    """
    exits = [
        edge
        for name in unit.operators
        for edge in layout.graph.out_edges(name)
        if edge in layout.routes
    ]
    marked = punctuated_operators(layout.graph)
    if len(exits) != 1 or len(unit.entries) != 1 or marked.intersection(unit.operators):
        return None
    (edge,) = exits
    if unit.entries == unit.operators:
        return Untouched(edge)
    line = all(len(layout.graph.out_edges(name)) == 1 for name in unit.operators)
    inner = [name for name in unit.operators if layout.graph[name].inputs]
    if line and layout.one_to_one.issuperset(inner):
        return SamePositions(edge, layout, make, in_full)
    if layout.routes[edge].how == "write":
        return NoPositions(edge, layout, make, in_full)
    return None


class Untouched:
    """A source alone: its columns go on as they were read."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def run(self, stream: Batch) -> Iterator[tuple[Edge, Batch]]:
        yield self._edge, stream


class NoPositions:
    """What leaves is written in the order in which it comes."""

    def __init__(
        self,
        edge: Edge,
        layout: Layout,
        make: Callable[[], Program],
        in_full: Callable[[], Iterator[tuple[Edge, Batch]]],
    ) -> None:
        self._edge = edge
        self._program = make()
        self._in_full = in_full
        kind = layout.graph[edge.producer.operator].type
        self._form = None if kind is None else form_of(kind)

    def run(self, stream: Batch) -> Iterator[tuple[Edge, Batch]]:
        left = self._program.exits[self._edge]
        batches = []
        for chunk in stream.chunks():
            left.clear()
            try:
                self._program.run(chunk.items)
            except OperatorError:
                # Only positions can say which item it was: once more, with them.
                list(self._in_full())
                raise
            positions = self._positions(chunk)
            batches.append(Batch(positions, self._form, None, left.items[:]).compact())
        left.clear()
        yield self._edge, end_to_end(batches)

    def _positions(self, stream: Batch) -> list[Numbers]:
        return []


class SamePositions(NoPositions):
    """Each item has one output, in its own place."""

    def _positions(self, stream: Batch) -> list[Numbers]:
        return stream.positions
