"""Where a stream leaves an element: straight to one inlet, or divided among channels.

The splitter of a region routes items, numbers them if the merger behind the region
needs it, and sends pulses. In a shuffle every channel ends in a splitter; it only
routes, and passes the pulses on that came from the first one (4.4 of the paper).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.runtime.batch import Batch, Column, Mark, mark_at
from anabranch.runtime.ports import Inlet
from anabranch.runtime.punctuation import WINDOW
from anabranch.runtime.routing import Part, Router


class Slot(NamedTuple):
    """A queue of an inlet."""

    inlet: Inlet
    queue: int


class Outlet(ABC):
    """Where a stream leaves; used by one thread at a time."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = tuple(slots)

    @property
    def appetite(self) -> int:
        """How many items the consumers take at a time."""
        return sum(slot.inlet.limit for slot in self.slots)

    @abstractmethod
    def put(self, batch: Batch) -> None:
        """Send a batch on; never waits."""

    def settle(self) -> None:  # noqa: B027 - most outlets owe nothing
        """Send what is owed to the consumers before the thread may wait."""

    def close(self, *, final: bool) -> None:
        """End the stream, or cut it off here."""
        for inlet, queue in self.slots:
            inlet.close(queue, final=final)


class StraightOutlet(Outlet):
    """All of the stream goes to one inlet."""

    def put(self, batch: Batch) -> None:
        if batch.items or batch.mark is not None:
            inlet, queue = self.slots[0]
            inlet.put(queue, batch)


class Numbering:
    """Gives the items that enter a region their sequence numbers, and counts epochs.

    A pulse is due after `epoch` items for each channel; the splitter sends it with the
    next batch that ends there, or before its thread waits, so that no item stays in
    the merger for want of a pulse while the stream stands still.
    """

    def __init__(self, epoch: int, channels: int, *, pulses: bool) -> None:
        self._next = 0
        self._pulsed = 0
        self._length = epoch * channels
        self._pulses = pulses

    def number(self, count: int) -> range:
        """Return the numbers of the next items."""
        numbers = range(self._next, self._next + count)
        self._next += count
        return numbers

    def pulse(self, *, now: bool = False) -> Mark | None:
        """Return the pulse, if one is due."""
        due = self._next - self._pulsed >= (1 if now else self._length)
        if not self._pulses or not due:
            return None
        self._pulsed = self._next
        return mark_at(self._next - 1)


class SplitOutlet(Outlet):
    """The stream is divided among the channels of a region.

    Without `numbering`, items keep the positions that they have, if any.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        router: Router,
        numbering: Numbering | None = None,
        *,
        punctuated: bool = False,
    ) -> None:
        super().__init__(slots)
        self.router = router
        self._numbering = numbering
        self._punctuated = punctuated

    def put(self, batch: Batch) -> None:
        columns, mark = batch.columns, batch.mark
        if self._numbering is not None:
            columns = [self._numbering.number(len(batch.items))]
            mark = self._numbering.pulse()
        if self._punctuated and any(item is WINDOW for item in batch.items):
            parts = self._divide_marked(batch.items, columns)
        else:
            parts = self.router.divide(batch.items, columns)
        for (inlet, queue), (items, own) in zip(self.slots, parts, strict=True):
            if items or mark is not None:
                inlet.put(queue, Batch(items, own, mark, batch.origin))

    def settle(self) -> None:
        if self._numbering is None:
            return
        mark = self._numbering.pulse(now=True)
        if mark is not None:
            for inlet, queue in self.slots:
                inlet.put(queue, Batch([], [[]], mark))

    def _divide_marked(
        self, items: list[Any], columns: list[Column] | None
    ) -> list[Part]:
        """Divide a stream with punctuations: each of them goes to every channel (5.4)."""
        pieces: list[list[Part]] = [[] for _ in self.slots]
        start = 0
        places = [i for i, item in enumerate(items) if item is WINDOW]
        for place in (*places, len(items)):
            between = _part((items, columns), start, place)
            for own, piece in zip(pieces, self.router.divide(*between), strict=True):
                own.append(piece)
            if place < len(items):
                for own in pieces:
                    own.append(_part((items, columns), place, place + 1))
            start = place + 1
        return [_joined(own) for own in pieces]


def _part(whole: Part, start: int, end: int) -> Part:
    items, columns = whole
    cut = None if columns is None else [column[start:end] for column in columns]
    return items[start:end], cut


def _joined(pieces: Sequence[Part]) -> Part:
    items = [item for piece in pieces for item in piece[0]]
    if pieces[0][1] is None:
        return items, None
    columns = zip(*(piece[1] or () for piece in pieces), strict=True)
    return items, [list(itertools.chain(*column)) for column in columns]
