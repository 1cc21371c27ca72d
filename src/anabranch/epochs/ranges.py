"""Ranges of a stream that need items of other ranges: groups of blocks, and clocks.

Producers cut their items into ranges of positions, as for any stateless unit, and do
not know the items of other producers.

A unit with blocks gets items in groups in which all blocks are complete. So each
replica also gets the first items after its range, and from every producer the item
counts of all ranges. A group belongs to the replica in whose range it begins: that
replica continues past its range until the group is complete, and the next one skips
these items. The driver keeps the group that an epoch leaves incomplete: the number of
its items so far, and the items that wait in front of its blocks. The first replica of
the next epoch continues it.

The clock of a stream is a maximum, so a range is summarized by the few items that
decide it (`Kernel.find_deciding`). The sender also sends each replica the deciding
items of the ranges before its own: a prefix maximum. The replica processes these first,
and discards their outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from anabranch.connectors.files.arrow_items import values_of
from anabranch.epochs.checkpoint.record import IncompleteGroup
from anabranch.epochs.layout import Unit
from anabranch.epochs.shuffle import ends_of
from anabranch.epochs.task import EpochTask
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.wire import Parcel, WireBatch, encode, end_to_end
from anabranch.graph.graph import Graph
from anabranch.operators.clock import Advance
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, State
from anabranch.runtime.interpreter import kernel_of

_COUNTS = b"n"  # prefix of a blob of counts


def in_groups(
    batch: WireBatch, task: EpochTask, unit: Unit
) -> tuple[bytes, Iterator[tuple[int, WireBatch]]]:
    """Divide by range, adding what may be needed of the next ranges; and count.

    The counts are for every replica.
    """
    ends = ends_of(batch, task, unit.number)
    counts = _COUNTS + np.diff(ends).astype(np.int64).tobytes()

    def parts() -> Iterator[tuple[int, WireBatch]]:
        batch.as_table()  # once for the whole, not once per part
        for channel in range(len(ends) - 1):
            start = ends[channel]
            end = min(ends[channel + 1] + unit.period - 1, len(batch))
            if end > start:
                yield channel, batch.slice(start, end)

    return counts, parts()


def without_counts(
    blobs: Sequence[pa.Buffer], channels: int
) -> tuple[list[pa.Buffer], list[int]]:
    """Return the blobs of items, and the total items of each range."""
    counts = np.zeros(channels, np.int64)
    items = []
    for blob in blobs:
        if not isinstance(blob, Parcel) and blob[:1] == _COUNTS:
            counts += np.frombuffer(memoryview(blob)[1:], np.int64)
        else:
            items.append(blob)
    return items, counts.tolist()


class Portion(NamedTuple):
    """The items of a replica's input that it runs.

    `entered` counts the items of its last group so far; 0 if the group is complete.
    """

    start: int
    end: int
    entered: int


def portion(
    counts: Sequence[int], channel: int, period: int, begun: int, received: int
) -> Portion:
    """Return a replica's portion of the `received` items of its range and after it.

    `counts` has the items of all ranges; `begun` items of the first group came earlier.

    >>> portion([5, 5], 0, period=3, begun=0, received=7)
    Portion(start=0, end=6, entered=0)
    >>> portion([5, 5], 1, period=3, begun=0, received=5)
    Portion(start=1, end=5, entered=1)
    """
    own = counts[channel]
    before = begun + sum(counts[:channel])
    skipped = -before % period if channel else 0
    if channel and skipped >= own:
        return Portion(0, 0, 0)
    come = own - skipped + (0 if channel else begun)
    end = min(received, own + -come % period)
    return Portion(skipped, end, (come + end - own) % period)


class UnitGroups:
    """The groups of a unit in a task; `states` has the items in front of its blocks."""

    def __init__(
        self, unit: Unit, graph: Graph, states: Mapping[str, dict[Any, Any]]
    ) -> None:
        self._unit = unit
        self._kernels = {name: kernel_of(graph[name]) for name in states}
        self._states = states
        self._entered = 0
        # waiting items at the start of the epoch, pickled; empty if none
        self._held = b""
        self._taken = WireBatch([], None, None, [])

    def begin(
        self,
        task: EpochTask,
        channel: int,
        counts: Sequence[int],
        stream: WireBatch,
        pickler: Pickler,
    ) -> WireBatch:
        """Begin an epoch; return the items that this replica runs."""
        begun = task.begun.get(self._unit.name)
        entered = 0 if begun is None else begun.entered
        self._held = begun.states if begun is not None and channel == 0 else b""
        taken = portion(counts, channel, self._unit.period, entered, len(stream))
        self._entered = taken.entered
        self._taken = stream.slice(taken.start, taken.end)
        return self.again(pickler)

    def again(self, pickler: Pickler) -> WireBatch:
        """Return to the beginning of the epoch; return the items that this replica
        runs.
        """
        held = {name: kernel.open() for name, kernel in self._kernels.items()}
        if self._held:
            held = pickler.loads(self._held)
        for name, state in held.items():
            self._states[name].clear()
            self._states[name][()] = state
        return self._taken

    def find_incomplete(self, pickler: Pickler) -> IncompleteGroup | None:
        """Return the group that this replica leaves incomplete, if any."""
        if not self._entered:
            return None
        held = {name: states[()] for name, states in self._states.items()}
        return IncompleteGroup(self._entered, pickler.dumps_state(held))


_DECIDING = b"d"  # prefix of a blob of such items


def find_deciding_before(
    batch: WireBatch, task: EpochTask, unit: int, kernel: Kernel, pickler: Pickler
) -> Iterator[tuple[int, bytes]]:
    """Yield the replicas of a unit with a batch's deciding items for earlier ranges."""
    batch.as_table()  # of whose columns the highest time is found at once
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
