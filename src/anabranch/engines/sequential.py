"""The sequential engine: the meaning of a program, as one thread runs it.

It takes one item of each source in turn, in the order in which the sources were
written, and pushes it through the graph before it takes the next. When all sources
have ended, the operators finish, producers first.
"""

from __future__ import annotations

from typing import Any

from anabranch.engines.engine import Options
from anabranch.engines.sinks import Sinks
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan
from anabranch.runtime.interpreter import Interpreter
from anabranch.runtime.reading.reader import open_reader


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
        on_error = self._options.on_error
        interpreter = Interpreter(self._graph, self._sinks.deliver, on_error)
        readers = {
            op.name: iter(open_reader(op, on_error)) for op in self._graph.sources
        }
        try:
            while readers and not self._stopping.is_set():
                for name in list(readers):
                    for item in readers[name]:
                        number = self._read[name]
                        interpreter.push(name, item, f"item {number} of {name}")
                        self._read[name] = number + 1
                        break
                    else:
                        del readers[name]
            if not self._stopping.is_set():
                interpreter.finish()
        except BaseException:
            self._sinks.abort()
            raise
        self._sinks.commit()

    def metrics(self) -> dict[str, Any]:
        read = sum(self._read.values())
        elapsed_s = max(self.elapsed_s, 1e-9)
        return {
            **super().metrics(),
            "read": dict(self._read),
            "delivered": dict(self._sinks.delivered),
            "items_per_s": read / elapsed_s,
        }
