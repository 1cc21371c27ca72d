"""Runs a chain of operators on batches of columns.

A batch counts as a whole: a kernel works on copies of the states, and they are written
back once all kernels of the chain have done all items. If one gives up, nothing has
happened yet, and the caller runs the batch in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.graph.graph import Op
from anabranch.graph.types import fields_of
from anabranch.plan.column_kernels import ColumnKernel, ColumnKind
from anabranch.runtime.columns.column import (
    DTYPES,
    PYTHON_TYPES,
    BatchColumn,
    Numpy,
    StringPool,
    UnfitError,
    values_array,
)
from anabranch.runtime.columns.kept_state import from_arrays, to_arrays
from anabranch.runtime.columns.tables import StringTables
from anabranch.runtime.compiled.build import Fire, compile_columns

_MOST_STRINGS = 200_000  # in the pool; with more of them, Python is as fast

Commit = Callable[[], None]
Step: TypeAlias = "Callable[[ColumnBatch, list[Commit]], ColumnBatch]"


@dataclass(frozen=True)
class ColumnBatch:
    """Items in columns, and the place of each among those that came in.

    `type` is that of the items. `rows` is None where each stands for itself. `listed`
    are the items themselves, where they came in as such and are only chosen from.
    """

    type: Any
    columns: tuple[BatchColumn, ...]
    count: int
    rows: Numpy | None = None
    listed: Sequence[Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        fields = fields_of(self.type)
        return ("value",) if fields is None else tuple(fields)

    def table(self) -> pa.Table:
        """Return the columns as a table."""
        arrays = [column.arrow for column in self.columns]
        return pa.Table.from_arrays(arrays, names=list(self.names))

    def take(self, rows: Numpy) -> ColumnBatch:
        """Return the items at some places."""
        columns = tuple(column.take(rows) for column in self.columns)
        before = rows if self.rows is None else self.rows[rows]
        listed = None
        if self.listed is not None:
            listed = list(map(self.listed.__getitem__, rows.tolist()))
        return ColumnBatch(self.type, columns, len(rows), before, listed)

    def items(self) -> list[Any]:
        """Return the items themselves."""
        if self.listed is not None:
            return list(self.listed)
        values = [column.list_values() for column in self.columns]
        if fields_of(self.type) is None:
            return list(values[0])
        rows = zip(*values, strict=True)
        return [tuple.__new__(self.type, row) for row in rows]


class ColumnChain:
    """Kernels of a chain of operators, compiled, on the states of these operators."""

    def __init__(
        self,
        ops: Sequence[Op],
        kernels: Mapping[str, ColumnKernel],
        states: Mapping[str, MutableMapping[Any, Any]],
        item_type: Any,
    ) -> None:
        """Compile; raise `CompilationError` where Numba cannot."""
        self._type = item_type
        self._pool = StringPool()
        self._steps = [
            _Step(op, kernels[op.name], states.get(op.name), self._pool) for op in ops
        ]

    @property
    def steps(self) -> list[Step]:
        """What is done to a batch, operator by operator."""
        return [step.run for step in self._steps]

    def run(self, table: pa.Table) -> ColumnBatch:
        """Return what comes of the items of a table; raise `UnfitError` if in doubt."""
        columns = tuple(
            BatchColumn(kind, self._pool, arrow=_combine(column))
            for kind, column in zip(self._kinds, table.columns, strict=True)
        )
        batch = self.begin(columns, table.num_rows)
        commits: list[Commit] = []
        for step in self._steps:
            batch = step.run(batch, commits)
        for commit in commits:
            commit()
        return batch

    def begin(self, columns: tuple[BatchColumn, ...], count: int) -> ColumnBatch:
        """Return a batch that has come in."""
        if len(self._pool) > _MOST_STRINGS:
            msg = "there are too many different strings"
            raise UnfitError(msg)
        return ColumnBatch(self._type, columns, count)

    def of_items(self, items: Sequence[Any]) -> ColumnBatch:
        """Return items as a batch; attributes that are only passed on stay objects."""
        if set(map(type, items)) - {self._type}:
            msg = "an item has another type"
            raise UnfitError(msg)
        named = fields_of(self._type) is not None
        values = zip(*items, strict=True) if named else (items,)
        columns = tuple(
            BatchColumn(kind, self._pool, listed=listed)
            for kind, listed in zip(self._kinds, values, strict=True)
        )
        return replace(self.begin(columns, len(items)), listed=items)

    @property
    def _kinds(self) -> tuple[ColumnKind, ...]:
        return self._steps[0].kernel.takes


def _combine(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    made = column.combine_chunks()
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


class _Step:
    """One operator of a chain."""

    def __init__(
        self,
        op: Op,
        kernel: ColumnKernel,
        states: MutableMapping[Any, Any] | None,
        pool: StringPool,
    ) -> None:
        self.kernel = kernel
        self._key = op.state_key
        self._states = states
        self._pool = pool
        self._fire: Fire = compile_columns(kernel)
        self._tables = StringTables(kernel.tables, pool)
        self._strings = np.array([pool.add(s) for s in kernel.strings] or [0], np.int64)

    def run(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        match self.kernel.role:
            case "scan":
                return self._scan(batch, commits)
            case "window":
                return self._window(batch, commits)
        outs = self._outputs(batch.count)
        self._call(batch.count, [], self._read(batch), [], outs)
        if self.kernel.role == "filter":
            kept = np.flatnonzero(outs[0])
            return batch if len(kept) == batch.count else batch.take(kept)
        return self._gather(batch, batch, outs)

    def _read(self, batch: ColumnBatch) -> list[Numpy]:
        return [batch.columns[n].numbers for n in self.kernel.reads]

    def _outputs(self, count: int) -> list[Numpy]:
        if self.kernel.role == "filter":
            return [np.empty(count, np.bool_)]
        return [
            np.empty(count, DTYPES[kind])
            for kind, source in zip(self.kernel.gives, self.kernel.sources, strict=True)
            if source is None
        ]

    def _gather(
        self, batch: ColumnBatch, forwarded: ColumnBatch, outs: list[Numpy]
    ) -> ColumnBatch:
        """Return the outputs: attributes that are passed on, and computed ones."""
        made = iter(outs)
        columns = tuple(
            BatchColumn(kind, self._pool, numbers=next(made))
            if source is None
            else forwarded.columns[source]
            for kind, source in zip(self.kernel.gives, self.kernel.sources, strict=True)
        )
        return replace(batch, type=self.kernel.type, columns=columns, listed=None)

    def _call(
        self,
        count: int,
        head: list[Any],
        fields: list[Numpy],
        states: list[Numpy],
        outs: list[Numpy],
    ) -> None:
        tables = self._tables.arrays()
        if (
            count
            and self._fire(
                count, self._strings, *head, *fields, *tables, *states, *outs
            )
            != count
        ):
            msg = "an item may need Python"
            raise UnfitError(msg)

    def _slots(self, batch: ColumnBatch) -> tuple[list[Any], Numpy]:
        """Return the keys of a batch, and which of them each item has."""
        if not self._key:
            return [()], np.zeros(batch.count, np.int64)
        columns = [batch.columns[batch.names.index(name)] for name in self._key]
        words, codes = columns[0].encode()
        if len(columns) == 1:
            return words, codes
        keys: list[Any] = [(word,) for word in words]
        for column in columns[1:]:
            words, more = column.encode()
            pairs = codes * len(words) + more
            found, codes = np.unique(pairs, return_inverse=True)
            keys = [
                (*keys[pair // len(words)], words[pair % len(words)])
                for pair in found.tolist()
            ]
        return keys, codes.astype(np.int64)

    def _scan(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        kernel, states = self.kernel, self._states
        assert states is not None and kernel.state is not None  # noqa: PT018, S101
        keys, slots = self._slots(batch)
        new = [key not in states for key in keys]
        touched = np.zeros(len(keys), np.bool_)
        try:
            before = [states[key] for key in keys]
            arrays = to_arrays([state[0] for state in before], kernel.state, self._pool)
            outs = self._outputs(batch.count)
            fields = self._read(batch)
            self._call(batch.count, [slots, touched], fields, arrays, outs)
        except UnfitError:
            touched[:] = False
            raise
        finally:
            for key, is_new, seen in zip(keys, new, touched.tolist(), strict=True):
                if is_new and not seen and self._key:
                    del states[key]  # nobody has asked for it
        after = from_arrays(iter(arrays), kernel.state, len(keys), self._pool)

        def commit() -> None:
            for state, value, seen in zip(before, after, touched.tolist(), strict=True):
                if seen:
                    state[0] = value

        commits.append(commit)
        return self._gather(batch, batch, outs)

    def _window(self, batch: ColumnBatch, commits: list[Commit]) -> ColumnBatch:
        """Run the windows that the items of a batch fill, in the order they do so."""
        states, size = self._states, self.kernel.size
        assert states is not None  # noqa: S101
        keys, slots = self._slots(batch)
        new = [key not in states for key in keys]
        kept = [states[key] for key in keys]
        for key, is_new in zip(keys, new, strict=True):
            if is_new and self._key:
                del states[key]
        whole, slots = self._with_kept(batch, kept, slots)
        waiting = whole.count - batch.count
        order = np.argsort(_narrow(slots, len(keys)), kind="stable")
        counts = np.bincount(slots, minlength=len(keys))
        ends = np.cumsum(counts)
        firsts = ends - counts
        windows = counts // size
        starts = np.repeat(firsts, windows) + size * _ramps(windows)
        closing = order[starts + size - 1] if len(starts) else starts
        by_arrival = np.argsort(closing, kind="stable")
        starts, closing = starts[by_arrival], closing[by_arrival]
        outs = self._outputs(len(starts))
        fields = [whole.columns[n].numbers[order] for n in self.kernel.reads]
        self._call(len(starts), [starts, size], fields, [], outs)
        left = firsts + windows * size
        rows = [order[left[k] : ends[k]] for k in range(len(keys))]
        remaining = whole.take(np.concatenate(rows)) if rows else whole
        items, places = remaining.items(), np.cumsum([0, *map(len, rows)]).tolist()
        had = np.bincount(slots[waiting:], minlength=len(keys)).tolist()

        def commit() -> None:
            for k, key in enumerate(keys):
                if had[k]:
                    kept[k][:] = items[places[k] : places[k + 1]]
                    states[key] = kept[k]

        commits.append(commit)
        rows_of = closing - waiting
        closed = replace(
            batch,
            count=len(starts),
            rows=rows_of if batch.rows is None else batch.rows[rows_of],
        )
        return self._gather(closed, closed, outs)

    def _with_kept(
        self, batch: ColumnBatch, kept: list[list[Any]], slots: Numpy
    ) -> tuple[ColumnBatch, Numpy]:
        """Put the items that windows hold already in front of a batch."""
        waiting = [item for items in kept for item in items]
        if not waiting:
            return batch, slots
        lengths = list(map(len, kept))
        named = fields_of(batch.type) is not None
        if set(map(type, waiting)) != {batch.type}:
            msg = "a window holds items of another type"
            raise UnfitError(msg)
        columns = []
        for number, column in enumerate(batch.columns):
            found = [item[number] for item in waiting] if named else waiting
            first, then = _array(found, column.kind), column.arrow
            if then.type != first.type:  # codes of strings
                then = then.cast(first.type)
            joined = pa.concat_arrays([first, then])
            columns.append(BatchColumn(column.kind, self._pool, arrow=joined))
        before = np.repeat(np.arange(len(kept)), lengths)
        whole = ColumnBatch(batch.type, tuple(columns), len(waiting) + batch.count)
        return whole, np.concatenate([before, slots])


def _array(values: list[Any], kind: ColumnKind) -> pa.Array:
    """Return values of one kind as an array of Arrow's; refuse any other value."""
    if set(map(type, values)) != {PYTHON_TYPES[kind]}:
        msg = "a window holds a value of another type"
        raise UnfitError(msg)
    return values_array(values, kind)


def _narrow(slots: Numpy, keys: int) -> Numpy:
    """Return slots in 16 bits if they fit: NumPy sorts those by counting."""
    return slots.astype(np.uint16) if keys <= 1 << 16 else slots


def _ramps(counts: Numpy) -> Numpy:
    """Return 0, 1, ... up to each count.

    >>> _ramps(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) - np.repeat(ends - counts, counts))
