"""Batches of items sent between tasks, and the blobs that carry them.

A blob is the bytes of a batch: Arrow columns if the tuple type allows it, else pickled
items, and in both cases the positions. Rows with blobs move through the engine's shuffle
untouched; only the receiving task looks inside.

Positions are columns of numbers. A turn (see `positions`) is a column of bytes. On a
stream with punctuations or a clock these signs are kept apart from the columns of its
items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.connectors.files.arrow_items import (
    Form,
    join_tables,
    to_items,
    to_table,
    without_codes,
)
from anabranch.epochs.transport.pickle import Pickler
from anabranch.operators.clock import is_sign
from anabranch.runtime.columns.placed import arrow_column, column_of, sort_positions

Numbers = npt.NDArray[Any]  # whole numbers, or turns
_COLUMNS, _PICKLED, _MARKED = b"c", b"p", b"m"
_CHUNK_ITEMS = 1 << 14
_WORTH = 4  # rows per dictionary word sent with them
_NO_NUMBERS = np.zeros(0, np.int64)


class MarkedTable(NamedTuple):
    """The items of a stream as a table, and its signs at the indices `places`."""

    table: pa.Table
    places: Numbers
    signs: list[Any]

    def __len__(self) -> int:
        return int(self.table.num_rows) + len(self.signs)

    @property
    def rows(self) -> Numbers:
        """The indices of items among all."""
        return np.delete(np.arange(len(self)), self.places)

    def list_all(self, form: Form) -> list[Any]:
        """Return items and signs as objects, in order."""
        items, made, start = to_items(self.table, form), [], 0
        for number, (place, sign) in enumerate(
            zip(self.places.tolist(), self.signs, strict=True)
        ):
            made += items[start : place - number]
            made.append(sign)
            start = place - number
        return made + items[start:]

    def take(self, order: Numbers) -> MarkedTable:
        """Return items and signs in another order, or a selection."""
        is_sign_at = np.zeros(len(self), bool)
        is_sign_at[self.places] = True
        ranks = np.cumsum(~is_sign_at) - 1
        ranks[self.places] = np.arange(len(self.signs))
        chosen = is_sign_at[order]
        signs = [self.signs[n] for n in ranks[order[chosen]].tolist()]
        table = self.table.take(arrow_column(ranks[order[~chosen]]))
        return MarkedTable(table, np.flatnonzero(chosen), signs)

    def slice(self, start: int, end: int) -> MarkedTable:
        """Return the range from `start` to `end`."""
        first, last = np.searchsorted(self.places, [start, end]).tolist()
        table = self.table.slice(start - first, end - start - (last - first))
        return MarkedTable(
            table, self.places[first:last] - start, self.signs[first:last]
        )


@dataclass
class WireBatch:
    """Items in order, as a table or as a list, with columns of positions.

    If signs are among the items of a stream, a list has them too, and columns are
    `marked` with them; then there is no `table`, which would have items alone.
    """

    positions: list[Numbers]
    form: Form | None
    table: pa.Table | None = None
    listed: list[Any] | None = None
    marked: MarkedTable | None = None

    def __len__(self) -> int:
        if self.listed is not None:
            return len(self.listed)
        if self.marked is not None:
            return len(self.marked)
        return 0 if self.table is None else self.table.num_rows

    @property
    def items(self) -> list[Any]:
        """The items as Python objects, including signs."""
        if self.listed is None:
            assert self.form is not None  # noqa: S101 - it is columns
            if self.marked is not None:
                self.listed = self.marked.list_all(self.form)
            else:
                assert self.table is not None  # noqa: S101 - one of them is there
                self.listed = to_items(self.table, self.form)
        return self.listed

    def as_table(self) -> pa.Table | None:
        """Return the items as columns, or None if they do not fit."""
        if self.marked is not None:
            return None
        if self.table is None and self.form is not None and self.listed:
            self.table = to_table(self.listed, self.form)
        return self.table

    def compact(self) -> WireBatch:
        """Return the batch as columns alone if possible: objects take up room."""
        if self.as_table() is not None:
            return WireBatch(self.positions, self.form, self.table)
        marked = self.marked or self._set_signs_apart()
        if marked is None:
            return self
        return WireBatch(self.positions, self.form, marked=marked)

    def _set_signs_apart(self) -> MarkedTable | None:
        if self.form is None or not self.listed:
            return None
        places = [place for place, item in enumerate(self.listed) if is_sign(item)]
        if not places or len(places) == len(self.listed):
            return None
        items = [item for item in self.listed if not is_sign(item)]
        table = to_table(items, self.form)
        if table is None:
            return None
        signs = [self.listed[place] for place in places]
        return MarkedTable(table, np.array(places, np.int64), signs)

    def drop_signs(self) -> WireBatch:
        """Return the items without signs."""
        if self.marked is not None:
            rows = self.marked.rows
            positions = [column[rows] for column in self.positions]
            return WireBatch(positions, self.form, self.marked.table)
        kept = [place for place, item in enumerate(self.items) if not is_sign(item)]
        return self if len(kept) == len(self) else self.take(np.array(kept, np.int64))

    def drop_positions(self) -> WireBatch:
        """Return the items for a receiver to whom their order does not matter."""
        return WireBatch([], self.form, self.table, self.listed, self.marked)

    def chunks(self) -> Iterator[WireBatch]:
        """Cut a table into parts whose objects fit the cache."""
        if self.listed is not None or len(self) <= _CHUNK_ITEMS:
            yield self
            return
        for start in range(0, len(self), _CHUNK_ITEMS):
            yield self.slice(start, min(len(self), start + _CHUNK_ITEMS))

    def take(self, order: Numbers) -> WireBatch:
        """Return the items in another order, or a selection."""
        positions = [column[order] for column in self.positions]
        if self.marked is not None:
            return WireBatch(positions, self.form, marked=self.marked.take(order))
        if self.as_table() is not None and self.table is not None:
            return WireBatch(positions, self.form, self.table.take(arrow_column(order)))
        items = self.items
        return WireBatch(positions, self.form, None, [items[i] for i in order.tolist()])

    def slice(self, start: int, end: int) -> WireBatch:
        """Return the items from `start` to `end`."""
        positions = [column[start:end] for column in self.positions]
        if self.marked is not None:
            marked = self.marked.slice(start, end)
            return WireBatch(positions, self.form, marked=marked)
        if self.table is not None:
            table = self.table.slice(start, end - start)
            return WireBatch(positions, self.form, table)
        return WireBatch(positions, self.form, None, self.items[start:end])


def encode(batch: WireBatch, pickler: Pickler) -> bytes | pa.Buffer:
    """Return a batch as the bytes of a blob."""
    if batch.marked is not None:
        return _encode_marked(batch, batch.marked, pickler)
    table = batch.as_table()
    if table is None:
        return _PICKLED + pickler.dumps((batch.positions, batch.items))
    if _has_large_dictionary(table):
        table = without_codes(table)
    for number, column in enumerate(batch.positions):
        table = table.append_column(f"#{number}", arrow_column(column))
    table = table.unify_dictionaries()  # else each would be sent
    measured = pa.MockOutputStream()
    _write(measured, table)
    blob = pa.allocate_buffer(measured.size())  # one that grows would be copied
    _write(pa.FixedSizeBufferWriter(blob), table)
    return blob


def _encode_marked(batch: WireBatch, marked: MarkedTable, pickler: Pickler) -> bytes:
    positions = [column[marked.places] for column in batch.positions]
    signs = pickler.dumps((marked.places, positions, marked.signs))
    columns = encode(batch.drop_signs(), pickler)
    return b"".join([_MARKED, len(signs).to_bytes(8, "little"), signs, columns])


def _decode_marked(blob: pa.Buffer, form: Form | None, pickler: Pickler) -> WireBatch:
    size = int.from_bytes(blob[1:9], "little")
    places, found, signs = pickler.loads(memoryview(blob)[9 : 9 + size])
    items = decode(blob.slice(9 + size), form, pickler)
    assert items.table is not None  # noqa: S101 - as it was encoded
    marked = MarkedTable(items.table, places, signs)
    rows, positions = marked.rows, []
    for own, of_signs in zip(items.positions, found, strict=True):
        column = np.empty(len(marked), own.dtype)
        column[rows], column[places] = own, of_signs
        positions.append(column)
    return WireBatch(positions, form, marked=marked)


def _write(sink: Any, table: pa.Table) -> None:
    sink.write(_COLUMNS)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


class Parcel:
    """Columns for another unit, serialized when they leave the process."""

    def __init__(self, batch: WireBatch, pickler: Pickler) -> None:
        self._batch = batch
        self._pickler = pickler

    @cached_property
    def blob(self) -> bytes | pa.Buffer:
        """The bytes of the batch."""
        return encode(self._batch, self._pickler)

    def unpack(self, form: Form | None) -> WireBatch:
        """Return the batch, for its only receiver."""
        batch = self._batch
        return WireBatch(list(batch.positions), form, batch.table, marked=batch.marked)


def pack(batch: WireBatch, pickler: Pickler) -> bytes | pa.Buffer | Parcel:
    """Return a batch as it leaves a unit; objects are copied, since they may change."""
    if batch.marked is None and batch.as_table() is None:
        return encode(batch, pickler)
    return Parcel(batch, pickler)


def blob_of(payload: Any) -> Any:
    """Return the bytes of a payload.

    >>> blob_of(b"p")
    b'p'
    """
    return payload.blob if isinstance(payload, Parcel) else payload


def _has_large_dictionary(table: pa.Table) -> bool:
    """Tell whether a dictionary is too large to be sent with the rows."""
    return any(
        column.num_chunks > 0
        and pa.types.is_dictionary(column.type)
        and len(column.chunk(0).dictionary) * _WORTH > len(column)
        for column in table.columns
    )


def decode(blob: pa.Buffer | Parcel, form: Form | None, pickler: Pickler) -> WireBatch:
    """Return the batch of a blob."""
    if isinstance(blob, Parcel):
        return blob.unpack(form)
    if blob[:1] == _PICKLED:
        positions, items = pickler.loads(memoryview(blob)[1:])
        return WireBatch(positions, form, None, items)
    if blob[:1] == _MARKED:
        return _decode_marked(blob, form, pickler)
    table = pa.ipc.open_stream(blob.slice(1)).read_all()
    names = [name for name in table.column_names if name.startswith("#")]
    positions = [_numbers(table.column(name)) for name in names]
    return WireBatch(positions, form, table.drop_columns(names))


def _numbers(column: pa.ChunkedArray) -> Numbers:
    if not pa.types.is_integer(column.type):
        return column_of(column.to_pylist(), turns=True)
    parts = [np.asarray(np.from_dlpack(chunk), np.int64) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([_NO_NUMBERS, *parts])


def in_order(batches: Sequence[WireBatch]) -> WireBatch:
    """Merge several sorted batches into one."""
    merged = list(merge_in_order(batches))
    if not merged:
        return batches[0] if batches else WireBatch([], None, None, [])
    return end_to_end(merged)


def merge_in_order(batches: Sequence[WireBatch]) -> Iterator[WireBatch]:
    """Merge several sorted batches, batch by batch.

    Batches with disjoint ranges are not sorted, only concatenated. Of overlapping ones,
    the items before the earliest end are sorted.
    """
    waiting = sorted((b for b in batches if len(b)), key=_first, reverse=True)
    if any(batch.table is None and batch.marked is None for batch in waiting):
        yield from _sort_objects(waiting[::-1])
        return
    open_: list[WireBatch] = []
    while waiting or open_:
        if not open_:
            open_.append(waiting.pop())
        end = min(int(batch.positions[0][-1]) for batch in open_)
        while waiting and waiting[-1].positions[0][0] <= end:
            open_.append(waiting.pop())
            end = min(end, int(open_[-1].positions[0][-1]))
        before, after = [], []
        for batch in open_:
            cut = int(np.searchsorted(batch.positions[0], end, side="right"))
            before.append(batch if cut == len(batch) else batch.slice(0, cut))
            if cut < len(batch):
                after.append(batch.slice(cut, len(batch)))
        open_ = after
        yield _sort([batch for batch in before if len(batch)])


def _sort(batches: Sequence[WireBatch]) -> WireBatch:
    """Merge sorted batches."""
    batches = sorted(batches, key=_first)
    joined = end_to_end(batches)
    if all(_last(one) < _first(two) for one, two in pairwise(batches)):
        return joined
    return _each_mark_once(joined.take(sort_positions(joined.positions)))


def _sort_objects(filled: list[WireBatch]) -> Iterator[WireBatch]:
    """Merge sorted batches with objects, keeping each punctuation once."""
    joined = end_to_end(filled)
    if not all(_last(one) < _first(two) for one, two in pairwise(filled)):
        joined = _each_mark_once(joined.take(sort_positions(joined.positions)))
    yield joined


def _each_mark_once(batch: WireBatch) -> WireBatch:
    """Drop the copies of a punctuation that passed several replicas."""
    if batch.table is not None:
        return batch
    if batch.marked is not None:
        places = batch.marked.places
    else:
        found = [place for place, item in enumerate(batch.items) if is_sign(item)]
        places = np.array(found, np.int64)
    places = places[places > 0]
    same = np.ones(len(places), bool)
    for column in batch.positions:
        same &= column[places] == column[places - 1]
    if not same.any():
        return batch
    return batch.take(np.delete(np.arange(len(batch)), places[same]))


def interleave(
    batches: Sequence[WireBatch], width: int, turns: Collection[int] = ()
) -> tuple[list[Any], list[Numbers], list[int]]:
    """Merge the items of several streams by position, with the stream of each.

    Positions of fewer than `width` numbers are padded with zeros.
    """
    padded = [
        batch.positions
        + [np.zeros(len(batch), np.int64)] * (width - len(batch.positions))
        for batch in batches
    ]
    columns = []
    for place in range(width):
        parts = [positions[place] for positions in padded]
        if place in turns:
            parts = [column_of(part.tolist(), turns=True) for part in parts]
        columns.append(np.concatenate(parts))
    streams = np.concatenate(
        [np.full(len(batch), number) for number, batch in enumerate(batches)]
    )
    items = [item for batch in batches for item in batch.items]
    order = sort_positions([*columns, streams])
    return (
        [items[i] for i in order.tolist()],
        [column[order] for column in columns],
        streams[order].tolist(),
    )


def end_to_end(batches: Sequence[WireBatch]) -> WireBatch:
    """Concatenate batches."""
    if len(batches) == 1:
        return batches[0]
    positions = [
        np.concatenate(columns)
        for columns in zip(*(b.positions for b in batches), strict=True)
    ]
    form = batches[0].form
    tables = [batch.table for batch in batches]
    if all(table is not None for table in tables):
        return WireBatch(positions, form, join_tables(tables))
    if all(one.table is not None or one.marked is not None for one in batches):
        return WireBatch(positions, form, marked=_join_marked(batches))
    return WireBatch(
        positions, form, None, [x for batch in batches for x in batch.items]
    )


def _join_marked(batches: Sequence[WireBatch]) -> MarkedTable:
    tables, places, signs = [], [np.zeros(0, np.int64)], []
    before = 0
    for batch in batches:
        if batch.marked is None:
            tables.append(batch.table)
        else:
            tables.append(batch.marked.table)
            places.append(batch.marked.places + before)
            signs += batch.marked.signs
        before += len(batch)
    return MarkedTable(join_tables(tables), np.concatenate(places), signs)


def _first(batch: WireBatch) -> tuple[Any, ...]:
    return tuple(column[0] for column in batch.positions)


def _last(batch: WireBatch) -> tuple[Any, ...]:
    return tuple(column[-1] for column in batch.positions)
