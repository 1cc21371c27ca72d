"""Rounds: the items of a window go through the same body repeatedly.

An engine that works in epochs divides an `iterate` behind punctuations in two. `Gather`
collects the items of each window, in one place; the rounds of a window then depend on
nothing else, so that replicas can run those of several windows side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.kind import (
    ANY,
    Kind,
    Push,
    Traits,
    UserCode,
    keep_nothing,
    keep_one_state,
)
from anabranch.operators.kernel import Kernel, Outputs, State

RunBody: TypeAlias = Callable[[Graph, list[Any]], list[Any]]  # a body on one window


@dataclass(frozen=True, eq=False)
class Iterate(Kind):
    """Send a window, or the whole bounded stream, through `body` round after round.

    `body` is a graph with one `Given` source and one `ToList` sink. The rounds end
    after `rounds` of them, or when `until(items)` is true for the output of a round. If
    its windows were `gathered` before, it keeps nothing from one to the next.
    """

    body: Graph
    rounds: int | None
    until: Callable[[list[Any]], bool] | None
    run: RunBody | None = None  # how an engine runs a round; else one thread does
    gathered: bool | None = None  # whether its items are whole windows
    label: ClassVar[str] = "iterate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        inner = tuple(code for op in self.body.ops for code in op.kind.user_code)
        return inner if self.until is None else (*inner, UserCode("until", self.until))

    def traits(self, op: Op) -> Traits:
        if self.gathered:
            return keep_nothing(op, ANY, punctuation="preserving")
        text = "iterate gathers items for its rounds"
        return keep_one_state(op, text, ANY, punctuation="preserving")


@dataclass(frozen=True, eq=False)
class Gather(Kind):
    """Collect the items of each window for the rounds of an `iterate`."""

    label: ClassVar[str] = "gather"

    def traits(self, op: Op) -> Traits:
        text = "gathers the items of each window for its rounds"
        most = Push(0, 2)  # a window and its punctuation
        return keep_one_state(op, text, most, punctuation="preserving")


class GatheredItems(list[Any]):
    """The items of a window; `at_end` if the end of the stream has closed it."""

    def __init__(self, items: Iterable[Any] = (), *, at_end: bool = False) -> None:
        super().__init__(items)
        self.at_end = at_end


class GatherKernel(Kernel):
    """Keeps as state the items of the window so far."""

    stateful = True
    finishes = True
    handles_punctuation = True

    def open(self) -> State:
        return []

    def process(self, state: State, item: Any, port: int) -> Outputs:
        state.append(item)
        return ()

    def punctuation(self, state: State) -> Outputs:
        items = GatheredItems(state)
        state.clear()
        return self.give(items)

    def finish(self, state: State) -> Outputs:
        return self.give(GatheredItems(state, at_end=True))

    def give(self, items: GatheredItems) -> Outputs:
        """Return the outputs for the items of a window."""
        return [items] if items else []


class IterateKernel(GatherKernel):
    """Gathers the items of a window and runs its rounds."""

    def __init__(self, kind: Iterate, run_body: RunBody) -> None:
        self.kind = kind
        self.run_body = run_body

    def give(self, items: GatheredItems) -> Outputs:
        return run_rounds(self.kind, list(items), self.run_body)


class RoundsKernel(Kernel):
    """Runs the rounds of windows that have been gathered."""

    def __init__(self, kind: Iterate, run_body: RunBody) -> None:
        self.kind = kind
        self.run_body = run_body

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return run_rounds(self.kind, list(item), self.run_body)


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


def gather_windows(op: Op, name: str) -> tuple[Op, Op]:
    """Return the two steps of an `iterate`; `name` is that of the first."""
    assert isinstance(op.kind, Iterate)  # noqa: S101 - the caller has looked
    first = replace(op, name=name, kind=Gather(), type=None, fuse_with=None)
    rounds = replace(op.kind, gathered=True)
    return first, replace(op, kind=rounds, inputs=(Output(name),))
