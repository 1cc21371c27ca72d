"""Runs a chain of operators on batches of columns.

A batch succeeds or fails as a whole: a kernel works on copies of the states, which are
written back once all kernels of the chain have processed all items. If one gives up,
nothing has happened yet, and the caller runs the batch in Python.

A function of one string is a lookup table, which Python itself computes once per
string. So the values are exactly Python's. A string on which the function raises, or
returns a value of another type, is flagged: a kernel that meets it gives up.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.graph.graph import Op
from anabranch.plan.column_kernels import (
    CODED,
    TIMES,
    ColumnKernel,
    ColumnShape,
    StringTable,
    count_time,
)
from anabranch.runtime.columns.column import (
    DTYPES,
    PYTHON_TYPES,
    BatchColumn,
    Numpy,
    Pools,
    UnfitError,
    check_types,
)
from anabranch.runtime.columns.held_state import (
    ColumnBatch,
    Held,
    HeldScan,
    HeldWindows,
    from_arrays,
    to_arrays,
    transpose,
)
from anabranch.runtime.columns.slot_order import prepare_sorting, sort_slots
from anabranch.runtime.columns.windows import (
    ClosedWindows,
    KeyRange,
    WindowPlan,
    ramps,
    window_plan,
)
from anabranch.runtime.compiled.build import Fire, compile_columns
from anabranch.runtime.state import LentStates

_DEEPEST = 3  # strings of strings of strings
_LARGEST = (1 << 63) - 1


class StringTables:
    """The tables of one kernel.

    >>> pools = Pools()
    >>> _ = pools["str"].add("one"), pools["str"].add("")
    >>> wanted = [StringTable("s[0]", "str"), StringTable("len(s)", "int")]
    >>> first, bad, lengths, _ = StringTables(wanted, pools).arrays()
    >>> pools["str"].strings[first[0]], bad.tolist(), lengths.tolist()
    ('o', [False, True, True], [3, 0, 1])
    """

    def __init__(self, tables: Sequence[StringTable], pools: Pools) -> None:
        self._pools = pools
        self._tables = [
            Ranks(table) if table.text == "rank" else _FilledTable(table)
            for table in tables
        ]

    def arrays(self) -> list[Numpy]:
        """Return the values of each table, and where they are missing."""
        for table in self._tables:
            table.fill(self._pools)
        found = []
        for table in self._tables:
            found += table.arrays(self._pools)
        return found


class Ranks:
    """The ranks of all strings."""

    def __init__(self, table: StringTable) -> None:
        self._of = table.of
        self._ranks = np.zeros(0, np.int64)

    def fill(self, pools: Pools) -> None:
        """Sort all strings; ranks change when there are new ones."""

    def arrays(self, pools: Pools) -> list[Numpy]:
        """Return the ranks, none of them missing."""
        pool = pools[self._of]
        if len(pool) != len(self._ranks):
            order = sorted(range(len(pool)), key=pool.strings.__getitem__)
            self._ranks = np.empty(len(pool), np.int64)
            self._ranks[order] = np.arange(len(pool))
        return [self._ranks, np.zeros(len(pool), np.bool_)]


class _FilledTable:
    def __init__(self, table: StringTable) -> None:
        self._function = table.function()
        self._of = table.of
        self._kind = table.gives
        self._type = table.kind or PYTHON_TYPES[table.gives]
        self._values: list[Any] = []
        self._bad: list[bool] = []

    def fill(self, pools: Pools) -> None:
        """Compute the values of new strings."""
        for code in range(len(self._values), len(pools[self._of])):
            value, bad = self._compute(pools, code)
            self._values.append(value)
            self._bad.append(bad)

    def _compute(self, pools: Pools, code: int) -> tuple[Any, bool]:  # noqa: PLR0911 - one for each way to fail
        pool = pools[self._of]
        if pool.depths[code] >= _DEEPEST:
            return 0, True
        try:
            value: Any = self._function(pool.strings[code])
        except Exception:  # noqa: BLE001 - Python will raise it where it is met
            return 0, True
        if type(value) is not self._type:
            return 0, True
        if self._kind in TIMES:
            if isinstance(value, dt.datetime) and (value.tzinfo or value.fold):
                return 0, True
            value = count_time(value)
        if type(value) is int and not -_LARGEST <= value <= _LARGEST:
            return 0, True
        if self._kind in CODED:
            return pools[self._kind].add(value, pool.depths[code] + 1), False
        return value, False

    def arrays(self, pools: Pools) -> list[Numpy]:
        """Return the values, and where they are missing."""
        missing = len(pools[self._of]) - len(self._values)
        values = np.array([*self._values, *[0] * missing], DTYPES[self._kind])
        bad = np.array([*self._bad, *[True] * missing], np.bool_)
        return [values, bad]


_MOST_STRINGS = 200_000  # in the pools; beyond this, Python is as fast
_MOST_OUTPUTS = 1 << 24  # of a batch

Commit = Callable[[], None]
Step: TypeAlias = "Callable[[ColumnBatch, list[Commit]], ColumnBatch]"


class ColumnChain:
    """The compiled kernels of a chain of operators, and the states of these
    operators.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        kernels: Mapping[str, ColumnKernel],
        states: Mapping[str, MutableMapping[Any, Any]],
    ) -> None:
        """Compile; raise `CompilationError` if Numba cannot."""
        self._pools = Pools()
        self._steps = [
            ColumnStep(op, kernels[op.name], states.get(op.name), self._pools)
            for op in ops
        ]

    @property
    def steps(self) -> list[Step]:
        """The steps applied to a batch, one per operator."""
        return [step.run for step in self._steps]

    @property
    def takes(self) -> ColumnShape:
        """The shape of the input items."""
        return self._steps[0].kernel.takes

    def run(self, batch: ColumnBatch) -> ColumnBatch:
        """Run a batch; raise `UnfitError` if in doubt."""
        commits: list[Commit] = []
        for step in self._steps:
            batch = step.run(batch, commits)
        for commit in commits:
            commit()
        return batch

    def of_table(self, table: pa.Table) -> ColumnBatch:
        """Return the items of a table, which has one column per scalar, as a batch."""
        return batch_of_table(table, self.takes, self._pools)

    def of_items(self, items: Sequence[Any]) -> ColumnBatch:
        """Return items as a batch; attributes that are only passed on stay objects."""
        return batch_of_items(items, self.takes, self._pools)


def batch_of_table(table: pa.Table, shape: ColumnShape, pools: Pools) -> ColumnBatch:
    """Return the items of a table, which has one column per scalar, as a batch."""
    _check_strings(pools)
    scalars = list(shape.scalars())
    if len(scalars) != table.num_columns:
        msg = "a table has other columns"
        raise UnfitError(msg)
    columns = tuple(
        BatchColumn(one, pools, arrow=_combine(column))
        for one, column in zip(scalars, table.columns, strict=True)
    )
    return ColumnBatch(shape, columns, table.num_rows)


def batch_of_items(
    items: Sequence[Any], shape: ColumnShape, pools: Pools
) -> ColumnBatch:
    """Return items as a batch; attributes that are only passed on stay objects."""
    _check_strings(pools)
    if shape.parts is None:
        check_types(items, shape)  # there may be punctuations among them
    columns = tuple(list_columns(items, shape, pools))
    return ColumnBatch(shape, columns, len(items), listed=items)


def _check_strings(pools: Pools) -> None:
    if len(pools) > _MOST_STRINGS:
        msg = "there are too many different strings"
        raise UnfitError(msg)


def list_columns(
    values: Sequence[Any], shape: ColumnShape, pools: Pools
) -> Iterator[BatchColumn]:
    """Yield the columns of items, scalar by scalar."""
    if shape.parts is None:
        yield BatchColumn(shape, pools, listed=values)
        return
    for part, column in zip(shape.parts, transpose(values, shape), strict=True):
        yield from list_columns(column, part, pools)


def _combine(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    made = column.combine_chunks()
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def is_clocked(kernel: ColumnKernel) -> bool:
    """Tell whether an operator makes or follows the clock of its stream."""
    window = kernel.window
    return kernel.role == "clock" or (window is not None and window.window.clocked)


class ColumnStep:
    """One operator, on batches of columns."""

    def __init__(
        self,
        op: Op,
        kernel: ColumnKernel,
        states: MutableMapping[Any, Any] | None,
        pools: Pools,
    ) -> None:
        self.kernel = kernel
        self._key = [kernel.takes.place_of(name) for name in op.state_key]
        self._states = states
        self._pools = pools
        self._fire: Fire | None = compile_columns(kernel) if kernel.text else None
        if kernel.role == "window":
            prepare_sorting()
        self._tables = StringTables(kernel.tables, pools)
        codes = [pools[kind].add(one) for kind, one in kernel.constants]
        self._constants = np.array(codes or [0], np.int64)
        self._room = 0
        self._plan: WindowPlan | None = None
        self._size = 0  # of tumbling count windows
        if kernel.window is not None and not is_clocked(kernel):
            window = kernel.window.window
            self._plan = window_plan(window, kernel.window.kind)
            if window.count is not None and window.every is None:
                self._size = window.count

    def run(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        if not batch.count:
            return self._gather(batch, self._outputs(0))
        match self.kernel.role:
            case "scan":
                return self._scan(batch, commits)
            case "window":
                return self._window(batch, commits)
            case "flat_map":
                return self._flat_map(batch)
            case "filter":
                kept = np.empty(batch.count, np.bool_)
                self._call(batch.count, [], self._read(batch), [], [kept])
                rows = np.flatnonzero(kept)
                return batch if len(rows) == batch.count else batch.take(rows)
        outs = self._outputs(batch.count)
        self._call(batch.count, [], self._read(batch), [], outs)
        return self._gather(batch, outs)

    def split(self, batch: ColumnBatch, branches: int) -> tuple[Numpy | None, Numpy]:
        """Return the items that go to streams, None for all, and the stream of each."""
        if self.kernel.role == "split":
            ports = np.empty(batch.count, np.int64)
            self._call(batch.count, [], self._read(batch), [], [ports])
            return None, ports
        rows, (ports,) = self._spread(batch)
        twice = len(np.unique(rows * branches + ports)) < len(ports)
        if twice or not ((ports >= 0) & (ports < branches)).all():
            msg = "an item names a stream twice, or one that is not there"
            raise UnfitError(msg)
        return rows, ports

    def _read(self, batch: ColumnBatch) -> list[Numpy]:
        return [a for n in self.kernel.reads for a in batch.columns[n].arrays]

    def _outputs(self, count: int) -> list[Numpy]:
        return [
            np.empty(count, DTYPES[kind])
            for shape in self.kernel.computed
            for kind in shape.arrays
        ]

    def _gather(
        self, batch: ColumnBatch, outs: list[Numpy], taken: Numpy | None = None
    ) -> ColumnBatch:
        """Return the outputs: scalars passed on, and computed ones.

        Outputs correspond to the items of the batch, or to those `taken`.
        """
        count, rows = batch.count, batch.rows
        if taken is not None:
            count, rows = len(taken), taken if rows is None else rows[taken]
        made = iter(outs)
        columns = []
        pairs = zip(self.kernel.gives.scalars(), self.kernel.sources, strict=True)
        for shape, source in pairs:
            if source is None:
                arrays = [next(made) for _ in shape.arrays]
                columns.append(self._column(shape, arrays, count))
            else:
                column = batch.columns[source]
                columns.append(column if taken is None else column.take(taken))
        return ColumnBatch(self.kernel.gives, tuple(columns), count, rows)

    def _column(
        self, shape: ColumnShape, arrays: list[Numpy], count: int
    ) -> BatchColumn:
        if not arrays:
            return BatchColumn(shape, self._pools, listed=[None] * count)
        return BatchColumn(shape, self._pools, arrays=arrays)

    def _call(
        self,
        count: int,
        head: list[Any],
        fields: list[Numpy],
        states: list[Numpy],
        outs: list[Numpy],
    ) -> int:
        tables = self._tables.arrays()
        if not count:
            return 0
        assert self._fire is not None  # noqa: S101 - a union does not come here
        done = self._fire(
            count, self._constants, *head, *fields, *tables, *states, *outs
        )
        if done not in (count, -1):
            msg = "an item may need Python"
            raise UnfitError(msg)
        return done

    def _flat_map(self, batch: ColumnBatch) -> ColumnBatch:
        rows, outs = self._spread(batch)
        return self._gather(batch, outs, rows)

    def _spread(self, batch: ColumnBatch) -> tuple[Numpy, list[Numpy]]:
        """Run a function with any number of outputs, allocating enough room.

        Return the item index of each output, and the outputs.
        """
        fields, counts = self._read(batch), np.zeros(batch.count, np.int64)
        while True:
            room = max(self._room, 2 * batch.count)
            outs = self._outputs(room)
            if self._call(batch.count, [], fields, [], [counts, *outs]) >= 0:
                break
            self._room = 2 * room
            if room > _MOST_OUTPUTS:
                msg = "a batch has too many outputs"
                raise UnfitError(msg)
        rows = np.repeat(np.arange(batch.count), counts)
        return rows, [out[: len(rows)] for out in outs]

    def _slots(self, batch: ColumnBatch) -> tuple[list[Any], Numpy]:
        """Return a batch's keys in order of occurrence, and the key index of each
        item.
        """
        if not self._key:
            return [()], np.zeros(batch.count, np.int64)
        columns = [batch.columns[place] for place in self._key if place is not None]
        words, codes = columns[0].encode()
        if len(columns) == 1:
            return words, codes
        keys: list[Any] = [(word,) for word in words]
        for column in columns[1:]:
            words, more = column.encode()
            pairs = codes * len(words) + more
            found, codes = _first_come(pairs)
            keys = [
                (*keys[pair // len(words)], words[pair % len(words)])
                for pair in found.tolist()
            ]
        return keys, codes

    def _open(self, keys: list[Any]) -> list[Any]:
        """Return the states of keys; new ones are not among them yet."""
        states: Any = self._states
        here = partial(dict.__contains__, states)  # what others hold stays with them
        new = [not here(key) for key in keys]
        try:
            return [states[key] for key in keys]
        except Exception as error:
            msg = "a key is refused"
            raise UnfitError(msg) from error
        finally:
            for key, is_new in zip(keys, new, strict=True):
                if is_new and self._key and here(key):
                    del states[key]  # not requested yet

    def _open_others(self, keys: list[Any]) -> list[Any]:
        """Return the states of keys that a holder does not have; it keeps its own."""
        states: Any = self._states
        holder, states.holder = states.holder, None
        try:
            return self._open(keys)
        finally:
            states.holder = holder

    def _scan(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        kernel, states = self.kernel, self._states
        assert states is not None and kernel.state is not None  # noqa: PT018, S101
        if self._key and isinstance(states, LentStates):
            return self._scan_held(batch, states, kernel.state, commits)
        keys, slots = self._slots(batch)
        before = self._open(keys)
        touched = np.zeros(len(keys), np.bool_)
        arrays = to_arrays([state[0] for state in before], kernel.state, self._pools)
        outs = self._outputs(batch.count)
        fields = self._read(batch)
        self._call(batch.count, [slots, touched], fields, arrays, outs)
        after = from_arrays(iter(arrays), kernel.state, len(keys), self._pools)

        def commit() -> None:
            kept = zip(keys, before, after, touched.tolist(), strict=True)
            for key, state, value, seen in kept:
                if seen:
                    state[0] = value
                    states[key] = state

        commits.append(commit)
        return self._gather(batch, outs)

    def _scan_held(
        self,
        batch: ColumnBatch,
        states: LentStates,
        shape: ColumnShape,
        commits: list[Commit],
    ) -> ColumnBatch:
        """Run a keyed scan whose states stay in arrays."""
        held = self._find_held(states, HeldScan, batch.count)
        keys, codes = self._slots(batch)
        numbers, new = held.place(keys)
        opened = [state[0] for state in self._open_others(new)]
        arrays = to_arrays(opened, shape, self._pools)
        if held.arrays:
            pairs = zip(held.arrays, arrays, strict=True)
            arrays = [np.concatenate(pair) for pair in pairs]
        touched = np.zeros(len(held.keys) + len(new), np.bool_)
        outs = self._outputs(batch.count)
        fields = self._read(batch)
        self._call(batch.count, [numbers[codes], touched], fields, arrays, outs)

        def commit() -> None:
            held.take_over(states, new, np.flatnonzero(touched))
            held.arrays, held.shape = arrays, shape

        commits.append(commit)
        return self._gather(batch, outs)

    def _find_held(self, states: LentStates, kind: type[Held], items: int) -> Held:
        """Return the held states, possibly none yet, for a batch of so many items."""
        held = states.holder
        if (
            type(held) is kind
            and held.pools is self._pools
            and not held.is_too_large_for(items)
        ):
            return held
        states.settle()
        return kind(self._pools)

    def _tumble(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        """Run count windows of each key; their contents stay in columns."""
        states, size = self._states, self._size
        assert isinstance(states, LentStates)  # noqa: S101 - since windows tumble
        held = self._find_held(states, HeldWindows, batch.count)
        keys, codes = self._slots(batch)
        numbers, new = held.place(keys)
        front, before = self._list_held(batch, held, self._open_others(new))
        slots = _join_slots(before, numbers[codes])
        totals = np.bincount(slots, minlength=len(before))
        firsts = np.cumsum(totals) - totals
        order = sort_slots(slots, firsts)
        closing = totals // size
        starts = np.repeat(firsts, closing) + ramps(closing) * size
        triggers = order[starts + (size - 1)]
        closed_by = np.argsort(triggers, kind="stable")
        starts = starts[closed_by]
        outs = self._outputs(len(starts))
        fields = [
            array
            for n in self.kernel.reads
            for array in (
                batch.columns[n].arrays
                if front is None
                else front.columns[n].join_arrays(batch.columns[n])
            )
        ]
        self._call(len(starts), [starts, starts + size, order], fields, [], outs)
        counts = totals - closing * size
        left = np.repeat(firsts + closing * size, counts) + ramps(counts)
        # objects would be listed again for each batch
        kept = _take_joined(front, batch, order[left]).in_arrays()

        def commit() -> None:
            held.take_over(states, new, numbers)
            held.batch, held.counts = kept, counts

        commits.append(commit)
        return self._gather(batch, outs, triggers[closed_by] - int(before.sum()))

    def _join_held(
        self,
        batch: ColumnBatch,
        held: HeldWindows,
        slots: Numpy,
        lists: Sequence[Sequence[Any]],
    ) -> tuple[ColumnBatch, Numpy, Numpy]:
        """Prepend the contents of windows to a batch; `lists` are those of new keys.

        Return all items, the key index of each, and how many items each key held.
        """
        front, before = self._list_held(batch, held, lists)
        whole = batch if front is None else front.join(batch)
        whole = ColumnBatch(whole.shape, whole.columns, whole.count)
        return whole, _join_slots(before, slots), before

    def _list_held(
        self, batch: ColumnBatch, held: HeldWindows, lists: Sequence[Sequence[Any]]
    ) -> tuple[ColumnBatch | None, Numpy]:
        """Return the contents of windows, key by key, and how many items each key has.

        `lists` are those of new keys.
        """
        waiting = [item for items in lists for item in items]
        front = held.batch
        if waiting:
            columns = tuple(list_columns(waiting, batch.shape, self._pools))
            more = ColumnBatch(batch.shape, columns, len(waiting))
            front = more if front is None else front.join(more)
        lengths = np.array(list(map(len, lists)), np.int64)
        return front, np.concatenate([held.counts, lengths])

    def _window(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        """Run the windows that a batch's items close, in closing order."""
        states, plan = self._states, self._plan
        assert states is not None and plan is not None  # noqa: PT018, S101
        if self._key and isinstance(states, LentStates):
            if self._size:
                return self._tumble(batch, commits)
            return self._window_held(batch, states, plan, commits)
        keys, slots = self._slots(batch)
        old = self._open(keys)
        whole, slots, held = self._with_held(batch, old, slots, plan)
        ends = np.cumsum(np.bincount(slots, minlength=len(keys)))
        starts = np.concatenate([[0], ends[:-1]])
        order, firsts = sort_slots(slots, starts), starts.tolist()
        ranges = list(map(KeyRange, firsts, held, ends.tolist(), old))
        found, outs, closing = self._close(whole, order, plan, ranges)
        kept = whole.take(order[np.concatenate([*found.kept, _NOTHING])]).items()
        cuts = np.cumsum([0, *map(len, found.kept)]).tolist()

        def commit() -> None:
            for k, key in enumerate(keys):
                plan.change(old[k], kept[cuts[k] : cuts[k + 1]], found.rests[k])
                states[key] = old[k]

        commits.append(commit)
        return self._gather(batch, outs, closing - sum(held))

    def _window_held(
        self,
        batch: ColumnBatch,
        states: LentStates,
        plan: WindowPlan,
        commits: list[Commit],
    ) -> ColumnBatch:
        """Run keyed windows; their contents stay in columns."""
        held = self._find_held(states, HeldWindows, batch.count)
        keys, codes = self._slots(batch)
        numbers, new = held.place(keys)
        opened = self._open_others(new)
        whole, slots, before = self._join_held(
            batch, held, numbers[codes], [plan.items_of(state) for state in opened]
        )
        ends = np.cumsum(np.bincount(slots, minlength=len(before)))
        starts = np.concatenate([[0], ends[:-1]])
        order, firsts = sort_slots(slots, starts), starts.tolist()
        places, olds = numbers.tolist(), before.tolist()
        rests = [*held.rests, *([None] * len(new))]
        ranges = []
        for place in places:
            if place < len(held.keys):
                state = plan.restore([None] * olds[place], rests[place])
            else:
                state = opened[place - len(held.keys)]
            at = firsts[place], olds[place], int(ends[place])
            ranges.append(KeyRange(*at, state))
        found, outs, closing = self._close(whole, order, plan, ranges)
        pieces = list(map(np.arange, firsts, ends))
        for place, own, rest in zip(places, found.kept, found.rests, strict=True):
            pieces[place], rests[place] = own, rest
        kept = whole.take(order[np.concatenate(pieces)])
        counts = np.array(list(map(len, pieces)), np.int64)

        def commit() -> None:
            held.take_over(states, new, numbers)
            held.batch, held.counts = kept, counts
            held.plan, held.rests = plan, rests

        commits.append(commit)
        return self._gather(batch, outs, closing - int(before.sum()))

    def _close(
        self,
        whole: ColumnBatch,
        order: Numpy,
        plan: WindowPlan,
        ranges: Sequence[KeyRange],
    ) -> tuple[ClosedWindows, list[Numpy], Numpy]:
        """Compute the windows that close, ordered by the closing item.

        Return them, their outputs, and the indices of those items.
        """
        window = self.kernel.window
        assert window is not None  # noqa: S101 - it is one
        on = order
        if window.on is not None:
            on = whole.columns[window.on].arrays[0][order]
        found = plan.find(ranges, on)
        triggers = order[np.concatenate([*found.triggers, _NOTHING])]
        starts = np.concatenate([*found.starts, _NOTHING])
        closed_by = np.argsort(triggers, kind="stable")
        head = [starts[closed_by], np.concatenate([*found.ends, _NOTHING])[closed_by]]
        if window.bound is not None:
            head += [bound[closed_by] for bound in plan.bounds(found)]
        outs = self._outputs(len(starts))
        places = order[np.concatenate([*found.order, _NOTHING])]
        fields = self._read(whole)
        if window.in_place:
            head.append(places)
        else:
            fields = [array[places] for array in fields]
        self._call(len(starts), head, fields, [], outs)
        return found, outs, triggers[closed_by]

    def _with_held(
        self, batch: ColumnBatch, old: list[Any], slots: Numpy, plan: WindowPlan
    ) -> tuple[ColumnBatch, Numpy, list[int]]:
        """Prepend the items that windows hold to a batch."""
        lists = [plan.items_of(state) for state in old]
        held = list(map(len, lists))
        waiting = [item for items in lists for item in items]
        if not waiting:
            return batch, slots, held
        columns = tuple(list_columns(waiting, batch.shape, self._pools))
        whole = ColumnBatch(batch.shape, columns, len(waiting)).join(batch)
        before = np.repeat(np.arange(len(old)), held)
        return whole, np.concatenate([before, slots]), held


_NOTHING = np.zeros(0, np.int64)


def _join_slots(before: Numpy, slots: Numpy) -> Numpy:
    """Return the key index of each item, those that keys held before included."""
    return np.concatenate([np.repeat(np.arange(len(before)), before), slots])


def _take_joined(
    front: ColumnBatch | None, batch: ColumnBatch, rows: Numpy
) -> ColumnBatch:
    """Return some items of two batches, one behind the other; only those are copied."""
    if front is None:
        return batch.take(rows)
    behind = rows >= front.count
    some = front.take(rows[~behind]).join(batch.take(rows[behind] - front.count))
    places = np.empty(len(rows), np.int64)
    places[~behind] = np.arange(len(rows) - np.count_nonzero(behind))
    places[behind] = np.arange(len(rows) - np.count_nonzero(behind), len(rows))
    return some.take(places)


def _first_come(numbers: Numpy) -> tuple[Numpy, Numpy]:
    """Return the distinct numbers in order of occurrence, and the index of each.

    >>> [a.tolist() for a in _first_come(np.array([7, 3, 7, 5]))]
    [[7, 3, 5], [0, 1, 0, 2]]
    """
    found, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return found[order], ranks[inverse]
