"""The windows that a batch closes, key by key, as ranges of indices.

The items held by a key's windows and its new ones are laid out contiguously. A window
is a range of them, and the item that closes it is its trigger. The states are those of
`anabranch.operators.windows`; this code does the same on many items at once and leaves
the rest to Python.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from anabranch.operators.clock import FAR_FLOAT, span_on
from anabranch.operators.windows import Window
from anabranch.plan.column_kernels import ColumnKind, count_time
from anabranch.runtime.columns.column import Numpy, UnfitError

_FAR = 1 << 60  # sums of two smaller numbers fit 64 bits
_DAY_US = 86_400_000_000
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_FIRST = count_time(dt.datetime.min)  # noqa: DTZ901 - without a zone
_LAST = count_time(dt.datetime.max)  # noqa: DTZ901 - without a zone


class KeyRange(NamedTuple):
    """The items of one key: indices from `first` to `end`, the first `held` of them
    old.

    `state` is the interpreter's state for the key.
    """

    first: int
    held: int
    end: int
    state: Any


@dataclass
class ClosedWindows:
    """The windows that a batch closes, and the new states.

    `order` has the indices of the items in windows, and a window is a range of it.
    `triggers` are indices of items. For each key, `kept` has the indices of the items
    its windows keep, and `rests` the other parts of its new state.
    """

    order: list[Numpy] = field(default_factory=list)
    starts: list[Numpy] = field(default_factory=list)
    ends: list[Numpy] = field(default_factory=list)
    triggers: list[Numpy] = field(default_factory=list)
    until: list[Numpy] = field(default_factory=list)
    kept: list[Numpy] = field(default_factory=list)
    rests: list[Any] = field(default_factory=list)
    _count: int = 0

    def add(self, places: Numpy, starts: Numpy, ends: Numpy, triggers: Numpy) -> None:
        """Add a key: the indices of its items, and the ranges that close."""
        self.order.append(places)
        self.starts.append(starts + self._count)
        self.ends.append(ends + self._count)
        self.triggers.append(triggers)
        self._count += len(places)

    def keep(self, places: Numpy, rest: Any = None) -> None:
        """Add the contents that a key keeps."""
        self.kept.append(places)
        self.rests.append(rest)


class WindowPlan(ABC):
    """One kind of window."""

    def items_of(self, state: Any) -> list[Any]:
        """Return the items that a state holds."""
        return state[0]  # type: ignore[no-any-return]

    @abstractmethod
    def find(self, keys: Sequence[KeyRange], on: Numpy) -> ClosedWindows:
        """Return the windows that close; `on` is the attribute at all indices."""

    @abstractmethod
    def change(self, state: Any, items: list[Any], rest: Any) -> None:
        """Put the contents of a key into its state."""

    def restore(self, items: list[Any], rest: Any) -> Any:
        """Return the state of a key with the given contents."""
        state: list[Any] = []
        self.change(state, items, rest)
        return state

    def bounds(self, found: ClosedWindows) -> list[Numpy]:
        """Return the starts and ends of windows, as times."""
        msg = "these windows have no bounds"
        raise UnfitError(msg)


def window_plan(window: Window, kind: ColumnKind) -> WindowPlan:
    """Return the plan of a window on an attribute of a kind."""
    if window.count is not None:
        if window.every is None:
            return _CountTumbling(window.count)
        return _CountSliding(window.count, window.every)
    return _Time(window, kind) if window.delta is None else _Delta(window)


class _CountTumbling(WindowPlan):
    def __init__(self, size: int) -> None:
        self._size = size

    def items_of(self, state: Any) -> list[Any]:
        return state  # type: ignore[no-any-return]

    def find(self, keys: Sequence[KeyRange], on: Numpy) -> ClosedWindows:
        found, size = ClosedWindows(), self._size
        for key in keys:
            places = np.arange(key.first, key.end)
            ends = np.arange(size, len(places) + 1, size)
            found.add(places, ends - size, ends, places[ends - 1])
            found.keep(places[len(ends) * size :])
        return found

    def change(self, state: Any, items: list[Any], rest: Any) -> None:
        state[:] = items


class _CountSliding(WindowPlan):
    def __init__(self, size: int, every: Any) -> None:
        self._size = size
        self._every = int(every)

    def find(self, keys: Sequence[KeyRange], on: Numpy) -> ClosedWindows:
        found, size, every = ClosedWindows(), self._size, self._every
        for key in keys:
            total = key.state[1]
            places = np.arange(key.first, key.end)
            skipped = -(total + 1) % every
            last = np.arange(key.held + skipped, len(places), every)
            starts = np.maximum(last + 1 - size, 0)
            found.add(places, starts, last + 1, places[last])
            total += len(places) - key.held
            found.keep(places[max(0, len(places) - size) :], total)
        return found

    def change(self, state: Any, items: list[Any], rest: Any) -> None:
        state[:] = [items, rest]


class _Delta(WindowPlan):
    """Scans each key's values one by one: a window depends on the last."""

    def __init__(self, window: Window) -> None:
        self._size: Any = window.delta
        self._every: Any = window.delta if window.every is None else window.every
        self._tumbling = window.every is None

    def find(self, keys: Sequence[KeyRange], on: Numpy) -> ClosedWindows:
        found = ClosedWindows()
        check_finite(on)
        for key in keys:
            values = on[key.first : key.end].tolist()
            closed, left, mark = self._walk(values, key)
            places = np.arange(key.first, key.end)
            starts, ends = np.array(closed, np.int64).reshape(-1, 2).T
            found.add(places, starts, ends, places[ends])
            found.keep(places[left:], (values[left:], mark))
        return found

    def _walk(
        self, values: list[Any], key: KeyRange
    ) -> tuple[list[tuple[int, int]], int, Any]:
        """Return the ranges that close, the start of the held items, and the mark."""
        mark, low = key.state[2], 0
        closed: list[tuple[int, int]] = []
        if not self._tumbling and any(a > b for a, b in pairwise(values)):
            msg = "the values of windows that slide do not rise"
            raise UnfitError(msg)
        for at in range(key.held, len(values)):
            value = values[at]
            if mark is None:
                mark = value
            elif value - mark >= self._every:
                closed.append((low, at))
                mark = value
                if self._tumbling:
                    low = at
            if not self._tumbling:
                while low < at and not value - values[low] < self._size:
                    low += 1
        return closed, low, mark

    def change(self, state: Any, items: list[Any], rest: Any) -> None:
        state[:] = [items, *rest]


class _Time(WindowPlan):
    """The next window of a key to close ends at k*every.

    k never decreases: an item with a lower one is late. So the items of a key are in
    the order of their k, and the windows are ranges of them.
    """

    def __init__(self, window: Window, kind: ColumnKind) -> None:
        self._late = window.late
        self._calendar = isinstance(window.time, dt.timedelta)
        self._kind = kind
        self._scale = {"datetime": "naive", "date": "date"}.get(kind, "number")
        self._size = self._span(window, window.time)
        self._every = self._size
        if window.every is not None:
            self._every = self._span(window, window.every)
        # Otherwise window numbers tell which items they hold.
        self._by_time = kind == "float" or (
            self._every < self._size and self._size % self._every != 0
        )

    def _span(self, window: Window, span: Any) -> Any:
        if not self._calendar:
            return span
        return span_on(span, self._scale, window.unit, "a window by time")

    def items_of(self, state: Any) -> list[Any]:
        if self._calendar:
            return [item for _, item in state[0]]
        return state[0]  # type: ignore[no-any-return]

    def find(self, keys: Sequence[KeyRange], on: Numpy) -> ClosedWindows:
        found, times = ClosedWindows(), self._measure(on)
        for key in keys:
            self._find_of_key(key, times[key.first : key.end].copy(), found)
        return found

    def _measure(self, on: Numpy) -> Numpy:
        """Return times as numbers for arithmetic."""
        check_finite(on)
        times = (on - _EPOCH_DAY) * _DAY_US if self._kind == "date" else on
        largest = find_largest(times)
        if times.dtype == np.float64:
            is_far = largest > FAR_FLOAT
        else:
            is_far = max(self._size, self._every, largest) > _FAR
        if is_far:
            msg = "a time is too large"
            raise UnfitError(msg)
        return times

    def _find_of_key(self, key: KeyRange, times: Numpy, found: ClosedWindows) -> None:
        state, held = key.state, key.held
        measured = times.tolist() if self._calendar else None
        if self._calendar and state[3] not in (None, self._scale):
            msg = "times have another scale"
            raise UnfitError(msg)
        times[:held] = state[1]  # a late item may count as current
        ks = times // self._every + 1
        before = ks[held] if state[2] is None else state[2]
        if type(before) is not type(ks[held].item()) and state[2] is not None:
            msg = "a time has another type"
            raise UnfitError(msg)
        highest = np.maximum.accumulate(np.append(before, ks[held:])).astype(ks.dtype)
        late = ks[held:] < highest[:-1]
        taken = np.ones(len(times), bool)
        if late.any():
            self._treat_late(late, highest, times[held:], taken[held:])
        ks[held:] = highest[1:]
        taken[held:] &= times[held:] >= highest[1:] * self._every - self._size
        rows = np.flatnonzero(taken)
        own, own_ks = times[rows], ks[rows]
        starts, ends, at, until = self._close(highest, held, rows, own, own_ks)
        places = rows + key.first
        found.add(places, starts, ends, at + key.first)
        check_calendar(until, self._size, self._kind)
        found.until.append(until)
        last = highest[-1].item()
        left = np.flatnonzero(own >= last * self._every - self._size)
        originals = None
        if measured is not None:
            originals = [measured[row] for row in rows[left].tolist()]
        found.keep(places[left], (own[left].tolist(), last, originals))

    def _treat_late(
        self, late: Numpy, highest: Numpy, times: Numpy, taken: Numpy
    ) -> None:
        """Drop late items, or treat them as current."""
        if self._late == "error":
            msg = "an item is late"
            raise UnfitError(msg)
        if self._late == "drop":
            taken[late] = False
            return
        ends = highest[1:][late]
        times[late] = np.maximum(
            (ends - 1) * self._every, ends * self._every - self._size
        )

    def _close(
        self, highest: Numpy, held: int, rows: Numpy, own: Numpy, own_ks: Numpy
    ) -> tuple[Numpy, Numpy, Numpy, Numpy]:
        """Return the windows that close: ranges of `rows`, their triggers and ends."""
        size, every = self._size, self._every
        if self._by_time and (own[1:] < own[:-1]).any():
            msg = "the times of windows do not rise"
            raise UnfitError(msg)
        steps = np.flatnonzero(highest[1:] > highest[:-1])
        ends = np.searchsorted(rows, steps + held)
        steps, ends = steps[ends > 0], ends[ends > 0]
        first, following = highest[:-1][steps], highest[1:][steps]
        if self._by_time:
            most = (own[ends - 1] + size) // every + 2
        else:
            most = own_ks[ends - 1] + max(1, size // every)
        counts = np.maximum(np.minimum(following, most) - first, 0).astype(np.int64)
        ends = np.repeat(ends, counts)
        k = np.repeat(first, counts) + ramps(counts)
        if self._by_time:
            starts = np.searchsorted(own, k * every - size)
        else:
            starts = np.searchsorted(own_ks, k - max(1, size // every), "right")
        some = starts < ends
        at = np.repeat(steps + held, counts)
        return starts[some], ends[some], at[some], k[some] * every

    def change(self, state: Any, items: list[Any], rest: Any) -> None:
        times, k, originals = rest
        if originals is None:
            state[:] = [items, times, k]
        else:
            state[:] = [list(zip(originals, items, strict=True)), times, k, self._scale]

    def bounds(self, found: ClosedWindows) -> list[Numpy]:
        until = np.concatenate(found.until)
        since = until - self._size
        if self._kind == "date":
            return [one // _DAY_US + _EPOCH_DAY for one in (since, until)]
        return [since, until]


def find_largest(numbers: Numpy) -> Any:
    """Return the largest absolute value; that of -2**63 has 64 bits itself.

    >>> find_largest(np.array([3, -(1 << 63)])) == 1 << 63
    True
    """
    if not len(numbers):
        return 0
    return max(numbers.max().item(), -numbers.min().item())


def check_calendar(until: Numpy, size: Any, kind: ColumnKind) -> None:
    """Refuse windows that begin or end outside the calendar, given their ends.

    Python refuses them as well, whether or not anything reads their bounds.
    """
    if kind not in ("datetime", "date") or not len(until):
        return
    if until.min() - size < _FIRST or until.max() > _LAST:
        msg = "a window begins or ends outside the calendar"
        raise UnfitError(msg)


def check_finite(on: Numpy) -> None:
    """Refuse values that are not finite."""
    if on.dtype == np.float64 and not np.isfinite(on).all():
        msg = "a value is not finite"
        raise UnfitError(msg)


def ramps(counts: Numpy) -> Numpy:
    """Return 0, 1, ... up to each count.

    >>> ramps(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) - np.repeat(ends - counts, counts))
