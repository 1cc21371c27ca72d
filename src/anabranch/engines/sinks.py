"""Where items go at the end of a program, in the process of the caller."""

from __future__ import annotations

import uuid
from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.sinks import EpochSink, ForEach, ToList, WriteFiles
from anabranch.runtime.failures import OnError, failure_of, stop
from anabranch.runtime.writing.external import External
from anabranch.runtime.writing.open_external import open_external
from anabranch.runtime.writing.writer import Writer, open_writer

_HELD_ITEMS = 8192  # an epoch of a sink outside, if nothing ends it earlier


class Sinks:
    """All sinks of a program: each item at once, files complete at the end.

    Sinks outside get what was delivered between two calls of `flush`, as an epoch.
    """

    def __init__(self, graph: Graph, on_error: OnError = stop) -> None:
        self._on_error = on_error
        self._writers: dict[str, Writer] = {}
        self._externals: dict[str, External] = {}
        self._held: dict[str, list[Any]] = {}
        self._epoch = 0
        self.delivered = {op.name: 0 for op in graph.sinks}
        job = uuid.uuid4().hex[:12]
        for op in graph.sinks:
            item_type = graph[op.inputs[0].operator].type
            if isinstance(op.kind, EpochSink):
                self._externals[op.name] = open_external(op, item_type, job)
                self._held[op.name] = []
        for op in graph.sinks:
            if isinstance(op.kind, ToList):
                op.kind.items.clear()
            elif isinstance(op.kind, WriteFiles):
                item_type = graph[op.inputs[0].operator].type
                self._writers[op.name] = open_writer(op, item_type)
        self._ops = {op.name: op for op in graph.sinks}

    def deliver(self, op: Op, item: Any) -> None:
        """Hand an item to its sink."""
        match op.kind:
            case ToList(items=items):
                items.append(item)
            case ForEach(function=function):
                function(item)
            case EpochSink():
                held = self._held[op.name]
                held.append(item)
                if len(held) >= _HELD_ITEMS:
                    self.flush(op)
                return
            case _:
                self._writers[op.name].write(item)
        self.delivered[op.name] += 1

    def flush(self, op: Op) -> None:
        """Have a sink outside write what it holds; other sinks hold nothing."""
        held = self._held.get(op.name)
        if not held:
            return
        self._held[op.name] = []
        self._epoch += 1

        def refuse(item: Any, error: Exception) -> None:
            number = self.delivered[op.name] + 1
            where = f"an item of sink {op.name}, after {number - 1} others"
            self._on_error(failure_of(op, item, where, error))

        taken = self._externals[op.name].write(self._epoch, held, refuse)
        self.delivered[op.name] += taken

    def flush_all(self) -> None:
        """Have all sinks outside write what they hold."""
        for name in self._externals:
            self.flush(self._ops[name])

    def commit(self) -> None:
        """Make the files visible."""
        self.flush_all()
        self._close()
        for writer in self._writers.values():
            writer.commit()

    def abort(self) -> None:
        """Leave no half-written file."""
        self._close()
        for writer in self._writers.values():
            writer.abort()

    def _close(self) -> None:
        for external in self._externals.values():
            external.close()
