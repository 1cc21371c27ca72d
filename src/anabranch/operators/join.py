"""The windowed join of two streams: its kind and its kernel."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind, UserCode
from anabranch.graph.traits import ANY, Traits, keep_by_key
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.timescale import Duration, measure, scale_of, span_on
from anabranch.operators.windows import Window, refuse_no_number


@dataclass(frozen=True, eq=False)
class Join(Kind):
    """An item of either side meets the window of the other, oldest item first.

    There is one pair of windows per value of `on`. `match(left, right)` filters the
    pairs and `into(left, right)` makes the output; without it the pair is the output.
    """

    on: tuple[str, ...]
    left_window: Window
    right_window: Window
    match: Callable[[Any, Any], bool] | None = None
    into: Callable[[Any, Any], Any] | None = None
    within: Duration | None = None
    default: tuple[Any, ...] = ()  # what a left item meets if there is no partner
    label: ClassVar[str] = "join"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        given = (("match", self.match), ("into", self.into))
        return tuple(UserCode(role, f) for role, f in given if f is not None)

    def traits(self, op: Op) -> Traits:
        return keep_by_key(op, "the windows of a join are kept", ANY)


LEFT = 0


class JoinKernel(Kernel):
    """Keeps as state [left items, right items] for one value of `on`."""

    stateful = True
    forwards_punctuation = False

    def __init__(self, kind: Join) -> None:
        self.kind = kind
        self.evict = (_eviction(kind.left_window), _eviction(kind.right_window))

    def open(self) -> State:
        return [[], []]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        other = 1 - port
        self.evict[other](state[other], item)
        met = state[other]
        if port == LEFT and not met:
            met = self.kind.default
        pairs = [(item, x) if port == LEFT else (x, item) for x in met]
        outputs = make_pairs(self.kind, pairs)
        state[port].append(item)
        try:
            self.evict[port](state[port], item)
        except Exception:
            state[port].pop()  # an item that cannot be measured is not in
            raise
        return outputs


def make_pairs(kind: Join, pairs: list[tuple[Any, Any]]) -> list[Any]:
    """Return the outputs of the pairs (left, right) that match."""
    match, into = kind.match, kind.into
    return [
        pair if into is None else into(*pair)
        for pair in pairs
        if match is None or match(*pair)
    ]


def _eviction(window: Window) -> Callable[[list[Any], Any], None]:
    """Return the function that evicts old items of a window when an item arrives."""
    if window.count is not None:
        size = window.count

        def by_count(items: list[Any], _newest: Any) -> None:
            del items[: max(0, len(items) - size)]

        return by_count
    span = window.time if window.time is not None else window.delta
    assert span is not None and window.on is not None  # noqa: PT018, S101
    if isinstance(span, dt.timedelta):
        return _by_calendar(window.on, span_on(span, "naive", None, "a window"))
    value, length = attribute_getter(window.on), span

    def by_value(items: list[Any], newest: Any) -> None:
        now = value(newest)
        refuse_no_number(window, now)
        items[:] = [item for item in items if now - value(item) < length]

    return by_value


def _by_calendar(on: str, length: int) -> Callable[[list[Any], Any], None]:
    """Return the function that evicts old items by dates or datetimes."""
    value = attribute_getter(on)

    def evict(items: list[Any], newest: Any) -> None:
        scale = scale_of(value(newest))
        if scale == "number":
            msg = (
                f"{on!r} must be a date or a datetime where a window has a length with a "
                f"unit; got {value(newest)!r}; give the length as a number"
            )
            raise TypeError(msg)
        now = measure(value(newest), scale, on)
        items[:] = [x for x in items if now - measure(value(x), scale, on) < length]

    return evict
