"""Put batches from several channels into the order of their sequence numbers.

Comparing is the slow way. Numbers are dense: where each comes at most once, an item is
put into the place that its number names, and where a channel has every n-th number, all
its items are put into their places at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.runtime.batch import NOWHERE, Batch, Column, Origin
from anabranch.runtime.ordering.numbered import numbers_of
from anabranch.runtime.punctuation import WINDOW

_SPARSE = 8  # more places than this for an item, and comparing is cheaper
_MISSING = object()


class Run(NamedTuple):
    """Items in order, with their numbers."""

    items: list[Any]
    numbers: Column
    origin: Origin = NOWHERE

    def then(self, other: Run) -> Run:
        """Return this run and the one behind it."""
        if not self.items:
            return other
        return Run(
            self.items + other.items,
            [*self.numbers, *other.numbers],
            self.origin.with_(other.origin),
        )


def in_order(
    batches: Sequence[Batch], *, repeats: bool, punctuated: bool = False
) -> Run:
    """Return the items of all batches in order; those of one number stay as they were.

    `repeats` tells that numbers may repeat within a channel; with `punctuated`, that
    several channels may have copies of a punctuation, of which one is kept.

    >>> odd, even = Batch(["b", "d"], [range(1, 5, 2)]), Batch(["a", "c"], [[0, 2]])
    >>> in_order([odd, even], repeats=False).items
    ['a', 'b', 'c', 'd']
    """
    if not batches:
        return Run([], [])
    origin = NOWHERE
    for batch in batches:
        origin = origin.with_(batch.origin)
    if len(batches) == 1:
        return Run(batches[0].items, numbers_of(batches[0]), origin)
    ranges = all(isinstance(numbers_of(batch), range) for batch in batches)
    if (repeats and not ranges) or punctuated:
        return _sorted(batches, origin, punctuated=punctuated)
    first = min(numbers_of(batch)[0] for batch in batches)
    last = max(numbers_of(batch)[-1] for batch in batches)
    count = sum(len(batch.items) for batch in batches)
    if last - first >= _SPARSE * count:
        return _sorted(batches, origin, punctuated=False)
    places: list[Any] = [_MISSING] * (last - first + 1)
    for batch in batches:
        place(batch, places, first)
    if count == len(places):
        return Run(places, range(first, last + 1), origin)
    numbers = [n for n, item in enumerate(places, first) if item is not _MISSING]
    return Run([item for item in places if item is not _MISSING], numbers, origin)


def place(batch: Batch, places: list[Any], first: int) -> None:
    """Put the items of a batch where their numbers say, counted from `first`."""
    numbers = numbers_of(batch)
    if isinstance(numbers, range):
        start, end = numbers[0] - first, numbers[-1] - first + 1
        places[start : end : numbers.step] = batch.items
    else:
        for number, item in zip(numbers, batch.items, strict=True):
            places[number - first] = item


def _sorted(batches: Sequence[Batch], origin: Origin, *, punctuated: bool) -> Run:
    items: list[Any] = []
    numbers: list[int] = []
    for batch in batches:
        items += batch.items
        numbers += numbers_of(batch)
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    if punctuated:
        order = without_copies(order, items, numbers)
    return Run([items[i] for i in order], [numbers[i] for i in order], origin)


def without_copies(
    order: list[int], items: Sequence[Any], places: Sequence[Any]
) -> list[int]:
    """Leave out the copies of a punctuation: each channel has the same place for it."""
    kept: list[int] = []
    for i in order:
        if items[i] is WINDOW and kept:
            j = kept[-1]
            if items[j] is WINDOW and places[i] == places[j]:
                continue
        kept.append(i)
    return kept
