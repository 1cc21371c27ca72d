"""The sequential engine: the meaning of a program, as one thread runs it.

It takes one row of each source in turn, in the order in which the sources were
written, and pushes it through the graph before it takes the next. When all sources
have ended, the operators finish, producers first.

Where rows arrive while the program runs, a source that has none yet is passed over.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from anabranch.engines.engine import Options
from anabranch.engines.sinks import Sinks
from anabranch.engines.thread import RunningThread
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan
from anabranch.runtime.interpreter import Interpreter
from anabranch.runtime.reading.live import POLL_S, Feed, LiveReader
from anabranch.runtime.reading.open import open_reader
from anabranch.runtime.reading.reader import Reader


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
        self._sinks = Sinks(graph, options.on_error)
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
            if not self._stopping.is_set():
                interpreter.finish()
            self._sinks.flush_all()
        except BaseException:
            self._sinks.abort()
            raise
        self._sinks.commit()

    def _turns(self) -> Iterator[tuple[int, int, str, Any]]:
        """Return the rows of all sources: the first of each, the second of each..."""
        sources = self._graph.sources
        readers = [open_reader(op, self._options.on_error) for op in sources]
        names = [op.name for op in sources]
        if any(isinstance(reader, LiveReader) for reader in readers):
            return self._arrivals(names, readers)
        streams = [
            _numbered(index, name, reader)
            for index, (name, reader) in enumerate(zip(names, readers, strict=True))
        ]
        return heapq.merge(*streams, key=itemgetter(0, 1))

    def _arrivals(
        self, names: Sequence[str], readers: Sequence[Reader]
    ) -> Iterator[tuple[int, int, str, Any]]:
        """Return the rows of all sources in turn, as they arrive."""
        feeds = [Feed(reader) for reader in readers]
        try:
            while not self._stopping.is_set():
                arrived = False
                for index, feed in enumerate(feeds):
                    row = feed.next()
                    if row is not None:
                        arrived = True
                        yield row[1], index, names[index], row[0]
                if all(feed.ended for feed in feeds):
                    return
                if not arrived:
                    self._sinks.flush_all()
                    self._stopping.wait(POLL_S)
        finally:
            for feed in feeds:
                feed.close()

    def metrics(self) -> dict[str, Any]:
        read = sum(self._read.values())
        elapsed_s = max(self.elapsed_s, 1e-9)
        return {
            **super().metrics(),
            "read": dict(self._read),
            "delivered": dict(self._sinks.delivered),
            "items_per_s": read / elapsed_s,
        }


def _numbered(
    index: int, name: str, reader: Reader
) -> Iterator[tuple[int, int, str, Any]]:
    for item, number in reader.numbered():
        yield number, index, name, item
