"""The sequential engine: a program as one thread runs it.

It takes one row of each source in turn, in the order in which the sources were written,
and pushes it through the graph before it takes the next. When all sources have ended,
the operators finish, producers first.

A live source that has no row yet is skipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from anabranch.connectors.open import open_reader
from anabranch.connectors.reader import POLL_S, Feed, LiveReader, Reader, Silence
from anabranch.engines.sinks import Sinks
from anabranch.graph.graph import Graph
from anabranch.metrics.job_metrics import Metrics
from anabranch.operators.clock import has_idle
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import Failure
from anabranch.runtime.interpreter import Interpreter
from anabranch.runtime.memory_reserve import release_for
from anabranch.runtime.thread import Options, Places, RunningThread, operators_of


class SequentialEngine:
    """Runs a program as it was written."""

    def start(self, graph: Graph, plan: Plan, options: Options) -> SequentialRun:
        run = SequentialRun(graph, options)
        run.begin()
        return run


class SequentialRun(RunningThread):
    """A program on the sequential engine."""

    def __init__(self, graph: Graph, options: Options) -> None:
        super().__init__("anabranch-sequential", graph, options)
        self._options = options
        self._sinks = Sinks(graph, options.on_error)
        self._read = {op.name: 0 for op in graph.sources}
        self._silence: Silence | None = None

    def _run(self) -> bool:
        interpreter = Interpreter(self._graph, self._sinks.deliver, self._on_error)
        try:
            for number, _, source, item in self._turns():
                if self._stopping.is_set():
                    break
                if self._silence is not None:
                    self._silence.note(source)
                    interpreter.set_idle(self._silence.find_idle_ports())
                interpreter.push(source, item, f"item {number} of {source}")
                self._read[source] += 1
            complete = self._goes_on() and interpreter.finish(self._goes_on)
            self._sinks.flush_all()
        except BaseException as error:
            release_for(error)
            self._sinks.fail()
            raise
        self._sinks.close(publish=complete or self._graph.live)
        return complete

    def _on_error(self, failure: Failure) -> None:
        self._sinks.refuse_if_abandoned()
        self._options.on_error(failure)

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()

    def _busy_operators(self) -> list[str]:
        return operators_of([self._thread], _PLACES)

    def _abandon(self) -> None:
        self._sinks.abandon(publish=self._graph.live)

    def _turns(self) -> Iterator[tuple[int, int, str, Any]]:
        """Yield the rows of all sources: the first of each, the second of each..."""
        sources = self._graph.sources
        readers = [open_reader(op, self._options.on_error) for op in sources]
        names = [op.name for op in sources]
        if any(isinstance(reader, LiveReader) for reader in readers):
            return self._arrivals(names, readers)
        streams = [
            _number_items(index, name, reader)
            for index, (name, reader) in enumerate(zip(names, readers, strict=True))
        ]
        return heapq.merge(*streams, key=itemgetter(0, 1))

    def _arrivals(
        self, names: Sequence[str], readers: Sequence[Reader]
    ) -> Iterator[tuple[int, int, str, Any]]:
        """Yield the rows of all sources in turn, as they arrive."""
        feeds = [Feed(reader) for reader in readers]
        if has_idle(self._graph):
            named = zip(names, readers, strict=True)
            live = [name for name, one in named if isinstance(one, LiveReader)]
            self._silence = Silence(self._graph, live)
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

    def metrics(self) -> Metrics:
        elapsed_s = self.elapsed_s
        return Metrics(
            "sequential",
            self.status,
            elapsed_s,
            read=dict(self._read),
            delivered=dict(self._sinks.delivered),
            items_per_s=sum(self._read.values()) / max(elapsed_s, 1e-9),
        )


def _number_items(
    index: int, name: str, reader: Reader
) -> Iterator[tuple[int, int, str, Any]]:
    for item, number in reader.read_numbered():
        yield number, index, name, item


# The position of the thread, by the code it runs: an operator, or the reader of a
# source.
_PLACES: Places = {
    **dict.fromkeys(
        (
            Interpreter._at_item.__code__,  # noqa: SLF001
            Interpreter._ask.__code__,  # noqa: SLF001
            Interpreter._end.__code__,  # noqa: SLF001
            Interpreter._sink.__code__,  # noqa: SLF001
        ),
        lambda frame: frame.f_locals["cell"].op.name,
    ),
    _number_items.__code__: lambda frame: frame.f_locals["name"],
    SequentialRun._arrivals.__code__: lambda frame: frame.f_locals["names"][  # noqa: SLF001
        frame.f_locals["index"]
    ],
}
