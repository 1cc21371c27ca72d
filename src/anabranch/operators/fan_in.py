"""Kernels of the operators that join several streams in step."""

from __future__ import annotations

from collections import deque
from typing import Any

from anabranch.operators.blocks import Collect
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.stateless import Barrier, Merge


class MergeKernel(Kernel):
    """Keeps as state one queue of (value of `by`, item) per input."""

    stateful = True
    finishes = True
    forwards_punctuation = False

    def __init__(self, kind: Merge, inputs: int) -> None:
        self.by = attribute_getter(kind.by)
        self.inputs = inputs

    def open(self) -> State:
        return [deque() for _ in range(self.inputs)]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        state[port].append((self.by(item), item))
        if not all(state):
            return ()
        if self.inputs == 2:  # noqa: PLR2004 - the usual case, a third cheaper
            return self._merge_two(*state)
        outputs = []
        while all(state):
            outputs.append(self._least(state))
        return outputs

    def _merge_two(self, left: deque[Any], right: deque[Any]) -> list[Any]:
        outputs = []
        while left and right:
            first_right = right[0][0] < left[0][0]
            outputs.append((right if first_right else left).popleft()[1])
        return outputs

    def finish(self, state: State) -> Outputs:
        outputs = []
        while any(state):
            outputs.append(self._least([queue for queue in state if queue]))
        return outputs

    def _least(self, queues: list[deque[Any]]) -> Any:
        # min() takes the first of equals: on a tie the earlier input goes first.
        return min(queues, key=lambda queue: queue[0][0]).popleft()[1]


class BarrierKernel(Kernel):
    """Keeps as state one queue per input; items without a partner at the end are
    dropped.
    """

    stateful = True
    forwards_punctuation = False

    def __init__(self, kind: Barrier, inputs: int) -> None:
        self.into = kind.into
        self.inputs = inputs

    def open(self) -> State:
        return [deque() for _ in range(self.inputs)]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        state[port].append(item)
        if not all(state):
            return ()
        items = tuple(queue.popleft() for queue in state)
        return (items if self.into is None else self.into(*items),)


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
