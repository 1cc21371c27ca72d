"""The kernel of the windowed join."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from anabranch.graph.joins import Join
from anabranch.graph.windows import Window
from anabranch.runtime.kernels.kernel import Kernel, Outputs, State

LEFT = 0


class JoinKernel(Kernel):
    """The state is [left items, right items] for one value of `on`."""

    stateful = True
    forwards_punctuation = False

    def __init__(self, kind: Join) -> None:
        self.match = kind.match
        self.into = kind.into
        self.evict = (_eviction(kind.left_window), _eviction(kind.right_window))

    def open(self) -> State:
        return [[], []]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        other = 1 - port
        self.evict[other](state[other], item)
        outputs = []
        for partner in state[other]:
            left, right = (item, partner) if port == LEFT else (partner, item)
            if self.match is None or self.match(left, right):
                made = (left, right) if self.into is None else self.into(left, right)
                outputs.append(made)
        state[port].append(item)
        self.evict[port](state[port], item)
        return outputs


def _eviction(window: Window) -> Callable[[list[Any], Any], None]:
    """Return the function that drops what has left a window when an item arrives."""
    if window.count is not None:
        size = window.count

        def by_count(items: list[Any], _newest: Any) -> None:
            del items[: max(0, len(items) - size)]

        return by_count
    span = window.time if window.time is not None else window.delta
    assert span is not None and window.on is not None  # noqa: PT018, S101
    value, length = operator.attrgetter(window.on), span

    def by_value(items: list[Any], newest: Any) -> None:
        now = value(newest)
        items[:] = [item for item in items if now - value(item) < length]

    return by_value
