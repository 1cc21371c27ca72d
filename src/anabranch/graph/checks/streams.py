"""What a check can ask about the streams of a graph, however broken the graph is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from anabranch.errors import Fault
from anabranch.graph.graph import Graph, Op, Output

Check: TypeAlias = Callable[["Streams"], Iterator[Fault]]


class Streams:
    """The operators by name; what two operators of one name make unclear is unknown."""

    def __init__(self, graph: Graph) -> None:
        self.ops = graph.ops
        counts = Counter(op.name for op in graph)
        self._by_name = {op.name: op for op in graph if counts[op.name] == 1}
        self.names = frozenset(counts)

    def producer(self, stream: Output) -> Op | None:
        """Return the operator that a stream comes from, if it is known."""
        return self._by_name.get(stream.operator)

    def type(self, stream: Output) -> Any | None:
        """Return the type of the items of a stream, if it is known."""
        producer = self.producer(stream)
        return None if producer is None else producer.type

    def types(self, op: Op) -> list[Any | None]:
        """Return the types of what an operator consumes, by input."""
        return [self.type(stream) for stream in op.inputs]

    def item_type(self, op: Op) -> Any | None:
        """Return the type of what an operator with one input consumes."""
        return self.type(op.inputs[0]) if len(op.inputs) == 1 else None


def fault(op: Op, text: str, fix: str) -> Fault:
    """Return a fault of an operator, at the line that made it."""
    return Fault(op.name, text, fix, op.site.file, op.site.line)
