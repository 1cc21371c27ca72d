"""Clocks over ranges of a stream: each replica starts with the clock of those before
it.

The clock of a stream is a maximum, so a range is summarized by the few items that
decide it (`Kernel.find_deciding`). The sender also sends each replica the deciding
items of the ranges before its own: a prefix maximum. The replica processes these first,
and discards their outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from anabranch.connectors.files.arrow_items import values_of
from anabranch.epochs.pickle import Pickler
from anabranch.epochs.shuffle import ends_of
from anabranch.epochs.task import EpochTask
from anabranch.epochs.wire import Parcel, WireBatch, encode, end_to_end
from anabranch.operators.clock import Advance
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, State

_DECIDING = b"d"  # prefix of a blob of such items


def find_deciding_before(
    batch: WireBatch, task: EpochTask, unit: int, kernel: Kernel, pickler: Pickler
) -> Iterator[tuple[int, bytes]]:
    """Yield the replicas of a unit with a batch's deciding items for earlier ranges."""
    ends = ends_of(batch, task, unit)
    before: WireBatch | None = None
    for channel, (start, end) in enumerate(pairwise(ends[:-1]), 1):
        if end > start:
            found = [_find_deciding(batch.slice(start, end), kernel)]
            found = [before, *found] if before is not None else found
            before = _find_deciding(end_to_end(found), kernel)
        if before is not None and len(before):
            yield channel, _DECIDING + bytes(encode(before, pickler))


def _find_deciding(batch: WireBatch, kernel: Kernel) -> WireBatch:
    if batch.marked is not None and kernel.decides_on is None:  # signs decide it
        found = kernel.find_deciding(batch.marked.signs)
        return batch.take(batch.marked.places[found])
    indices = _indices_of_highest(batch, kernel.decides_on)
    if indices is None:
        indices = kernel.find_deciding(_values(batch, kernel.decides_on))
    return batch.take(np.array(indices, np.int64))


def _indices_of_highest(batch: WireBatch, on: str | None) -> list[int] | None:
    """Return the first item and the first maximum, if they are plain ints."""
    if batch.table is None or on not in batch.table.column_names:
        return None
    column = batch.table.column(on)
    if not pat.is_int64(column.type) or column.null_count or not len(column):
        return None
    return sorted({0, int(np.argmax(column.to_numpy()))})


def _values(batch: WireBatch, on: str | None) -> Iterator[Any]:
    if on is None:
        yield from batch.items
    elif batch.table is not None and on in batch.table.column_names:
        yield from values_of(batch.table.column(on))
    else:
        get = attribute_getter(on)
        for item in batch.items:
            try:
                yield get(item)
            except Exception:  # noqa: BLE001 - the user's properties may raise anything
                yield None  # the operator fails on it


def take_deciding(
    received: Sequence[list[pa.Buffer | Parcel]],
) -> tuple[list[list[pa.Buffer | Parcel]], list[list[pa.Buffer]]]:
    """Return the blobs of each entry: items, and deciding items of earlier ranges."""
    items: list[list[pa.Buffer | Parcel]] = []
    deciding: list[list[pa.Buffer]] = []
    for blobs in received:
        items.append([])
        deciding.append([])
        for blob in blobs:
            if isinstance(blob, Parcel) or blob[:1] != _DECIDING:
                items[-1].append(blob)
            else:
                deciding[-1].append(blob.slice(1))
    return items, deciding


def pass_over(kernel: Kernel, state: State, item: Any, port: int) -> None:
    """Bring a state to where an item of an earlier range left it."""
    with suppress(Exception):  # the replica that has the item reports it
        if type(item) is Advance:
            deque(kernel.advance(state, item, port), maxlen=0)
        else:
            kernel.process(state, item, port)
