"""Kernels of `scan` and of the user's own `Operator` classes."""

from __future__ import annotations

import copy
from typing import Any

from anabranch.errors import OperatorError
from anabranch.graph.custom import Apply, Operator, Scan
from anabranch.graph.kinds import shown
from anabranch.runtime.kernels.kernel import Kernel, Outputs, State
from anabranch.runtime.kernels.stateless import finite


class ScanKernel(Kernel):
    """The state is a list of one: the user's own value."""

    stateful = True

    def __init__(self, kind: Scan) -> None:
        self.step = kind.step
        self.initial = kind.initial

    def open(self) -> State:
        # Each key starts from a value of its own, even if `step` changes it in place.
        return [copy.deepcopy(self.initial)]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        result = self.step(state[0], item)
        if not isinstance(result, tuple) or len(result) != 2:  # noqa: PLR2004
            msg = (
                f"step must return (state, output); got {result!r}; "
                f"see {shown(self.step)}"
            )
            raise OperatorError(msg)
        state[0], output = result
        return (output,)


class ApplyKernel(Kernel):
    """The state is the user's instance."""

    stateful = True

    def __init__(self, kind: Apply) -> None:
        self.kind = kind
        self.handles_punctuation = kind.overrides("punctuation")
        self.finishes = kind.overrides("finish")

    def open(self) -> State:
        return self.kind.instance()

    def process(self, state: Operator, item: Any, port: int) -> Outputs:
        return finite(state.process(item), state.process)

    def punctuation(self, state: Operator) -> Outputs:
        return finite(state.punctuation(), state.punctuation)

    def finish(self, state: Operator) -> Outputs:
        return finite(state.finish(), state.finish)
