"""The clock of a stream in columns, and the windows it closes.

The clock is a prefix maximum of times, and an advance is sent where it has an effect.
Windows are found for all keys at once: an item belongs to the windows that end after
its time; one that ends at or before the clock closes; they close in the order (end,
key). The states are those of `anabranch.operators.clock` and of
`anabranch.runtime.clocked`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from anabranch.operators.clock import Advance, EventTime, EventTimeKernel
from anabranch.operators.timed import spans_of
from anabranch.operators.timescale import Scale
from anabranch.operators.windows import Window
from anabranch.plan.column_kernels import ColumnKind
from anabranch.runtime.clocked import TURN, LentKeys
from anabranch.runtime.columns.column import Numpy, UnfitError
from anabranch.runtime.columns.held_state import ColumnBatch, HeldKeys
from anabranch.runtime.columns.windows import check_finite, ramps
from anabranch.runtime.keys import in_key_order, join_ranks, key_rank, rank_bytes
from anabranch.runtime.state import HeldItems

_FAR = 1 << 60  # sums of two smaller numbers fit 64 bits
_DAY_US = 86_400_000_000
_EPOCH_DAY = 719_163  # ordinal of 1970-01-01
_NOTHING: Numpy = np.zeros(0, np.int64)
_SCALES: dict[ColumnKind, Scale] = {"datetime": "naive", "date": "date"}


def measure_times(values: Numpy, kind: ColumnKind) -> Numpy:
    """Return times as numbers on their scale; refuse those too large."""
    check_finite(values)
    times = (values - _EPOCH_DAY) * _DAY_US if kind == "date" else values
    if times.dtype != np.float64 and len(times) and int(np.abs(times).max()) > _FAR:
        msg = "a time is too large"
        raise UnfitError(msg)
    return times


def scale_of_kind(kind: ColumnKind) -> Scale:
    """Return the scale of times of a kind."""
    return _SCALES.get(kind, "number")


class ClockedItems(NamedTuple):
    """The clock's effect on items: which pass, which advance it, and how far."""

    rows: Numpy | None  # None: all
    advancing: Numpy
    advances: list[Advance]
    state: list[Any]


class ColumnClock:
    """The operator `event_time` on a column of times."""

    def __init__(self, event_time: EventTime, kind: ColumnKind) -> None:
        self._late = event_time.late
        self._kind = kind
        self.scale = scale_of_kind(kind)
        kernel = EventTimeKernel(event_time)
        self._share = kernel.share
        self._lateness, self._steps = kernel.spans(self.scale)

    def run(self, values: Numpy, state: Sequence[Any]) -> ClockedItems:
        """Apply the clock to items with the given times."""
        scale, clock, _ = state
        times = measure_times(values, self._kind)
        if scale not in (None, self.scale):
            msg = "times have another scale"
            raise UnfitError(msg)
        if clock is not None and type(clock) is not type(times[0].item()):
            msg = "the clock has another type"
            raise UnfitError(msg)
        now = times - self._lateness
        first = now[0] if clock is None else clock  # before the first item
        clocks = np.maximum.accumulate(np.append(first, now)).astype(now.dtype)
        before, after = clocks[:-1], clocks[1:]
        late = times < before
        if clock is None:
            late[0] = False
        advancing = self._find_advances(before, after)
        if clock is None:
            advancing[0] = True
        rows = None
        if late.any() and self._late != "current":
            if self._late != "drop":
                msg = "an item is late"
                raise UnfitError(msg)
            rows = np.flatnonzero(~late)
        last = after[-1].item()
        made: list[Any] = []
        self._share(made, (self.scale, [last]))
        found = np.flatnonzero(advancing)
        advances = [Advance(time, self.scale) for time in after[found].tolist()]
        return ClockedItems(rows, found, advances, made)

    def _find_advances(self, before: Numpy, after: Numpy) -> Numpy:
        """Return where the clock advances: at a multiple of the step, if there is
        one.
        """
        if not self._steps or after.dtype == np.float64:
            return after > before
        found = np.zeros(len(after), bool)
        for step in self._steps:
            found |= after // step > before // step
        return found


class Closed(NamedTuple):
    """The windows that advances close, in order: ranges of `rows`, which are indices.

    `signs` has the index of the advance that closes each.
    """

    rows: Numpy
    starts: Numpy
    ends: Numpy
    k: Numpy
    slots: Numpy
    signs: Numpy


class ClockedPlan:
    """Time windows closed by the clock, on a column of times.

    Window k ends at k * every. The state of a key is that of `TumblingWindows` or of
    `TimeWindows`.
    """

    def __init__(self, window: Window, kind: ColumnKind) -> None:
        self._late = window.late
        self.kind = kind
        self.scale = scale_of_kind(kind)
        self.size, self.every = spans_of(window)(self.scale)
        self._tumbling = window.every is None or window.every == window.time

    def admit(
        self, times: Numpy, reached: Any, advances: Numpy, places: Numpy
    ) -> Numpy | None:
        """Return which items the windows accept, None for all; late ones may be moved.

        The clock is at `reached`; `places` counts the items before each advance.
        """
        k = times // self.every + 1
        taken = None
        if reached is not None or len(advances):
            number = np.searchsorted(places, np.arange(len(times)), "right")
            first = 0 if reached is None else reached
            clocks = np.append(first, advances).astype(times.dtype)[number]
            late = k * self.every <= clocks
            if reached is None:
                late &= number > 0
            if late.any():
                if self._late == "error":
                    msg = "an item is late"
                    raise UnfitError(msg)
                if self._late == "drop":
                    taken = ~late
                else:
                    own = clocks[late] // self.every + 1
                    ends = own * self.every
                    times[late] = np.maximum(ends - self.every, ends - self.size)
                    k[late] = own
        if self.size < self.every:  # some times lie between two windows
            inside = times >= k * self.every - self.size
            taken = inside if taken is None else taken & inside
        return taken

    def close(
        self,
        times: Numpy,
        slots: Numpy,
        ranks: Numpy,
        before: Any,
        clocks: Numpy,
    ) -> Closed:
        """Return the windows that the clock closes by its advances, starting at
        `before`.
        """
        low = times // self.every + 1
        last = clocks[-1] // self.every  # the last window that closes
        if self._tumbling:
            rows = np.flatnonzero(low <= last)
            k = low[rows]
        else:
            if before is not None:
                low = np.maximum(low, before // self.every + 1)
            high = np.minimum((times + self.size) // self.every, last)
            counts = np.maximum(high - low + 1, 0)
            rows = np.repeat(np.arange(len(times)), counts)
            k = np.repeat(low, counts) + ramps(counts)
        own = ranks[slots[rows]]
        order = np.lexsort((own, k))
        rows, k, own = rows[order], k[order], own[order]
        changes = (k[1:] != k[:-1]) | (own[1:] != own[:-1])
        cuts = np.flatnonzero(np.append(True, changes)) if len(rows) else _NOTHING
        ends = np.append(cuts[1:], len(rows)) if len(rows) else _NOTHING
        k = k[cuts]
        signs = np.searchsorted(clocks, k * self.every)
        return Closed(rows, cuts, ends, k, slots[rows[cuts]], signs)

    def find_open(self, times: Numpy, clock: Any) -> Numpy:
        """Return the indices of items that some window still holds."""
        if self._tumbling:
            return np.flatnonzero((times // self.every + 1) * self.every > clock)
        return np.flatnonzero((times + self.size) // self.every * self.every > clock)

    def bounds(self, k: Numpy) -> list[Numpy]:
        """Return the starts and ends of windows, as times."""
        until = k * self.every
        since = until - self.size
        if self.kind == "date":
            return [one // _DAY_US + _EPOCH_DAY for one in (since, until)]
        return [since, until]

    def list_all(
        self, opened: Sequence[Any], first: int
    ) -> tuple[list[Any], list[Any], list[int]]:
        """Return the contents of states: items, their times, and their key indices.

        The first key has the index `first`. A state may be None.
        """
        items: list[Any] = []
        times: list[Any] = []
        places: list[int] = []
        for place, state in enumerate(opened, first):
            if state is not None:
                own, own_times = self._list_held(state)
                items += own
                times += own_times
                places += [place] * len(own)
        return items, times, places

    def _list_held(self, state: Any) -> tuple[list[Any], list[Any]]:
        if not self._tumbling:
            return state[0], state[1]
        items = [item for held in state.values() for item in held]
        starts = [(k - 1) * self.every for k, held in state.items() for _ in held]
        return items, starts

    def restore(self, items: Any, times: list[Any], clock: Any) -> tuple[Any, Any]:
        """Return the state of a key with the given items, and when it is due."""
        ks = [time // self.every + 1 for time in times]
        if not self._tumbling:
            least = min(ks)
            if clock is not None:
                following = clock // self.every + 1
                least = min(max(k, following) for k in ks)
            return [items, times, least], least * self.every
        state: dict[Any, list[Any]] = {}
        for k, item in zip(ks, items, strict=True):
            state.setdefault(k, []).append(item)
        return state, min(state) * self.every


NO_WINDOWS = Closed(*[_NOTHING] * len(Closed._fields))


@dataclass
class HeldClocked(HeldKeys):
    """The contents of keyed windows behind a clock, in order of arrival.

    `saved` has for each key when it is due according to the store, None if it is not
    there.
    """

    batch: ColumnBatch | None = None
    times: Numpy = field(default_factory=lambda: _NOTHING)
    slots: Numpy = field(default_factory=lambda: _NOTHING)
    plan: ClockedPlan | None = None
    state: dict[str, Any] = field(default_factory=dict)  # of the kernel
    saved: list[Any] = field(default_factory=list)
    reached: Any = None  # the clock when these were held
    _ranks: Numpy = field(default_factory=lambda: _NOTHING)
    _turns: list[bytes] = field(default_factory=list)

    def has(self, key: Any) -> bool:
        """Tell whether the state of a key is held here."""
        return key in self._places

    def rank(self, new: list[Any]) -> Numpy:
        """Return the ranks of all keys, including new ones."""
        if new or len(self._ranks) != len(self.keys):
            keys = [*self.keys, *new]
            places = {key: rank for rank, key in enumerate(in_key_order(keys))}
            ranks = np.array([places[key] for key in keys], np.int64)
            if new:
                return ranks  # not known yet whether they stay
            self._ranks = ranks
        return self._ranks

    def name_turns(self, closed: Closed, new: list[Any], every: Any) -> list[bytes]:
        """Return the sort keys of closing windows, comparable across replicas."""
        self._turns += map(rank_bytes, self.keys[len(self._turns) :])
        turns = [*self._turns, *map(rank_bytes, new)] if new else self._turns
        turn = rank_bytes(TURN)
        ends = {k: rank_bytes(k * every) for k in set(closed.k.tolist())}
        return [
            join_ranks((ends[k], turn, turns[slot]))
            for k, slot in zip(closed.k.tolist(), closed.slots.tolist(), strict=True)
        ]

    def list_keys(self, places: Sequence[int]) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Yield keys with their states, due times, and due times in the store.

        A state is None if nothing is held for a key.
        """
        assert self.batch is not None and self.plan is not None  # noqa: PT018, S101
        if not places:
            return
        order = np.argsort(self.slots, kind="stable")
        ends = np.searchsorted(self.slots[order], np.arange(len(self.keys) + 1))
        chosen = np.zeros(len(self.keys), bool)
        chosen[list(places)] = True
        order = order[chosen[self.slots[order]]]
        items = self.batch.take(order).items()
        times = self.times[order].tolist()
        counts, start = np.diff(ends).tolist(), 0
        for place in sorted(places):
            end = start + counts[place]
            state = due = None
            if end > start:
                own = items[start:end], times[start:end]
                state, due = self.plan.restore(*own, self.reached)
            yield self.keys[place], state, due, self.saved[place]
            start = end

    def put_back(self, keys: dict[Any, Any]) -> None:
        """Turn the held contents into states for the interpreter."""
        assert isinstance(keys, LentKeys)  # noqa: S101 - who has lent them
        changed = self._changed if keys.stored else np.ones(len(self.keys), bool)
        for key, state, due, saved in self.list_keys(np.flatnonzero(changed).tolist()):
            keys.take_back(key, state, saved)
            if state is None:
                self.state["due"].pop(key, None)
            else:
                self.state["due"][key] = due
                entry = (due, TURN, key_rank(key), key)
                heapq.heappush(self.state["queue"], entry)

    def list_changes(self) -> Iterator[tuple[Any, Any | HeldItems]]:
        """Yield keys with their changes: the state, its new and its old due time."""
        for key, state, due, saved in self.list_keys(self.take_changed()):
            self.saved[self._places[key]] = due
            yield key, (state, due, saved)


def check_clock(state: Mapping[str, Any], scale: Scale, dtype: Any) -> Any:
    """Return the clock; refuse one whose scale differs from the times."""
    reached = state["reached"]
    if state["idle"] or state["last"] or state["scale"] not in (None, scale):
        msg = "times have another scale"
        raise UnfitError(msg)
    if reached is not None and not _is_like(reached, dtype):
        msg = "the clock has another type"
        raise UnfitError(msg)
    return reached


def _is_like(time: Any, dtype: Any) -> bool:
    if dtype == np.float64:
        return type(time) is float
    return type(time) is int and abs(time) <= _FAR


def find_effective(
    signs: Sequence[Any], reached: Any, scale: Scale, dtype: Any
) -> tuple[list[int], Numpy]:
    """Return the advances that move the clock, and the times it moves to."""
    found: list[int] = []
    times: list[Any] = []
    for number, sign in enumerate(signs):
        if type(sign) is not Advance or sign.scale != scale:
            msg = "a sign is no advance on the scale of the times"
            raise UnfitError(msg)
        if not _is_like(sign.time, dtype):
            msg = "the clock has another type"
            raise UnfitError(msg)
        if reached is None or sign.time > reached:
            reached = sign.time
            found.append(number)
            times.append(reached)
    return found, np.array(times, dtype)
