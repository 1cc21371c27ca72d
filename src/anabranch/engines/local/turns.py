"""Whose turn it is when a program has several sources.

Sources that can be read at any time take turns: the first item of each, the second of
each, and so on. Where one of them is live nobody waits for it: items are taken in the
order in which they arrive. Positions tell the one order as well as the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anabranch.graph.graph import Graph
from anabranch.graph.sources import Kafka, Offered, ReadFiles, Socket
from anabranch.runtime.batch import Column, Mark, mark_at


class Turns(Protocol):
    """Gives the items of sources their positions."""

    by_arrival: bool

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        """Return the positions of items of a source, and how far it then has come."""


class Alone:
    """The only source."""

    by_arrival = False

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        return [numbers], mark_at(numbers[-1])


class InTurn:
    """The first item of each source, the second of each, and so on.

    >>> InTurn().take(1, [7, 8])
    ([[7, 8], [1, 1]], (8, 1, inf))
    """

    by_arrival = False

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        return [numbers, [source] * len(numbers)], mark_at(numbers[-1], source)


class ByArrival:
    """Whatever comes first; all sources must pass the same gate.

    >>> turns = ByArrival()
    >>> turns.take(1, [1, 2]), turns.take(0, [1])
    (([range(1, 3), [1, 1]], (2, inf)), ([range(3, 4), [0]], (3, inf)))
    """

    by_arrival = True

    def __init__(self) -> None:
        self._next = 1

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        first, self._next = self._next, self._next + len(numbers)
        places = range(first, self._next)
        return [places, [source] * len(numbers)], mark_at(places[-1])


def turns_of(graph: Graph) -> Turns:
    """Return the order in which the sources of a program are taken."""
    if len(graph.sources) == 1:
        return Alone()
    live = any(
        isinstance(op.kind, Socket | Kafka | Offered)
        or (isinstance(op.kind, ReadFiles) and op.kind.follow)
        for op in graph.sources
    )
    return ByArrival() if live else InTurn()
