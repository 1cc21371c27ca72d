"""The sequential engine: the meaning of a program, as one thread runs it.

It takes one row of each source in turn, in the order in which the sources were
written, and pushes it through the graph before it takes the next. When all sources
have ended, the operators finish, producers first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from anabranch.engines.engine import Options
from anabranch.engines.sinks import Sinks
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph, Op
from anabranch.plan.plan import Plan
from anabranch.runtime.interpreter import Interpreter
from anabranch.runtime.reading.open import open_reader


class SequentialEngine:
    """Runs a program as it was written."""

    def start(self, graph: Graph, plan: Plan, options: Options) -> SequentialRun:
        run = SequentialRun(graph, options)
        run.begin()
        return run


class SequentialRun(RunningThread):
    """A program on the sequential engine."""

    def __init__(self, graph: Graph, options: Options) -> None:
        super().__init__("anabranch-sequential")
        self._graph = graph
        self._options = options
        self._sinks = Sinks(graph)
        self._read = {op.name: 0 for op in graph.sources}

    def _run(self) -> None:
        interpreter = Interpreter(
            self._graph, self._sinks.deliver, self._options.on_error
        )
        try:
            for number, _, source, item in self._turns():
                if self._stopping.is_set():
                    break
                interpreter.push(source, item, f"item {number} of {source}")
                self._read[source] += 1
            else:
                interpreter.finish()
        except BaseException:
            self._sinks.abort()
            raise
        self._sinks.commit()

    def _turns(self) -> Iterator[tuple[int, int, str, Any]]:
        """Return the rows of all sources: the first of each, the second of each..."""
        streams = [
            self._numbered(index, op) for index, op in enumerate(self._graph.sources)
        ]
        return heapq.merge(*streams, key=itemgetter(0, 1))

    def _numbered(self, index: int, op: Op) -> Iterator[tuple[int, int, str, Any]]:
        for item, number in open_reader(op, self._options.on_error).numbered():
            yield number, index, op.name, item

    def metrics(self) -> dict[str, Any]:
        read = sum(self._read.values())
        elapsed_s = max(self.elapsed_s, 1e-9)
        return {
            **super().metrics(),
            "read": dict(self._read),
            "delivered": dict(self._sinks.delivered),
            "items_per_s": read / elapsed_s,
        }
