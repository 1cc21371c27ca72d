"""Groups: a unit with blocks gets items in groups in which all blocks are complete.

Producers cut their items into ranges of positions, as for any stateless unit, and do
not know the items of other producers. So each replica also gets the first items after
its range, and from every producer the item counts of all ranges. A group belongs to the
replica in whose range it begins: that replica continues past its range until the group
is complete, and the next one skips these items.

The driver keeps the group that an epoch leaves incomplete: the number of its items so
far, and what waits in front of its blocks. The first replica of the next epoch
continues it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.epochs.checkpoint.record import IncompleteGroup
from anabranch.epochs.layout import Unit
from anabranch.epochs.pickle import Pickler
from anabranch.epochs.shuffle import ends_of
from anabranch.epochs.task import EpochTask
from anabranch.epochs.wire import Parcel, WireBatch
from anabranch.graph.graph import Graph
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
    """The groups of a unit in a task; `states` has what waits in front of its
    blocks.
    """

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
