"""Where items go at the end of a program, in the process of the caller."""

from __future__ import annotations

from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.sinks import ForEach, ToList, WriteFiles
from anabranch.runtime.writing.writer import Writer, open_writer


class Sinks:
    """All sinks of a program: each item at once, files complete at the end."""

    def __init__(self, graph: Graph) -> None:
        self._writers: dict[str, Writer] = {}
        self.delivered = {op.name: 0 for op in graph.sinks}
        for op in graph.sinks:
            if isinstance(op.kind, ToList):
                op.kind.items.clear()
            elif isinstance(op.kind, WriteFiles):
                item_type = graph[op.inputs[0].operator].type
                self._writers[op.name] = open_writer(op, item_type)

    def deliver(self, op: Op, item: Any) -> None:
        """Hand an item to its sink."""
        match op.kind:
            case ToList(items=items):
                items.append(item)
            case ForEach(function=function):
                function(item)
            case _:
                self._writers[op.name].write(item)
        self.delivered[op.name] += 1

    def commit(self) -> None:
        """Make the files visible."""
        for writer in self._writers.values():
            writer.commit()

    def abort(self) -> None:
        """Leave no half-written file."""
        for writer in self._writers.values():
            writer.abort()
