"""Operators that join streams: by arrival, by an attribute, or item by item."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    ANY,
    AT_MOST_ONE,
    ONE,
    Kind,
    Traits,
    UserCode,
    keep_by_key,
    keep_nothing,
    keep_one_state,
)
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, Outputs, State


@dataclass(frozen=True, eq=False)
class Union(Kind):
    """The items of all inputs in order of arrival."""

    label: ClassVar[str] = "union"

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, ONE, forwards=None)


@dataclass(frozen=True, eq=False)
class Merge(Kind):
    """The items of all inputs by ascending `by`; the earlier input first on a tie.

    With `on` the items of each key are merged by themselves.
    """

    by: str
    on: tuple[str, ...] = ()
    label: ClassVar[str] = "merge"
    keyable: ClassVar[bool] = True

    def traits(self, op: Op) -> Traits:
        text = f"merge holds items back until those with a lower {self.by} have come"
        if not op.keyed_by:
            return keep_one_state(op, text, ANY, forwards=None)
        forwards = frozenset(op.keyed_by)  # an item releases others of its key
        return keep_by_key(op, f"{text},", ANY, forwards=forwards)


@dataclass(frozen=True, eq=False)
class Barrier(Kind):
    """One output per full set: `into(*items)`, one item of each input.

    With `on` the items of a set have the same key.
    """

    into: Callable[..., Any] | None = None
    on: tuple[str, ...] = ()
    label: ClassVar[str] = "barrier"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return () if self.into is None else (UserCode("into", self.into),)

    def traits(self, op: Op) -> Traits:
        text = "barrier holds items back until every stream has one"
        if not op.keyed_by:
            return keep_one_state(op, text, AT_MOST_ONE)
        return keep_by_key(op, f"{text},", AT_MOST_ONE)


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
