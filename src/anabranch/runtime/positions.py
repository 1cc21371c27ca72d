"""Positions: numbers by which the order of any stream can be told.

A position is a tuple of integers, compared from left to right. It begins with the
number of the source item (and of the source, if there are several). An operator that
may give several outputs for one item appends the index of the output; a fan-out whose
branches meet again appends the index of the branch. Items are then in the order of
their positions exactly if they are in the order of the sequential run, on every
stream (docs/semantics.md has the argument). How many numbers a position has is known
for each stream before the program runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.graph.graph import Edge, Graph

END = 1 << 62  # the first number of what operators give when the stream has ended


@dataclass(frozen=True)
class Positions:
    """The form of the positions on every stream of a graph.

    `inside[op]` is the width with which an operator sees its items (the widest of its
    inputs; others are padded with zeros), `after[op]` the width of its outputs, and
    `branch[edge]` the index that a stream of a fan-out appends, if it does.
    """

    inside: Mapping[str, int]
    after: Mapping[str, int]
    branch: Mapping[Edge, int]
    prolific: frozenset[str]

    def on(self, edge: Edge) -> int:
        """Return the width of positions on a stream."""
        return self.after[edge.producer.operator] + (edge in self.branch)


def positions_of(graph: Graph, prolific: frozenset[str]) -> Positions:
    """Return the form of all positions; `prolific` operators may give several outputs.

    >>> from anabranch.language.sources import from_iterable
    >>> from anabranch.language.drafts import build_graph
    >>> words = from_iterable(["a b"]).flat_map(str.split, name="words")
    >>> made = positions_of(build_graph([words.to_list(name="out")]), frozenset({"words"}))
    >>> made.inside["out"]
    2
    """
    several = len(graph.sources) > 1
    meeting = _meeting(graph)
    inside: dict[str, int] = {}
    after: dict[str, int] = {}
    branch: dict[Edge, int] = {}
    into: dict[str, list[Edge]] = {op.name: [] for op in graph}
    for edge in graph.edges:
        into[edge.consumer.operator].append(edge)
    for op in graph:
        widths = [after[e.producer.operator] + (e in branch) for e in into[op.name]]
        inside[op.name] = max(widths, default=1 + several)
        after[op.name] = inside[op.name] + (op.name in prolific)
        if op.name in meeting:
            indices = enumerate(graph.out_edges(op.name))
            branch |= {edge: index for index, edge in indices}
    return Positions(inside, after, branch, prolific)


def _meeting(graph: Graph) -> frozenset[str]:
    """Return the operators of which two branches lead to the same operator."""
    wide = [op.name for op in graph if len(graph.out_edges(op.name)) > 1]
    found = set()
    for name in wide:
        seen: dict[str, int] = {}
        for index, edge in enumerate(graph.out_edges(name)):
            waiting = [edge.consumer.operator]
            while waiting and name not in found:
                reached = waiting.pop()
                if seen.get(reached, index) != index:
                    found.add(name)
                elif reached not in seen:
                    seen[reached] = index
                    waiting.extend(graph.consumers(reached))
    return frozenset(found)
