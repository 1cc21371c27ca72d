"""Runs a clock, and the operators that follow it, on batches of columns.

The clock is a prefix maximum of times, and an advance is sent where it has an effect.
Windows are found for all keys at once: an item belongs to the windows that end after
its time; one that ends at or before the clock closes; they close in the order (end,
key). The states are those of `anabranch.operators.clock` and of
`anabranch.runtime.clocked`.

Signs (punctuations and advances) are located between items by the number of items
before them.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from anabranch.graph.graph import Op
from anabranch.operators.clock import (
    FAR_FLOAT,
    Advance,
    EventTime,
    EventTimeKernel,
    Scale,
)
from anabranch.operators.timed import spans_of
from anabranch.operators.windows import Window
from anabranch.plan.column_kernels import ColumnKernel, ColumnKind
from anabranch.runtime.clocked import TURN, LentKeys, find_clock
from anabranch.runtime.columns.chain import ColumnStep, Commit, list_columns
from anabranch.runtime.columns.column import Numpy, Pools, UnfitError
from anabranch.runtime.columns.held_state import ColumnBatch, HeldKeys, HeldRanges
from anabranch.runtime.columns.windows import (
    check_calendar,
    check_finite,
    find_largest,
    ramps,
)
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
    far = FAR_FLOAT if times.dtype == np.float64 else _FAR
    if find_largest(times) > far:
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
        self.tumbling = window.every is None or window.every == window.time

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
        if self.tumbling:
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
        if self.tumbling:
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
        if not self.tumbling:
            return state[0], state[1]
        items = [item for held in state.values() for item in held]
        starts = [(k - 1) * self.every for k, held in state.items() for _ in held]
        return items, starts

    def restore(self, items: Any, times: list[Any], clock: Any) -> tuple[Any, Any]:
        """Return the state of a key with the given items, and when it is due."""
        ks = [time // self.every + 1 for time in times]
        if not self.tumbling:
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
        places = self.take_changed()
        flat = self.batch is not None and self.batch.shape.is_flat_record
        windows = flat and self.plan is not None and self.plan.tumbling
        found = self._list_windows(places) if windows else self.list_keys(places)
        for key, state, due, saved in found:
            self.saved[self._places[key]] = due
            yield key, (state, due, saved)

    def _list_windows(self, places: list[int]) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Yield keys as `list_keys` does, with the items of their windows in columns."""
        assert self.batch is not None and self.plan is not None  # noqa: PT018, S101
        every = self.plan.every
        numbers = self.times // every + 1
        order = np.lexsort((numbers, self.slots))
        slots, numbers = self.slots[order], numbers[order]
        changes = (slots[1:] != slots[:-1]) | (numbers[1:] != numbers[:-1])
        starts = _NOTHING
        if len(order):
            starts = np.flatnonzero(np.append(True, changes))
        ends = [*starts[1:].tolist(), len(order)][: len(starts)]
        shape, columns = self.batch.shape, self.batch.take(order).columns
        ranges = [HeldRanges(column) for column in columns]
        held: dict[int, dict[Any, HeldItems]] = {}
        opened = slots[starts].tolist(), numbers[starts].tolist(), starts.tolist()
        wanted = {*places}
        for place, k, start, end in zip(*opened, ends, strict=True):
            if place in wanted:
                cut = tuple(one.cut(start, end) for one in ranges)
                held.setdefault(place, {})[k] = HeldItems(shape.type, cut)
        for place in places:
            state = held.get(place)
            due = None if state is None else min(state) * every
            yield self.keys[place], state, due, self.saved[place]


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


class TimedStep(ColumnStep):
    """An operator that makes or follows a clock; `_on` is the column of its times."""

    def __init__(self, op: Op, kernel: ColumnKernel, *given: Any) -> None:
        super().__init__(op, kernel, *given)
        assert kernel.window is not None and kernel.window.on is not None  # noqa: PT018, S101
        self._key = [kernel.takes.place_of(name) for name in op.keyed_by]
        self._on = kernel.window.on
        self._timed = kernel.window


class ClockStep(TimedStep):
    """The operator that gives a stream its clock."""

    @functools.cached_property
    def _clock(self) -> ColumnClock:
        return ColumnClock(self._timed.window, self._timed.kind)

    def advance(self, batch: ColumnBatch, commits: list[Commit]) -> ClockedItems:
        """Apply the clock to the items of a batch."""
        states = self._states
        assert states is not None  # noqa: S101 - a clock is one
        found = self._clock.run(batch.columns[self._on].arrays[0], states[()])

        def commit() -> None:
            states[()][:] = found.state

        commits.append(commit)
        return found


class MeetingStep(ColumnStep):
    """A union of streams with clocks: its clock is the least of theirs.

    Items pass unchanged; the state is that of `anabranch.runtime.clocked`.
    """

    def advance(
        self, signs: Sequence[Any], ports: Sequence[int], commits: list[Commit]
    ) -> tuple[list[int], list[Advance]]:
        """Return the advances that move the common clock, and where it then is.

        `ports` are the inputs of the signs, which are in order.
        """
        assert self._states is not None  # noqa: S101 - it has clocks
        state = self._states[()]
        seen = {**state, "clocks": [*state["clocks"]]}
        found: list[int] = []
        advances: list[Advance] = []
        for number, (sign, port) in enumerate(zip(signs, ports, strict=True)):
            if type(sign) is not Advance or seen["scale"] not in (None, sign.scale):
                msg = "a sign is no advance on the scale of the others"
                raise UnfitError(msg)
            seen["scale"], seen["clocks"][port] = sign.scale, sign.time
            clock = find_clock(seen)
            if clock is not None and clock != seen["reached"]:
                seen["reached"] = clock
                found.append(number)
                advances.append(Advance(clock, sign.scale))

        def commit() -> None:
            state.update({name: seen[name] for name in ("scale", "clocks", "reached")})

        commits.append(commit)
        return found, advances


class ClockedOutputs(NamedTuple):
    """The outputs of windows closed by a clock, in order.

    `closed_by` has the index of the sign that closed each, `turns` their sort keys;
    `advanced` has the signs that moved the clock, to the `advances`.
    """

    batch: ColumnBatch
    closed_by: Numpy
    turns: list[bytes]
    advanced: Numpy
    advances: list[Advance]


class _WindowItems(NamedTuple):
    """Window items with their times and key indices."""

    batch: ColumnBatch
    times: Numpy
    slots: Numpy

    def take(self, rows: Numpy) -> _WindowItems:
        return _WindowItems(self.batch.take(rows), self.times[rows], self.slots[rows])

    def join(self, other: _WindowItems) -> _WindowItems:
        return _WindowItems(
            self.batch.join(other.batch),
            np.concatenate([self.times, other.times]),
            np.concatenate([self.slots, other.slots]),
        )


class _FoundKeys(NamedTuple):
    """The states of keys, their held contents, and the keys to add."""

    lent: LentKeys
    held: HeldClocked
    new: list[Any]
    opened: list[Any]
    saved: list[Any]


class ClockedStep(TimedStep):
    """Keyed time windows, closed by the clock."""

    @functools.cached_property
    def _clocked(self) -> ClockedPlan:
        return ClockedPlan(self._timed.window, self._timed.kind)

    def close(
        self,
        batch: ColumnBatch,
        signs: Sequence[Any],
        places: Numpy,
        commits: list[Commit],
    ) -> ClockedOutputs:
        """Run windows closed by signs; `places` counts the items before each sign."""
        assert self._states is not None  # noqa: S101 - a window has states
        plan, state = self._clocked, self._states[()]
        times = measure_times(batch.columns[self._on].arrays[0], plan.kind).copy()
        reached = check_clock(state, plan.scale, times.dtype)
        effective, clocks = find_effective(signs, reached, plan.scale, times.dtype)
        keys, slots = self._find_keys(batch, state, clocks)
        changed = [slots, np.arange(len(keys.new)) + len(keys.held.keys)]
        taken = plan.admit(times, reached, clocks, places[effective])
        came = _WindowItems(batch, times, slots)
        if taken is not None:
            came = came.take(np.flatnonzero(taken))
        whole = self._put_in_front(came, keys)
        closed, left = NO_WINDOWS, whole
        if len(clocks):
            ranks = keys.held.rank(keys.new)
            closed = plan.close(whole.times, whole.slots, ranks, reached, clocks)
            changed.append(closed.slots)
            kept = plan.find_open(whole.times, clocks[-1].item())
            if len(kept) < len(whole.times):
                left = whole.take(kept)
        outs = self._compute(whole.batch, closed)
        made = self._gather(whole.batch, outs, closed.rows[closed.starts])
        turns = keys.held.name_turns(closed, keys.new, plan.every)

        def commit() -> None:
            self._take_over(keys, left, np.concatenate(changed), state)
            keys.held.reached = clocks[-1].item() if len(clocks) else reached
            if signs or batch.count:
                state["scale"] = plan.scale
            if signs:
                state["clocks"][0] = signs[-1].time
            if len(clocks):
                state["reached"] = clocks[-1].item()

        commits.append(commit)
        advances = [Advance(clock, plan.scale) for clock in clocks.tolist()]
        advanced = np.array(effective, np.int64)
        made = replace(made, rows=None)
        return ClockedOutputs(made, advanced[closed.signs], turns, advanced, advances)

    def _find_keys(
        self, batch: ColumnBatch, state: dict[str, Any], clocks: Numpy
    ) -> tuple[_FoundKeys, Numpy]:
        """Return the keys a batch involves, and the key index of each item.

        They include the keys that are due by the clock, and all that Python holds.
        """
        lent, held = self._find_clocked(state, batch.count)
        if len(clocks) and "more" in state:
            state["more"](clocks[-1].item())
        names, codes = self._slots(batch) if batch.count else ([], _NOTHING)
        loaded = dict.keys(lent)
        if held.is_too_large_for(batch.count, len(loaded)):
            msg = "there are too many keys for so few items"
            raise UnfitError(msg)
        numbers, new = held.place(list(dict.fromkeys([*names, *loaded])))
        opened = [lent.fetch(key) for key in new]
        saved = [lent.find_saved(key) for key in new]
        return _FoundKeys(lent, held, new, opened, saved), numbers[codes]

    def _find_clocked(
        self, state: dict[str, Any], items: int
    ) -> tuple[LentKeys, HeldClocked]:
        """Return the states of keys, and the held ones, for so many items."""
        keys = state["keys"]
        if not isinstance(keys, LentKeys):
            keys = state["keys"] = LentKeys(keys)
        held = keys.holder
        if (
            isinstance(held, HeldClocked)
            and held.pools is self._pools
            and not held.is_too_large_for(items)
        ):
            return keys, held
        keys.settle()
        return keys, HeldClocked(self._pools)

    def _put_in_front(self, came: _WindowItems, keys: _FoundKeys) -> _WindowItems:
        """Prepend the held items to the new ones."""
        parts, held, shape = [came], keys.held, came.batch.shape
        items, since, places = self._clocked.list_all(keys.opened, len(held.keys))
        if items:
            columns = tuple(list_columns(items, shape, self._pools))
            moved = ColumnBatch(shape, columns, len(items))
            times = np.array(since, came.times.dtype)
            parts.insert(0, _WindowItems(moved, times, np.array(places, np.int64)))
        if held.batch is not None:
            parts.insert(0, _WindowItems(held.batch, held.times, held.slots))
        return functools.reduce(_WindowItems.join, parts)

    def _compute(self, whole: ColumnBatch, closed: Closed) -> list[Numpy]:
        """Return the results of the windows that close."""
        clocked = self._clocked
        head = [closed.starts, closed.ends]
        check_calendar(closed.k * clocked.every, clocked.size, clocked.kind)
        if self._timed.bound is not None:
            head += clocked.bounds(closed.k)
        outs = self._outputs(len(closed.k))
        fields = [
            array[closed.rows]
            for n in self.kernel.reads
            for array in whole.columns[n].arrays
        ]
        self._call(len(closed.k), head, fields, [], outs)
        return outs

    def _take_over(
        self,
        keys: _FoundKeys,
        left: _WindowItems,
        changed: Numpy,
        state: dict[str, Any],
    ) -> None:
        held = keys.held
        held.take_over(keys.lent, keys.new, changed)
        held.saved += keys.saved
        for key in keys.new:
            state["due"].pop(key, None)
        held.batch, held.times, held.slots = left
        held.plan, held.state = self._clocked, state


def make_step(
    op: Op,
    kernel: ColumnKernel,
    states: MutableMapping[Any, Any] | None,
    pools: Pools,
) -> ColumnStep:
    """Return an operator of a segment as a step on batches of columns."""
    if kernel.role == "clock":
        return ClockStep(op, kernel, states, pools)
    if kernel.role == "union" and op.timing is not None:
        return MeetingStep(op, kernel, states, pools)
    if kernel.window is not None and kernel.window.window.clocked:
        return ClockedStep(op, kernel, states, pools)
    return ColumnStep(op, kernel, states, pools)
