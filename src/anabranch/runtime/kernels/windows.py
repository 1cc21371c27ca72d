"""Which items a window holds and when it is emitted; the rules are in docs/semantics.md.

A `Shape` adds an item to the state of a window and returns the windows that close; the
kernel of `aggregate` makes one output of each.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from anabranch.errors import LateItemError
from anabranch.graph.windows import Aggregate, Column, Window, row_type
from anabranch.runtime.kernels.kernel import Kernel, Outputs, State

Items = list[Any]


class Shape(ABC):
    """One kind of window."""

    @abstractmethod
    def open(self) -> State:
        """Return the state of an empty window."""

    @abstractmethod
    def add(self, state: State, item: Any) -> list[Items]:
        """Add an item and return the windows that this closes, in order."""

    def cut(self, state: State) -> list[Items]:
        """Return what a window punctuation closes."""
        return []

    @abstractmethod
    def finish(self, state: State) -> list[Items]:
        """Return the windows that are still open at the end, in order."""


class CountTumbling(Shape):
    """Items (k-1)n+1 to kn; the state is the items so far."""

    def __init__(self, size: int) -> None:
        self.size = size

    def open(self) -> State:
        return []

    def add(self, state: State, item: Any) -> list[Items]:
        state.append(item)
        if len(state) < self.size:
            return []
        window = state[:]
        state.clear()
        return [window]

    def finish(self, state: State) -> list[Items]:
        return [state[:]] if state else []


class CountSliding(Shape):
    """Window k holds items k*every-size+1 to k*every; the state is [items, total]."""

    def __init__(self, size: int, every: int) -> None:
        self.size = size
        self.every = every

    def open(self) -> State:
        return [[], 0]

    def add(self, state: State, item: Any) -> list[Items]:
        items = state[0]
        items.append(item)
        if len(items) > self.size:
            del items[0]
        state[1] += 1
        return [] if state[1] % self.every else [items[:]]

    def finish(self, state: State) -> list[Items]:
        items, total = state
        missing = -total % self.every
        kept = min(len(items), self.size - missing)
        return [items[-kept:]] if missing and kept > 0 else []


class TimeSliding(Shape):
    """For each multiple b of `every`, the items with b-size <= time < b.

    The state is [items, times, k]: the next window to close ends at k*every.
    """

    def __init__(self, window: Window) -> None:
        assert window.time is not None and window.on is not None  # noqa: PT018, S101
        self.size = window.time
        self.every = window.time if window.every is None else window.every
        self.window = window
        self.time = operator.attrgetter(window.on)

    def open(self) -> State:
        return [[], [], None]

    def add(self, state: State, item: Any) -> list[Items]:
        time = self.time(item)
        end = time // self.every + 1
        if state[2] is None:
            state[2] = end
        elif end < state[2]:
            if self.window.late == "drop":
                return []
            if self.window.late == "error":
                self._refuse(item, time, state[2])
            end = state[2]
            time = max((end - 1) * self.every, end * self.every - self.size)
        closed = []
        while state[0] and end > state[2]:
            closed.append(state[0][:])
            self._advance(state)
        state[2] = end
        if time >= end * self.every - self.size:  # else it lies between two windows
            state[0].append(item)
            state[1].append(time)
        return closed

    def finish(self, state: State) -> list[Items]:
        closed = []
        while state[0]:
            closed.append(state[0][:])
            self._advance(state)
        return closed

    def _advance(self, state: State) -> None:
        """Move on to the next window that holds an item."""
        items, times, k = state
        k += 1
        first = k * self.every - self.size
        kept = [i for i, time in enumerate(times) if time >= first]
        state[0] = [items[i] for i in kept]
        state[1] = [times[i] for i in kept]
        state[2] = k

    def _refuse(self, item: Any, time: Any, k: Any) -> None:
        msg = (
            f"times must not fall behind an emitted window; got {time!r} in {item!r} "
            f"when the window from {(k - 1) * self.every!r} was open; sort the stream, "
            f'or say window(..., late="drop") or late="current"'
        )
        raise LateItemError(msg)


class Delta(Shape):
    """Items within `delta` of one another; the state is [items, values, mark].

    A window closes on the first item whose value lies `every` (for a tumbling window:
    `delta`) or more above the mark, the value of the item that opened it.
    """

    def __init__(self, window: Window) -> None:
        assert window.delta is not None and window.on is not None  # noqa: PT018, S101
        self.size = window.delta
        self.tumbling = window.every is None
        self.every = window.delta if window.every is None else window.every
        self.value = operator.attrgetter(window.on)

    def open(self) -> State:
        return [[], [], None]

    def add(self, state: State, item: Any) -> list[Items]:
        value = self.value(item)
        closed = []
        if state[2] is None:
            state[2] = value
        elif value - state[2] >= self.every:
            closed.append(state[0][:])
            state[2] = value
            if self.tumbling:
                state[0], state[1] = [], []
        if not self.tumbling:
            self._evict(state, value)
        state[0].append(item)
        state[1].append(value)
        return closed

    def _evict(self, state: State, value: Any) -> None:
        """Drop what lies `delta` or more below the newest value."""
        kept = [i for i, old in enumerate(state[1]) if value - old < self.size]
        if len(kept) < len(state[1]):
            state[0] = [state[0][i] for i in kept]
            state[1] = [state[1][i] for i in kept]

    def finish(self, state: State) -> list[Items]:
        return [state[0][:]] if state[0] else []


class Punctuated(Shape):
    """What stands between two window punctuations; the state is the items so far."""

    def open(self) -> State:
        return []

    def add(self, state: State, item: Any) -> list[Items]:
        state.append(item)
        return []

    def cut(self, state: State) -> list[Items]:
        window = state[:]
        state.clear()
        return [window] if window else []

    def finish(self, state: State) -> list[Items]:
        return self.cut(state)


def shape_of(window: Window) -> Shape:
    """Return the shape that a window description asks for."""
    if window.punctuation:
        return Punctuated()
    if window.time is not None:
        return TimeSliding(window)
    if window.delta is not None:
        return Delta(window)
    assert window.count is not None  # noqa: S101 - validation has seen to it
    if window.every is None:
        return CountTumbling(window.count)
    return CountSliding(window.count, int(window.every))


class AggregateKernel(Kernel):
    stateful = True
    finishes = True
    forwards_punctuation = False

    def __init__(self, kind: Aggregate) -> None:
        self.shape = shape_of(kind.window)
        self.summary = summary_of(kind)
        self.handles_punctuation = kind.window.punctuation

    def open(self) -> State:
        return self.shape.open()

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return [self.summary(window) for window in self.shape.add(state, item)]

    def punctuation(self, state: State) -> Outputs:
        return [self.summary(window) for window in self.shape.cut(state)]

    def finish(self, state: State) -> Outputs:
        return [self.summary(window) for window in self.shape.finish(state)]


def summary_of(kind: Aggregate) -> Callable[[Items], Any]:
    """Return the function from the items of a window to its output."""
    if kind.function is not None:
        return kind.function
    names = tuple(name for name, _ in kind.columns)
    columns = tuple(_column(column) for _, column in kind.columns)
    make = row_type(names) if kind.into is None else kind.into
    return lambda items: make(
        **{name: f(items) for name, f in zip(names, columns, strict=True)}
    )


def _column(column: Column) -> Callable[[Items], Any]:  # noqa: PLR0911 - a table
    if column.attribute is None:
        return len
    get = operator.attrgetter(column.attribute)
    match column.function:
        case "sum":
            return lambda items: sum(map(get, items))
        case "min":
            return lambda items: min(map(get, items))
        case "max":
            return lambda items: max(map(get, items))
        case "mean":
            return lambda items: sum(map(get, items)) / len(items)
        case "last":
            return lambda items: get(items[-1])
        case _:  # any, first
            return lambda items: get(items[0])
