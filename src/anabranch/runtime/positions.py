"""Positions: tuples of integers that define the order of every stream.

Positions are compared from left to right. A position begins with the number of the
source item (and of the source, if there are several). An operator that may give several
outputs per item appends the index of the output; a fan-out whose branches meet again
appends the index of the branch. On every stream, items are in the order of their
positions if and only if they are in the order of the sequential run (docs/semantics.md
has the argument). The length of the positions on each stream is known before the
program runs.

The outputs of a keyed operator at an advance of the clock come from all its replicas.
It appends a *turn*, bytes that encode the order of time and key, between two numbers:
outputs for items come before all turns and the advance itself after them, and the
outputs of a turn have an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.graph.graph import Edge, Graph, Op, has_turns
from anabranch.operators.custom import Scan
from anabranch.operators.fan_in import Union
from anabranch.operators.stateless import Filter, Map
from anabranch.operators.windows import Aggregate

END = 1 << 62  # the first number of outputs after the end of the stream
FOR_ITEM, IN_TURN, BEHIND_TURNS = 0, 1, 2  # kinds of output of an operator with turns
_OF_TURN = 3  # components that such an operator appends


def turn_of(one: Any) -> bytes:
    """Return the component at a place for turns: a number if a stream has none there.

    An earlier component distinguishes its items from those with turns.
    """
    return one if type(one) is bytes else b"%d" % one


@dataclass(frozen=True)
class Positions:
    """The form of the positions on every stream of a graph.

    `inside[op]` is the width at which an operator sees its items (the widest of its
    inputs; others are padded with zeros), `after[op]` the width of its outputs, and
    `branch[edge]` the index that a stream of a fan-out appends, if any. `turns[op]` are
    the indices in its output positions where turns may stand.
    """

    inside: Mapping[str, int]
    after: Mapping[str, int]
    branch: Mapping[Edge, int]
    prolific: frozenset[str]
    turns: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def on(self, edge: Edge) -> int:
        """Return the width of positions on a stream."""
        return self.after[edge.producer.operator] + (edge in self.branch)

    def appends_turn(self, operator: str) -> bool:
        """Tell whether an operator appends a turn."""
        return self.after[operator] - self.inside[operator] == _OF_TURN


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
    turns: dict[str, frozenset[int]] = {}
    into: dict[str, list[Edge]] = {op.name: [] for op in graph}
    for edge in graph.edges:
        into[edge.consumer.operator].append(edge)
    for op in graph:
        widths = [after[e.producer.operator] + (e in branch) for e in into[op.name]]
        inside[op.name] = max(widths, default=1 + several)
        found = {place for e in into[op.name] for place in turns[e.producer.operator]}
        if has_turns(op):
            found.add(inside[op.name] + 1)
            after[op.name] = inside[op.name] + _OF_TURN
        else:
            after[op.name] = inside[op.name] + (op.name in prolific)
        turns[op.name] = frozenset(found)
        if op.name in meeting:
            indices = enumerate(graph.out_edges(op.name))
            branch |= {edge: index for index, edge in indices}
    return Positions(inside, after, branch, prolific, turns)


def positions_inside(
    graph: Graph, operators: Iterable[str], entries: Iterable[Edge | str]
) -> Positions:
    """Return positions that define the single-thread order on all streams of an
    element.

    Input items have one number. Each fan-out appends the index of the branch, so that
    even streams that never meet are ordered.
    """
    after = {_producer(entry): 1 for entry in entries}
    branch: dict[Edge, int] = {}
    inside: dict[str, int] = {}
    within = [name for name in graph.names if name in {*operators}]
    prolific = frozenset(name for name in within if _is_prolific(graph[name]))
    for name in [*(entry for entry in entries if isinstance(entry, str)), *within]:
        if name not in after:
            into = [e for e in graph.edges if e.consumer.operator == name]
            widths = [
                after[e.producer.operator] + (e in branch)
                for e in into
                if e.producer.operator in after
            ]
            inside[name] = max(widths, default=1)
            after[name] = inside[name] + (name in prolific)
        edges = graph.out_edges(name)
        if len(edges) > 1:
            branch |= {edge: index for index, edge in enumerate(edges)}
    return Positions(inside, after, branch, prolific)


def _producer(entry: Edge | str) -> str:
    return entry if isinstance(entry, str) else entry.producer.operator


def _is_prolific(op: Op) -> bool:
    """Tell whether an operator may give several outputs per item, or advance."""
    if has_turns(op):
        return True
    if isinstance(op.kind, Aggregate):
        return op.kind.window.count is None or op.kind.window.every is not None
    return not isinstance(op.kind, Map | Filter | Scan | Union)


def shift_positions(form: Positions) -> Positions:
    """Return positions with one more number, in front."""
    return Positions(
        {name: width + 1 for name, width in form.inside.items()},
        {name: width + 1 for name, width in form.after.items()},
        form.branch,
        form.prolific,
        {name: frozenset(n + 1 for n in found) for name, found in form.turns.items()},
    )


def _meeting(graph: Graph) -> frozenset[str]:
    """Return the operators two of whose branches meet again."""
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
