"""Merge by position: for streams that fork and meet again, in any shape.

Positions order everything in the program (see `anabranch.runtime.positions`). Items at
or before the lowest mark of all queues can go on, in the order of their positions;
nothing else is known about streams that forked at different places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias

from anabranch.operators.clock import is_sign
from anabranch.runtime.batch import ALL, NOTHING_YET, NOWHERE, Batch, Mark, Origin
from anabranch.runtime.ordering.merge import QueueMerge
from anabranch.runtime.positions import turn_of

Position: TypeAlias = tuple[int, ...]
BEHIND_ALL = b"\xff" * 8  # of a mark, in place of a turn: no rank begins like that


class _Waiting(NamedTuple):
    items: list[Any]
    positions: list[Position]
    origin: Origin


class PositionMerge(QueueMerge):
    """Merges streams whose items carry positions.

    `entries[q]` is the stream of queue q: with several streams, the output has the
    stream of each item. `width` is that of the widest positions; the others are padded
    with zeros. At the indices `turns` some streams have turns and others numbers: these
    are bytes too, as in columns.
    """

    def __init__(
        self,
        entries: Sequence[int],
        *,
        width: int,
        turns: Collection[int] = (),
        punctuated: bool = False,
    ) -> None:
        super().__init__(len(entries))
        self._entries = entries
        self._several = len(set(entries)) > 1
        self._width = width
        self._turns = turns
        self._punctuated = punctuated
        self._queues: list[deque[_Waiting]] = [deque() for _ in entries]
        self._marks: list[Mark] = [NOTHING_YET] * len(entries)
        self._evened: list[Mark] = [NOTHING_YET] * len(entries)
        self._passed: Mark = NOTHING_YET
        self._held = [0] * len(entries)

    def put(self, queue: int, batch: Batch) -> None:
        self.ledger = batch.ledger or self.ledger
        if batch.items:
            assert batch.columns is not None  # noqa: S101 - the layout has seen to it
            filled = [(0,) * len(batch.items)] * (self._width - len(batch.columns))
            columns: list[Any] = [*batch.columns, *filled]
            for place in self._turns:
                columns[place] = [*map(turn_of, columns[place])]
            positions = list(zip(*columns, strict=True))
            waiting = _Waiting(batch.items, positions, batch.origin)
            self._queues[queue].append(waiting)
            self._held[queue] += len(batch.items)
        if batch.mark is not None:
            self._marks[queue] = batch.mark
            self._evened[queue] = self._even_out(batch.mark)

    def _even_out(self, mark: Mark) -> Mark:
        """Return a mark in the form that is compared with positions."""
        evened: list[Any] = [*mark]
        for place in self._turns:
            if place < len(mark):
                last = evened[place] == inf
                evened[place] = BEHIND_ALL if last else turn_of(evened[place])
        return tuple(evened)

    def close(self, queue: int) -> None:
        self._marks[queue] = self._evened[queue] = ALL

    def count_waiting(self, queue: int) -> int:
        return self._held[queue]

    def take_pending(self, queue: int) -> Batch | None:
        parts = list(self._queues[queue])
        if not parts:
            return None
        self._queues[queue].clear()
        self._held[queue] = 0
        positions = [position for part in parts for position in part.positions]
        return Batch(
            [item for part in parts for item in part.items],
            [list(column) for column in zip(*positions, strict=True)],
            None,
            parts[0].origin,
            ledger=self.ledger,
        )

    def release(self) -> Batch | None:
        evened = min(self._evened)
        if evened <= self._passed:
            return None
        self._passed = evened
        mark = self._marks[self._evened.index(evened)]
        taken = [
            (self._entries[queue], part)
            for queue in range(self.queues)
            for part in self._take(queue, evened)
        ]
        if not taken:
            return Batch([], [[] for _ in range(self._width)], mark, entries=[])
        return self._order(taken, mark)

    def _take(self, queue: int, mark: Mark) -> list[_Waiting]:
        waiting, taken = self._queues[queue], []
        while waiting and waiting[0].positions[0] <= mark:
            items, positions, origin = waiting.popleft()
            count = bisect_right(positions, mark)
            taken.append(_Waiting(items[:count], positions[:count], origin))
            if count < len(items):
                waiting.appendleft(_Waiting(items[count:], positions[count:], origin))
        self._held[queue] -= sum(len(part.items) for part in taken)
        return taken

    def _order(self, taken: list[tuple[int, _Waiting]], mark: Mark) -> Batch:
        items = [item for _, part in taken for item in part.items]
        positions = [p for _, part in taken for p in part.positions]
        entries = [entry for entry, part in taken for _ in part.items]
        if len(taken) > 1:
            order = sorted(range(len(items)), key=positions.__getitem__)
            if self._punctuated:
                order = _without_copies(order, items, positions)
            items = [items[i] for i in order]
            positions = [positions[i] for i in order]
            entries = [entries[i] for i in order]
        origin = NOWHERE
        for _, part in taken:
            origin = origin.with_(part.origin)
        return Batch(
            items,
            [list(column) for column in zip(*positions, strict=True)],
            mark,
            origin,
            entries if self._several else None,
            ledger=self.ledger,
        )


def _without_copies(
    order: list[int], items: Sequence[Any], places: Sequence[Any]
) -> list[int]:
    """Drop the copies of a punctuation: each replica has the same place for it."""
    kept: list[int] = []
    for i in order:
        if is_sign(items[i]) and kept:
            j = kept[-1]
            if is_sign(items[j]) and places[i] == places[j]:
                continue
        kept.append(i)
    return kept


def in_order_of_positions(batches: Sequence[Batch]) -> Batch:
    """Merge batches of one stream, from several replicas, in order.

    >>> one, two = Batch(["a", "c"], [[1, 3]]), Batch(["b"], [[2]])
    >>> in_order_of_positions([one, two]).items
    ['a', 'b', 'c']
    """
    width = len(batches[0].columns or ())
    turns = {
        place
        for batch in batches
        for place, column in enumerate(batch.columns or ())
        if any(isinstance(one, bytes) for one in column)
    }
    merge = PositionMerge([0] * len(batches), width=width, turns=turns)
    for queue, batch in enumerate(batches):
        merge.put(queue, batch)
        merge.close(queue)
    merged = merge.release()
    assert merged is not None  # noqa: S101 - everything was put and closed
    merged.mark = None
    return merged
