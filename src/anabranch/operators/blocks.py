"""Fixed-rate operators on one stream: blocks, and the two halves of a split-join."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.errors import OperatorError
from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    ANY,
    ONE,
    Kind,
    Push,
    Traits,
    UserCode,
    keep_by_key,
    keep_nothing,
    keep_one_state,
)
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.stateless import describe_function, finite


@dataclass(frozen=True, eq=False)
class Block(Kind):
    """`function` peeks at `peek` items, pops `pop` of them and pushes `push` items."""

    function: Callable[[Sequence[Any]], Any]
    pop: int
    push: int
    peek: int
    label: ClassVar[str] = "block"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)

    def traits(self, op: Op) -> Traits:
        push = Push(self.push, self.push)
        if self.pop == self.peek == 1:
            return keep_nothing(op, push, pop=1)
        return keep_by_key(op, "a block buffers items", push, pop=self.pop)


@dataclass(frozen=True)
class Duplicate:
    """The splitter that sends every item to every branch."""


@dataclass(frozen=True)
class RoundRobin:
    """Deals or collects `weights[i]` items at a time for branch i."""

    weights: tuple[int, ...]


def duplicate() -> Duplicate:
    """Return the splitter that sends every item to every branch.

    >>> import anabranch as ab
    >>> ab.duplicate()
    Duplicate()
    """
    return Duplicate()


def round_robin(weights: Sequence[int] | int = ()) -> RoundRobin:
    """Return a splitter or joiner that takes the branches in turn.

    >>> import anabranch as ab
    >>> ab.round_robin([2, 1])
    RoundRobin(weights=(2, 1))

    Without weights every branch has one item per turn; a single number applies to all.
    """
    return RoundRobin((weights,) if isinstance(weights, int) else tuple(weights))


@dataclass(frozen=True, eq=False)
class Deal(Kind):
    """The splitter of a split-join: `weights[i]` items to branch i, in turn."""

    weights: tuple[int, ...]
    label: ClassVar[str] = "deal"

    @property
    def outputs(self) -> int:
        return len(self.weights)

    def traits(self, op: Op) -> Traits:
        text = "a splitter counts whose turn it is"
        return keep_one_state(op, text, ONE, forwards=None)


@dataclass(frozen=True, eq=False)
class Collect(Kind):
    """The joiner of a split-join: `weights[i]` items from branch i, in turn."""

    weights: tuple[int, ...]
    label: ClassVar[str] = "collect"

    def traits(self, op: Op) -> Traits:
        text = "a joiner takes the branches in turn"
        return keep_one_state(op, text, ANY, forwards=None)


class BlockKernel(Kernel):
    """Keeps as state the items that have arrived but were not popped."""

    stateful = True
    forwards_punctuation = False

    def __init__(self, kind: Block) -> None:
        self.kind = kind

    def open(self) -> State:
        return []

    def process(self, state: State, item: Any, port: int) -> Outputs:
        state.append(item)
        if len(state) < self.kind.peek:
            return ()
        seen = state[:]
        del state[: self.kind.pop]  # first: items that fail must not come again
        outputs = finite(self.kind.function(seen), self.kind.function)
        if len(outputs) != self.kind.push:
            msg = (
                f"a block that declares push={self.kind.push} must give that many "
                f"items; got {len(outputs)}; see {describe_function(self.kind.function)}"
            )
            raise OperatorError(msg)
        return outputs


class DealKernel(Kernel):
    """Keeps as state [current branch, items left in its turn]."""

    stateful = True
    routed = True
    forwards_punctuation = False

    def __init__(self, kind: Deal) -> None:
        self.weights = kind.weights

    def open(self) -> State:
        return [0, self.weights[0]]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        while state[1] == 0:
            state[0] = (state[0] + 1) % len(self.weights)
            state[1] = self.weights[state[0]]
        state[1] -= 1
        return ((state[0], item),)


class CollectKernel(Kernel):
    """Keeps as state [queues, current branch, items left in its turn]."""

    stateful = True
    finishes = True
    forwards_punctuation = False

    def __init__(self, kind: Collect) -> None:
        self.weights = kind.weights

    def open(self) -> State:
        state = [[deque() for _ in self.weights], -1, 0]
        self._next_turn(state)
        return state

    def process(self, state: State, item: Any, port: int) -> Outputs:
        if self.weights[port] == 0:  # its turn never comes
            return ()
        state[0][port].append(item)
        outputs: list[Any] = []
        while state[0][state[1]]:
            self._take(state, outputs)
        return outputs

    def finish(self, state: State) -> Outputs:
        """Continue in turn, skipping the branches that have nothing left."""
        outputs: list[Any] = []
        while any(state[0]):
            if state[0][state[1]]:
                self._take(state, outputs)
            else:
                self._next_turn(state)
        return outputs

    def _take(self, state: State, outputs: list[Any]) -> None:
        outputs.append(state[0][state[1]].popleft())
        state[2] -= 1
        if state[2] == 0:
            self._next_turn(state)

    def _next_turn(self, state: State) -> None:
        while True:
            state[1] = (state[1] + 1) % len(self.weights)
            state[2] = self.weights[state[1]]
            if state[2]:
                return
