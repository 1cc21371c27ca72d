"""Rounds: the items of a window go through the same body repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import ANY, Kind, Traits, UserCode, keep_one_state
from anabranch.operators.kernel import Kernel, Outputs, State

RunBody: TypeAlias = Callable[[Graph, list[Any]], list[Any]]  # a body on one window


@dataclass(frozen=True, eq=False)
class Iterate(Kind):
    """Send a window, or the whole bounded stream, through `body` round after round.

    `body` is a graph with one `Given` source and one `ToList` sink. The rounds end
    after `rounds` of them, or when `until(items)` is true for the output of a round.
    """

    body: Graph
    rounds: int | None
    until: Callable[[list[Any]], bool] | None
    run: RunBody | None = None  # how an engine runs a round; else one thread does
    label: ClassVar[str] = "iterate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        inner = tuple(code for op in self.body.ops for code in op.kind.user_code)
        return inner if self.until is None else (*inner, UserCode("until", self.until))

    def traits(self, op: Op) -> Traits:
        return keep_one_state(op, "iterate gathers items for its rounds", ANY)


class IterateKernel(Kernel):
    """Keeps as state the items of the window so far."""

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
        return run_rounds(self.kind, items, self.run_body)

    def finish(self, state: State) -> Outputs:
        return run_rounds(self.kind, state[:], self.run_body)


def run_rounds(kind: Iterate, items: list[Any], run_body: RunBody) -> list[Any]:
    """Run the rounds on the items of a window; return the result of the last."""
    if not items:
        return []
    done = 0
    while kind.rounds is None or done < kind.rounds:
        items = run_body(kind.body, items)
        done += 1
        if kind.until is not None and kind.until(items):
            break
    return items
