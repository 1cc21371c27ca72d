"""The behaviour of one key in event time: the items of its windows, and its turns.

A `Timed` is the part of an operator behind `event_time` that handles one key. The
kernel in `anabranch.runtime.clocked` holds all keys, and calls each in the order of
time.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from anabranch.errors import LateItemError
from anabranch.operators.clock import (
    Grid,
    InOrder,
    Scale,
    Timing,
    describe_mixture,
    describe_short,
    measure,
    restore,
    scale_of,
    span_on,
)
from anabranch.operators.custom import (
    ApplyKernel,
    Operator,
    timer_queue_of,
    timers_of,
)
from anabranch.operators.getters import attribute_getter
from anabranch.operators.join import LEFT, Join, make_pairs
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.windows import Aggregate, Bounded, Window, summary_of


class Now(NamedTuple):
    """The current clock (None: not started), and the scale of its times."""

    clock: Any
    scale: Scale


NOTHING_NEW: Outputs = []  # no outputs, and the key is due when it was due before


class Timed(ABC):
    """The part of an operator that handles one key."""

    @abstractmethod
    def open(self) -> State:
        """Return the state of a key before its first item."""

    @abstractmethod
    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        """Take an item and return its immediate outputs."""

    def find_due(self, state: State, scale: Scale) -> Any | None:
        """Return the earliest time at which the key is due; None: never."""
        return None

    def fire(self, state: State, time: Any, scale: Scale) -> Outputs:
        """Return the outputs of a key that is due."""
        return ()

    def punctuation(self, state: State) -> Outputs:
        """Return the outputs at a window punctuation."""
        return ()

    def finish(self, state: State) -> Outputs:
        """Return the last outputs of a key, once nothing is due any more."""
        return ()

    def fires_at_end(self, state: State, time: Any, scale: Scale) -> bool:
        """Tell whether what is due at a time is still emitted at the end."""
        return True

    def is_empty(self, state: State) -> bool:
        """Tell whether the state equals that of a key never seen."""
        return False


class PlainTimed(Timed):
    """An operator without event-time behaviour; only its keys may expire."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def open(self) -> State:
        return self.kernel.open()

    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        return self.kernel.process(state, item, port)

    def punctuation(self, state: State) -> Outputs:
        if not self.kernel.handles_punctuation:
            return ()
        return self.kernel.punctuation(state)

    def finish(self, state: State) -> Outputs:
        return self.kernel.finish(state)


class OperatorTimed(PlainTimed):
    """An `Operator` class with timers; the state is the user's instance."""

    def __init__(self, kernel: ApplyKernel) -> None:
        super().__init__(kernel)
        self._collect = kernel.collect

    def find_due(self, state: Operator, scale: Scale) -> Any | None:
        queue = timer_queue_of(state)
        if not queue:
            return None
        number, _, value = queue[0]
        return number if scale is None or scale_of(value) == scale else AT_ONCE

    def fire(self, state: Operator, time: Any, scale: Scale) -> Outputs:
        value = _drop_timer(state)
        if time == AT_ONCE:
            raise TypeError(describe_mixture(value, scale, "wake_at(time)"))
        return self._collect(state.on_time(value), state.on_time)

    def fires_at_end(self, state: Operator, time: Any, scale: Scale) -> bool:
        if time == AT_ONCE or timers_of(state)[timer_queue_of(state)[0][2]]:
            return True
        _drop_timer(state)
        return False


AT_ONCE = float("-inf")  # when a timer fails whose time is of another kind


def _drop_timer(operator: Operator) -> Any:
    """Remove the earliest timer of an operator and return its time."""
    value = heapq.heappop(timer_queue_of(operator))[2]
    del timers_of(operator)[value]
    return value


class ItemsInOrder(Timed):
    """Items that wait until the clock has reached their time.

    The state is [heap, n]: a heap of (time, item number, item), and the next number.
    """

    def __init__(self, kind: InOrder) -> None:
        self.on = kind.on
        self.get = attribute_getter(kind.on)

    def open(self) -> State:
        return [[], 0]

    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        time = measure(self.get(item), now.scale, self.on)
        time = time if now.clock is None else max(time, now.clock)
        heapq.heappush(state[0], (time, state[1], item))
        state[1] += 1
        return ()

    def find_due(self, state: State, scale: Scale) -> Any | None:
        return state[0][0][0] if state[0] else None

    def fire(self, state: State, time: Any, scale: Scale) -> Outputs:
        released = []
        while state[0] and state[0][0][0] == time:
            released.append(heapq.heappop(state[0])[2])
        return released


class PairsInTime(Timed):
    """The join of items of two streams that are less than `within` apart in time.

    The state is a list of [time, item] per side, in order of arrival.
    """

    def __init__(self, kind: Join, timing: Timing) -> None:
        assert kind.within is not None  # noqa: S101 - only asked for such a join
        self.kind = kind
        self.on = timing.on
        self.get = attribute_getter(timing.on)
        self.unit = timing.unit
        self.within = kind.within

    def open(self) -> State:
        return [[], []]

    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        within = self._span(now.scale)
        time = measure(self.get(item), now.scale, self.on)
        if time + within <= time:
            raise ValueError(describe_short(f"a join within={within!r}", time))
        partners = [x for t, x in state[1 - port] if abs(t - time) < within]
        pairs = [(item, x) if port == LEFT else (x, item) for x in partners]
        made = make_pairs(self.kind, pairs)
        state[port].append([time, item])
        return made

    def _span(self, scale: Scale) -> Any:
        return span_on(self.within, scale, self.unit, "within")

    def find_due(self, state: State, scale: Scale) -> Any | None:
        times = [time for side in state for time, _ in side]
        return min(times) + self._span(scale) if times else None

    def fire(self, state: State, time: Any, scale: Scale) -> Outputs:
        within = self._span(scale)
        for side in state:
            side[:] = [waiting for waiting in side if waiting[0] + within > time]
        return ()

    def is_empty(self, state: State) -> bool:
        return not any(state)


class TimedWindows(Timed):
    """The windows of one key, closed by the clock."""

    def __init__(self, kind: Aggregate) -> None:
        self.window = kind.window
        assert kind.window.on is not None  # noqa: S101 - validation has seen to it
        self.on: str = kind.window.on
        self.get = attribute_getter(self.on)
        self.summary = summary_of(kind)
        self.spans = spans_of(kind.window)
        self.grids = lru_cache(maxsize=8)(lambda scale: Grid(*self.spans(scale)))
        self.known: tuple[Any, Any] = (None, None)  # a scale and the length on it


class TumblingWindows(TimedWindows):
    """For each multiple b of the length, the items with b-length <= time < b.

    The state maps k to the items of the window that ends at k*length.
    """

    def open(self) -> State:
        return {}

    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        clock, scale = now
        known = self.known
        if known[0] is not scale:
            known = self.known = scale, self.spans(scale)[0]
        size = known[1]
        time = self.get(item)
        if type(time) is not int or scale != "number":
            time = measure(time, scale, self.on)
        k = time // size + 1
        if type(k) is not int:
            k = self.grids(scale).correct(k, time)
        if clock is not None and k * size <= clock:
            if is_dropped(self.window, item, self.get(item), now):
                return ()
            k = self.grids(scale).find_end(clock)
        held = state.get(k)
        if held is not None:
            held.append(item)
            return NOTHING_NEW
        state[k] = [item]
        return ()

    def find_due(self, state: State, scale: Scale) -> Any | None:
        return min(state) * self.spans(scale)[0] if state else None

    def fire(self, state: State, time: Any, scale: Scale) -> Outputs:
        k = min(state)
        held, start = state.pop(k), restore(self.grids(scale).start_of(k), scale)
        return (self.summary(Bounded(held, start, restore(time, scale))),)

    def is_empty(self, state: State) -> bool:
        return not state


class TimeWindows(TimedWindows):
    """For each multiple b of `every`, the items with b-size <= time < b.

    The state is [items, times, k]: the next window to close ends at k*every; k is None
    if there is none.
    """

    def open(self) -> State:
        return [[], [], None]

    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        grid = self.grids(now.scale)
        time = measure(self.get(item), now.scale, self.on)
        k = grid.find_end(time)
        if now.clock is not None and grid.end_of(k) <= now.clock:
            if is_dropped(self.window, item, self.get(item), now):
                return ()
            k = grid.find_end(now.clock)
            time = max(grid.end_of(k - 1), grid.start_of(k))
        if time >= grid.start_of(k):
            state[0].append(item)
            state[1].append(time)
            state[2] = k if state[2] is None else min(k, state[2])
        return ()

    def find_due(self, state: State, scale: Scale) -> Any | None:
        return None if state[2] is None else state[2] * self.spans(scale)[1]

    def fire(self, state: State, time: Any, scale: Scale) -> Outputs:
        grid = self.grids(scale)
        items, times, k = state
        start, following = grid.start_of(k), grid.start_of(k + 1)
        held = [x for x, t in zip(items, times, strict=True) if start <= t < time]
        kept = [i for i, t in enumerate(times) if t >= following]
        state[0] = [items[i] for i in kept]
        state[1] = [times[i] for i in kept]
        ends = [max(k + 1, grid.find_end(t)) for t in state[1]]
        state[2] = min(ends, default=None)
        return (
            self.summary(Bounded(held, restore(start, scale), restore(time, scale))),
        )

    def is_empty(self, state: State) -> bool:
        return not state[0]


class SessionWindows(TimedWindows):
    """Items of a key with less than `gap` between one and the next.

    The state is [sessions, n]: each session is [first, last, items], with items
    numbered per key, so that merged sessions keep the order of arrival.
    """

    def open(self) -> State:
        return [[], 0]

    def take(self, state: State, item: Any, port: int, now: Now) -> Outputs:
        gap, _ = self.spans(now.scale)
        time = measure(self.get(item), now.scale, self.on)
        if now.clock is not None and time + gap <= now.clock:
            if is_dropped(self.window, item, self.get(item), now):
                return ()
            time = now.clock
        if time + gap <= time:
            raise ValueError(describe_short(f"a session by gap={gap!r}", time))
        sessions, n = state
        near = [s for s in sessions if s[0] - gap < time < s[1] + gap]
        if len(near) == 1:
            ((first, last, items),) = near
            near[0][:2] = min(first, time), max(last, time)
            items.append((n, item))  # the latest of all
            state[1] = n + 1
            return ()
        numbered = [(n, item), *(one for session in near for one in session[2])]
        first = min([time, *(s[0] for s in near)])
        last = max([time, *(s[1] for s in near)])
        state[0] = [s for s in sessions if not any(s is one for one in near)]
        state[0].append([first, last, sorted(numbered, key=lambda one: one[0])])
        state[1] = n + 1
        return ()

    def find_due(self, state: State, scale: Scale) -> Any | None:
        if not state[0]:
            return None
        return min(session[1] for session in state[0]) + self.spans(scale)[0]

    def fire(self, state: State, time: Any, scale: Scale) -> Outputs:
        gap, _ = self.spans(scale)
        (over,) = (s for s in state[0] if s[1] + gap == time)
        state[0].remove(over)
        held = [item for _, item in over[2]]
        bounds = restore(over[0], scale), restore(time, scale)
        return (self.summary(Bounded(held, *bounds)),)

    def is_empty(self, state: State) -> bool:
        return not state[0]


def spans_of(window: Window) -> Callable[[Scale], tuple[Any, Any]]:
    """Return the function from a scale to a window's length and step on it."""

    @lru_cache(maxsize=8)
    def on_scale(scale: Scale) -> tuple[Any, Any]:
        name = "time" if window.gap is None else "gap"
        length = window.time if window.gap is None else window.gap
        assert length is not None  # noqa: S101 - validation has seen to it
        size = span_on(length, scale, window.unit, name)
        if window.every is None:
            return size, size
        return size, span_on(window.every, scale, window.unit, "every")

    return on_scale


def is_dropped(window: Window, item: Any, value: Any, now: Now) -> bool:
    """Tell whether a late item is dropped or counts as current; raise if neither."""
    if window.late != "error":
        return window.late == "drop"
    msg = (
        f"times must not fall behind a window that is closed; got {value!r} in {item!r} "
        f"when the clock stood at {restore(now.clock, now.scale)!r}; say "
        f'window(..., late="drop") or late="current", or window by ab.window_end()'
    )
    raise LateItemError(msg)
