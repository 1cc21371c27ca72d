"""Divides an element into segments that alternate between columns and Python.

A batch goes through one segment after the other. Operators that have kernels are in
segments with an even number, the others in those with an odd one, each as early as its
producers allow. So streams may fork and meet: a segment reads from earlier ones only,
and every operator sees its items in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from anabranch.graph.graph import Edge, Graph
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.stateless import Split


@dataclass(frozen=True)
class ElementSegment:
    """Operators of an element that run together, in columns or in Python."""

    operators: tuple[str, ...]
    in_columns: bool

    def find_entries(self, graph: Graph) -> tuple[Edge, ...]:
        """Return the streams that lead into it."""
        return tuple(
            edge
            for edge in graph.edges
            if edge.consumer.operator in self.operators
            and edge.producer.operator not in self.operators
        )


def divide_into_segments(
    graph: Graph, operators: Iterable[str], in_columns: Collection[str]
) -> tuple[ElementSegment, ...]:
    """Return the segments of an element, in the order in which they run.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> ops = [Op("a", Kind())] + [Op(n, Kind(), (Output("a"),)) for n in "bc"]
    >>> ops.append(Op("d", Kind(), (Output("b"), Output("c"))))
    >>> made = divide_into_segments(Graph(tuple(ops)), "abcd", "abd")
    >>> [("".join(one.operators), one.in_columns) for one in made]
    [('ab', True), ('c', False), ('d', True)]
    """
    inside = {*operators}
    number: dict[str, int] = {}
    for op in graph:
        if op.name not in inside or isinstance(op.kind, SourceKind | SinkKind):
            continue
        earliest = max((number.get(p, 0) for p in graph.producers(op.name)), default=0)
        in_python = op.name not in in_columns
        number[op.name] = earliest + (earliest % 2 != in_python)
    return tuple(
        ElementSegment(tuple(name for name in number if number[name] == n), n % 2 == 0)
        for n in sorted({*number.values()})
    )


def is_line(graph: Graph, inner: Sequence[str]) -> bool:
    """Tell whether operators form a straight line with one output stream."""
    if any(
        len(graph.out_edges(name)) != 1
        or len(graph[name].inputs) != 1
        or isinstance(graph[name].kind, Split)  # even if one of its streams is read
        for name in inner
    ):
        return False
    return sum(graph.producers(name)[0] not in inner for name in inner) == 1


def why_not_in_segments(
    graph: Graph,
    segments: Sequence[ElementSegment],
    effects: Collection[str],
    together: Sequence[Sequence[str]],
) -> str | None:
    """Return why an element cannot run segment by segment, or None.

    Operators that share something, or have visible effects, would notice that others
    take a whole batch before them. They can be in one segment whose items come in one
    stream.
    """
    for group in (sorted(effects), *together):
        holding = [one for one in segments if not {*group}.isdisjoint(one.operators)]
        inside = [name for one in holding for name in one.operators if name in group]
        if len(inside) > 1 and (
            len(holding) > 1 or len(holding[0].find_entries(graph)) > 1
        ):
            first, second = inside[:2]
            return f"{first} and {second}, which run with it, must take turns by item"
    return None
