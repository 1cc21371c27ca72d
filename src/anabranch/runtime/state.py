"""Where the states of an operator live while it runs: a dictionary by key."""

from __future__ import annotations

from typing import Any

from anabranch.graph.graph import Op
from anabranch.operators.kernel import Kernel, State
from anabranch.runtime.keys import key_bytes


class States(dict[Any, State]):
    """The states of one operator by key; a key that is new gets a fresh state.

    An operator without a key has the one state `()`, which is there from the start.

    >>> from anabranch.operators.custom import Scan
    >>> from anabranch.runtime.interpreter import kernel_of
    >>> op = Op("count", Scan(lambda n, item: (n + 1, n), 0), key=("symbol",))
    >>> states = States(op, kernel_of(op))
    >>> states["A"], sorted(states)
    ([0], ['A'])
    """

    def __init__(self, op: Op, kernel: Kernel, *, fresh: bool = True) -> None:
        """Open what is there from the start, unless states are about to move in."""
        super().__init__()
        self._kernel = kernel
        if fresh and not op.state_key:
            self[()] = kernel.open()

    def __missing__(self, key: Any) -> State:
        key_bytes(key)  # refuses what cannot be a key on any engine
        state = self[key] = self._kernel.open()
        return state
