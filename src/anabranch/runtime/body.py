"""The rounds of an `iterate`, run by one thread or by all replicas, whichever is
faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from anabranch.errors import RefutedError
from anabranch.graph.graph import Graph, Op
from anabranch.operators.sinks import ToList
from anabranch.operators.sources import FromIterable, Given
from anabranch.runtime.interpreter import run_graph

RunRound: TypeAlias = Callable[
    [Graph, list[Any], int], list[Any]
]  # on so many replicas


class BodyRunner:
    """Runs the rounds of an `iterate`: each is a program of its own, on all replicas.

    One thread runs the first round; if it takes longer than `worth_s`, the next has
    `most` replicas, and the faster choice continues. If `worth_s` is 0, all rounds have
    them. `prepare` is called once before that.
    """

    def __init__(
        self,
        run: RunRound,
        most: int,
        worth_s: float,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._run = run
        self._most = most
        self._worth_s = worth_s
        self._prepare = prepare
        self._took_s: dict[int, float] = {}  # by degree, per item

    def __call__(self, graph: Graph, items: list[Any]) -> list[Any]:
        """Run the body on the items of a window."""
        degree = self._choose_degree(len(items))
        if degree > 1:
            self._prepare()
        began_s = time.perf_counter()
        if degree == 1:
            outputs = run_graph(graph, items)
        else:
            try:
                outputs = self._run(graph, items, degree)
            except RefutedError:
                raise  # its changes would count twice
            except Exception:  # noqa: BLE001 - one thread tells which failure is first
                outputs = run_graph(graph, items)
        self._took_s[degree] = (time.perf_counter() - began_s) / max(1, len(items))
        return outputs

    def _choose_degree(self, items: int) -> int:
        if self._worth_s == 0:
            return self._most
        alone_s = self._took_s.get(1)
        if alone_s is None or alone_s * items < self._worth_s or self._most == 1:
            return 1
        if self._most not in self._took_s:
            return self._most
        return min(self._took_s, key=self._took_s.__getitem__)


def feed_body(graph: Graph, items: list[Any], outputs: list[Any]) -> Graph:
    """Return a body with its input items and its output list."""

    def feed(op: Op) -> Op:
        match op.kind:
            case Given():
                return replace(op, kind=FromIterable(items))
            case ToList():
                return replace(op, kind=ToList(outputs))
        return op

    return Graph(tuple(map(feed, graph)))
