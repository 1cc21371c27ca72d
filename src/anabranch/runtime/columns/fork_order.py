"""The order in which one thread reaches streams that part and do not meet again.

Positions order the items of one stream, and those of streams that meet. The items of
other streams that came from one item have the same position up to the last fork before
both; from there on, one thread goes down one branch completely, and then down the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key, lru_cache
from typing import NamedTuple

import numpy as np

from anabranch.graph.graph import Edge, Graph, ancestors
from anabranch.runtime.columns.column import Numpy
from anabranch.runtime.positions import Positions


class _Fork(NamedTuple):
    """Where two streams part: how many numbers they share, and whose branch is
    first.
    """

    width: int
    one: int
    other: int


class ForkOrder:
    """The forks of a graph whose positions have a form."""

    def __init__(self, graph: Graph, form: Positions) -> None:
        self._graph = graph
        self._form = form
        self._ranks = {name: rank for rank, name in enumerate(graph.names)}
        self._fork_of = lru_cache(maxsize=None)(self._find_fork)

    def find_width(self, one: Edge | str, other: Edge | str) -> int:
        """Return how many numbers order the items of two streams, or operators."""
        return self._fork_of(one, other).width

    def is_before(self, one: Edge | str, other: Edge | str) -> bool:
        """Tell whether an item reaches one of two before the other."""
        fork = self._fork_of(one, other)
        return fork.one < fork.other

    def rank_streams(self, edges: Sequence[Edge], width: int) -> list[Numpy]:
        """Return the ranks of streams after each count of numbers, from 0 to a width.

        Streams that share more numbers than that have the same rank. So positions are
        in the order of one thread if these ranks stand between their numbers.
        """

        def compare(one: Edge, other: Edge) -> int:
            return self.is_before(other, one) - self.is_before(one, other)

        ordered = sorted(edges, key=cmp_to_key(compare))
        places = {edge: place for place, edge in enumerate(ordered)}
        return [
            np.array(
                [
                    min(
                        places[other]
                        for other in edges
                        if other == edge or self.find_width(edge, other) > count
                    )
                    for edge in edges
                ],
                np.int64,
            )
            for count in range(width + 1)
        ]

    def _find_fork(self, one: Edge | str, other: Edge | str) -> _Fork:
        """Return the last fork before two streams; the source items are the first."""
        branches, others = self._branches_to(one), self._branches_to(other)
        found = [
            (self._width_behind(name), self._ranks[name], branches[name], others[name])
            for name in branches.keys() & others.keys()
            if name in self._form.after and branches[name] != others[name]
        ]
        if not found:
            return _Fork(1, *map(self._rank_of, (one, other)))
        width, _, own, its = max(found)
        return _Fork(width, own, its)

    def _branches_to(self, target: Edge | str) -> dict[str, int]:
        """Return the first branch by which each operator leads to a target."""
        last = target if isinstance(target, str) else _producer_of(target)
        ends = {last, *ancestors(self._graph, last)}
        return {
            name: next(
                number
                for number, edge in enumerate(self._graph.out_edges(name))
                if edge == target or edge.consumer.operator in ends
            )
            for name in ends
            if name != target
        }

    def _width_behind(self, name: str) -> int:
        edges = self._graph.out_edges(name)
        return self._form.after[name] + any(e in self._form.branch for e in edges)

    def _rank_of(self, target: Edge | str) -> int:
        """Return the rank of the first source that leads to a target."""
        last = target if isinstance(target, str) else _producer_of(target)
        return min(self._ranks[name] for name in (last, *ancestors(self._graph, last)))


def _producer_of(edge: Edge) -> str:
    return edge.producer.operator
