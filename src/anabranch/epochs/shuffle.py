"""Divides the outputs of a unit among the replicas of the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.arrow_items import encode_values, values_of
from anabranch.epochs.layout import EpochLayout, Unit
from anabranch.epochs.state.states import bucket_of
from anabranch.epochs.task import ROW_ARROW, EpochTask, KeyCounts, TaskStage, replica_of
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.wire import Numbers, Parcel, WireBatch, blob_of, pack
from anabranch.operators.clock import is_sign
from anabranch.operators.getters import key_getter

_BLOB_ITEMS = 200_000  # keeps a blob at a few MiB
_FEW = 8  # replicas; up to this, repeated scans are faster than sorting
_MOST_KEYS = 1 << 17  # whose buckets are cached
_SMALL_BYTES = 1 << 16  # such payloads share a batch
_FREQUENT = 8  # keys that a task reports to the driver


Row = tuple[int, int, int, Any]  # unit, channel, entry, payload


class TaskRows:
    """The output rows of a task."""

    schema = ROW_ARROW

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def add(self, unit: int, channel: int, entry: int, payload: Any) -> None:
        """Add a row for a replica of a unit."""
        self._rows.append((unit, channel, entry, payload))

    def add_batch(
        self, unit: int, channel: int, entry: int, batch: WireBatch, pickler: Pickler
    ) -> None:
        """Add the blobs of a batch."""
        for start in range(0, len(batch), _BLOB_ITEMS):
            part = batch
            if len(batch) > _BLOB_ITEMS:
                part = batch.slice(start, min(len(batch), start + _BLOB_ITEMS))
            self.add(unit, channel, entry, pack(part, pickler))

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Add the rows of another task, without copying their payloads."""
        numbers = (batch.column(name) for name in ("unit", "channel", "entry"))
        payloads = [one.as_buffer() for one in batch.column("payload")]
        self._rows += zip(*(n.to_pylist() for n in numbers), payloads, strict=True)

    def take_unit(self, unit: Unit) -> list[list[pa.Buffer | Parcel]]:
        """Take out the rows of a unit: the blobs of each of its entries."""
        blobs: list[list[pa.Buffer | Parcel]] = [[] for _ in unit.entries]
        for target, _, entry, payload in self._rows:
            if target == unit.number:
                packed = isinstance(payload, Parcel)
                blobs[entry].append(payload if packed else pa.py_buffer(payload))
        self._rows = [row for row in self._rows if row[0] != unit.number]
        return blobs

    def list_rows(self) -> list[Row]:
        """Return the rows; payloads that stay here need not become bytes."""
        return list(self._rows)

    def list_blobs(self) -> list[Row]:
        """Return the rows as bytes, for another process."""
        return [(*row[:3], blob_of(row[3])) for row in self._rows]

    def batches(self, task: EpochTask, layout: EpochLayout) -> Iterator[pa.RecordBatch]:
        """Yield the rows, each with the partition of the next stage that takes it.

        Rows for a later stage, and for the driver, pass through all partitions alike.
        """
        places = task.stage.places(layout, task.stage.then)
        partition = {
            (unit.number, channel): index
            for index, found in enumerate(places)
            for unit, channel in found
        }
        spread = max(1, len(places))
        leaving = self.list_blobs()
        small = [row for row in leaving if len(row[3]) <= _SMALL_BYTES]
        large = [row for row in leaving if len(row[3]) > _SMALL_BYTES]
        for rows in ([small] if small else []) + [[row] for row in large]:
            units, channels, entries, payloads = zip(*rows, strict=True)
            dests = [
                partition.get((unit, channel), channel % spread)
                for unit, channel in zip(units, channels, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(
                [
                    *(
                        pa.array(numbers, pa.int32())
                        for numbers in (dests, units, channels, entries)
                    ),
                    _binary(payloads),
                ],
                schema=ROW_ARROW,
            )


def _binary(payloads: Sequence[Any]) -> pa.Array:
    """Return payloads as an Arrow array; a single one is not copied."""
    if len(payloads) > 1:
        return pa.array([bytes(payload) for payload in payloads], pa.binary())
    offsets = np.array([0, len(payloads[0])], np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(payloads[0])]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)


class SentKeys:
    """Counts the items sent to keyed units: by bucket, and by key if watched."""

    def __init__(self) -> None:
        self._buckets: dict[int, Numbers] = {}
        self._keys: dict[int, Counter[Any]] = {}
        self._found = _BucketOf(0)

    def find_buckets(self, count: int) -> _BucketOf:
        """Return the mapping of keys to `count` buckets; each key is hashed once."""
        if self._found.count != count or len(self._found) > _MOST_KEYS:
            self._found = _BucketOf(count)
        return self._found

    def add(self, unit: int, buckets: Numbers, count: int) -> None:
        """Count the items of a batch by bucket; those without a key are in none."""
        found = np.bincount(buckets[buckets >= 0], minlength=count)
        before = self._buckets.get(unit)
        self._buckets[unit] = found if before is None else before + found

    def add_keys(self, unit: int, keys: Mapping[Any, int]) -> None:
        """Count items of keys."""
        self._keys.setdefault(unit, Counter()).update(keys)

    def take(self) -> dict[int, KeyCounts]:
        """Return and reset the counts by unit."""
        taken = {
            unit: KeyCounts(
                counts,
                dict(self._keys.get(unit, Counter()).most_common(_FREQUENT)),
            )
            for unit, counts in self._buckets.items()
        }
        self._buckets, self._keys = {}, {}
        return taken


def by_key(
    batch: WireBatch, key: tuple[str, ...], task: EpochTask, unit: int, sent: SentKeys
) -> Iterator[tuple[int, WireBatch]]:
    """Divide by the replica that owns the key; each distinct key is hashed once."""
    count = task.stage.channels[unit]
    if count == 1:
        yield 0, batch
        return
    batch.as_table()  # once for the whole, before its keys are read
    for channel, rows in _by_channel(batch, key, task.stage, unit, sent):
        if len(rows):
            yield channel, batch.take(rows)


class _BucketOf(dict[Any, int]):
    """The bucket of each key seen so far."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __missing__(self, key: Any) -> int:
        bucket = self[key] = bucket_of(key, self.count)
        return bucket


def _by_channel(
    batch: WireBatch, key: tuple[str, ...], stage: TaskStage, unit: int, sent: SentKeys
) -> Iterator[tuple[int, Numbers]]:
    """Yield the replicas, each with the indices of its items.

    A punctuation goes to every replica; where their streams meet again, one is kept.
    """
    count = stage.channels[unit]
    if batch.table is None:
        if batch.marked is not None:
            marks = batch.marked.places
        else:
            found = [place for place, item in enumerate(batch.items) if is_sign(item)]
            marks = np.array(found, np.int64)
        if len(marks):
            real = np.delete(np.arange(len(batch)), marks)
            channels = _channels(batch.drop_signs(), key, stage, unit, sent)
            for channel in range(count):
                own = real[channels == channel]
                yield channel, np.sort(np.concatenate([own, marks]))
            return
    channels = _channels(batch, key, stage, unit, sent)
    if count <= _FEW:
        for channel in range(count):
            yield channel, np.flatnonzero(channels == channel)
        return
    order = np.argsort(channels, kind="stable")
    ends = np.searchsorted(channels[order], np.arange(count + 1)).tolist()
    for channel in range(count):
        yield channel, order[ends[channel] : ends[channel + 1]]


def _channels(
    batch: WireBatch, key: tuple[str, ...], stage: TaskStage, unit: int, sent: SentKeys
) -> Numbers:
    """Return the replica of each item.

    An item without a valid key goes to the first one: there the operator that needs its
    state fails on it.
    """
    found = sent.find_buckets(stage.buckets)
    watch = partial(sent.add_keys, unit) if unit in stage.watched else None
    try:
        buckets = _find_buckets(batch, key, found, watch)
    except Exception:  # noqa: BLE001 - the user's properties may raise anything
        get_key = key_getter(key)
        buckets = np.array([_bucket(x, get_key, found) for x in batch.items], np.int64)
    sent.add(unit, buckets, stage.buckets)
    return replica_of(stage.table_of(unit))[buckets]


_NO_KEY = -1  # instead of a bucket


def _bucket(item: Any, get_key: Callable[[Any], Any], found: _BucketOf) -> int:
    try:
        return found[get_key(item)]
    except Exception:  # noqa: BLE001 - as above
        return _NO_KEY


def _find_buckets(
    batch: WireBatch,
    key: tuple[str, ...],
    found: _BucketOf,
    watch: Callable[[Mapping[Any, int]], None] | None,
) -> Numbers:
    """Return the bucket of each item; a `watch` gets the items per key."""
    table = batch.table
    if table is not None and not set(key) <= set(table.column_names):
        table = None  # a property, or an attribute of an attribute
    encoded = None if table is None else _encode_keys(table, key)
    if encoded is not None:
        distinct, codes = encoded
        if watch is not None:
            counts = np.bincount(codes, minlength=len(distinct)).tolist()
            watch({k: n for k, n in zip(distinct, counts, strict=True) if n})
        return np.array([found[one] for one in distinct], np.int64)[codes]
    if table is not None and len(key) > 1:
        keys = list(zip(*(values_of(table.column(name)) for name in key), strict=True))
    else:
        keys = list(map(key_getter(key), batch.items))
    if watch is not None:
        watch(Counter(keys))
    return np.fromiter(map(found.__getitem__, keys), np.int64, len(batch))


def _encode_keys(
    table: pa.Table, key: tuple[str, ...]
) -> tuple[list[Any], Numbers] | None:
    """Return the distinct keys of a table, and the key index of each row.

    None if a column has no codes. Only distinct keys become objects.
    """
    keys: list[Any] = [()]
    codes = np.zeros(table.num_rows, np.int64)
    for name in key:
        encoded = encode_values(table.column(name))
        if encoded is None or encoded.null_count:
            return None
        values = encoded.dictionary.to_pylist()
        indices = np.asarray(np.from_dlpack(encoded.indices), np.int64)
        if len(key) == 1:
            return values, indices
        pairs = codes * len(values) + indices
        occurring, codes = np.unique(pairs, return_inverse=True)
        places = (divmod(pair, len(values)) for pair in occurring.tolist())
        keys = [(*keys[before], values[value]) for before, value in places]
    return keys, codes


def by_range(
    batch: WireBatch, task: EpochTask, unit: int
) -> Iterator[tuple[int, WireBatch]]:
    """Divide by the first number of the position, into about equal ranges."""
    batch.as_table()  # once for the whole, not once per part
    ends = ends_of(batch, task, unit)
    for channel in range(task.stage.channels[unit]):
        if ends[channel + 1] > ends[channel]:
            yield channel, batch.slice(ends[channel], ends[channel + 1])


def ends_of(batch: WireBatch, task: EpochTask, unit: int) -> list[int]:
    """Return the boundaries of the ranges among the items."""
    count = task.stage.channels[unit]
    start, span = task.rows.start, task.rows.stop - task.rows.start
    bounds = [start + span * channel // count for channel in range(1, count)]
    return [0, *np.searchsorted(batch.positions[0], bounds).tolist(), len(batch)]
