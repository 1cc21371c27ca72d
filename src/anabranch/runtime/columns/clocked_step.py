"""Runs a clock and the operators that follow it on batches of columns.

Signs (punctuations and advances) are located between items by the number of items
before them.
"""

from __future__ import annotations

import functools
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from anabranch.graph.graph import Op
from anabranch.operators.clock import Advance
from anabranch.plan.column_kernels import ColumnKernel
from anabranch.runtime.clocked import LentKeys
from anabranch.runtime.columns.chain import ColumnStep, Commit, list_columns
from anabranch.runtime.columns.column import Numpy, Pools, UnfitError
from anabranch.runtime.columns.column_clock import (
    NO_WINDOWS,
    ClockedItems,
    ClockedPlan,
    Closed,
    ColumnClock,
    HeldClocked,
    check_clock,
    find_effective,
    measure_times,
)
from anabranch.runtime.columns.held_state import ColumnBatch

_NOTHING: Numpy = np.zeros(0, np.int64)


class ClockStep(ColumnStep):
    """The operator that gives a stream its clock."""

    def __init__(
        self,
        op: Op,
        kernel: ColumnKernel,
        states: MutableMapping[Any, Any] | None,
        pools: Pools,
    ) -> None:
        super().__init__(op, kernel, states, pools)
        assert kernel.window is not None and kernel.window.on is not None  # noqa: PT018, S101
        self._on = kernel.window.on
        self._clock = ColumnClock(kernel.window.window, kernel.window.kind)

    def advance(self, batch: ColumnBatch, commits: list[Commit]) -> ClockedItems:
        """Apply the clock to the items of a batch."""
        states = self._states
        assert states is not None  # noqa: S101 - a clock is one
        found = self._clock.run(batch.columns[self._on].arrays[0], states[()])

        def commit() -> None:
            states[()][:] = found.state

        commits.append(commit)
        return found


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


class ClockedStep(ColumnStep):
    """Keyed time windows, closed by the clock."""

    def __init__(
        self,
        op: Op,
        kernel: ColumnKernel,
        states: MutableMapping[Any, Any] | None,
        pools: Pools,
    ) -> None:
        super().__init__(op, kernel, states, pools)
        assert kernel.window is not None and kernel.window.on is not None  # noqa: PT018, S101
        self._key = [kernel.takes.place_of(name) for name in op.keyed_by]
        self._on = kernel.window.on
        self._bounded = kernel.window.bound is not None
        self._clocked = ClockedPlan(kernel.window.window, kernel.window.kind)

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
        head = [closed.starts, closed.ends]
        if self._bounded:
            head += self._clocked.bounds(closed.k)
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
    if kernel.window is not None and kernel.window.window.clocked:
        return ClockedStep(op, kernel, states, pools)
    return ColumnStep(op, kernel, states, pools)
