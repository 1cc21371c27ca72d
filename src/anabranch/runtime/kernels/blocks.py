"""Kernels of the fixed-rate operators that stand on one stream."""

from __future__ import annotations

from typing import Any

from anabranch.errors import OperatorError
from anabranch.graph.blocks import Block, Deal
from anabranch.graph.kinds import shown
from anabranch.runtime.kernels.kernel import Kernel, Outputs, State
from anabranch.runtime.kernels.stateless import finite


class BlockKernel(Kernel):
    """The state is the items that have come but have not been popped."""

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
                f"items; got {len(outputs)}; see {shown(self.kind.function)}"
            )
            raise OperatorError(msg)
        return outputs


class DealKernel(Kernel):
    """The state is [branch whose turn it is, items left in its turn]."""

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
