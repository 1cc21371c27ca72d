"""The kernel of `iterate`: a whole program inside an operator, run in rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from anabranch.graph.graph import Graph
from anabranch.graph.iterate import Iterate
from anabranch.runtime.kernels.kernel import Kernel, Outputs, State

RunBody: TypeAlias = Callable[[Graph, list[Any]], list[Any]]  # a body on one window


class IterateKernel(Kernel):
    """The state is the items of the window so far."""

    stateful = True
    finishes = True
    handles_punctuation = True

    def __init__(self, kind: Iterate, run_body: RunBody) -> None:
        self.kind = kind
        self.run_body = run_body

    def open(self) -> State:
        return []

    def process(self, state: State, item: Any, port: int) -> Outputs:
        state.append(item)
        return ()

    def punctuation(self, state: State) -> Outputs:
        items = state[:]
        state.clear()
        return self._rounds(items)

    def finish(self, state: State) -> Outputs:
        return self._rounds(state[:])

    def _rounds(self, items: list[Any]) -> list[Any]:
        if not items:
            return []
        done = 0
        while self.kind.rounds is None or done < self.kind.rounds:
            items = self.run_body(self.kind.body, items)
            done += 1
            if self.kind.until is not None and self.kind.until(items):
                break
        return items
