"""Immediate hand-over between the parts of a cut unit.

The engine buffers: a worker writes through a buffer, and the rows for the next worker are
collected into large batches. Either would make the next part wait until the one before
has ended. So each chunk is followed by a row that fills the buffer, which nobody reads,
and at a cut, rows go in batches of one. Each is a chunk of items, so there are few.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeAlias

from anabranch.runtime.element import Pace

MOST_ITEMS = 8192  # passed from part to part at a time
CHUNK_S = 0.02  # of the first part's work
FIRST_STEP, LARGEST_STEP = 16, 1 << 20  # items
STEP_S = 0.25


Fed: TypeAlias = tuple[list[Any], list[list[int]], list[int] | None]


def in_steps(fed: Iterator[Fed]) -> Iterator[Fed]:
    """Cut a program's input so that its progress is known from time to time."""
    pace = Pace(STEP_S, LARGEST_STEP)
    pace.limit = FIRST_STEP
    return _cut(fed, pace)


def in_chunks(fed: Iterator[Fed]) -> Iterator[Fed]:
    """Cut a program's input into chunks that are passed on one by one.

    The chunk size is what the first part processes in a moment: the consumer asks for
    the next chunk when it has processed the one before.

    >>> whole = [1, 2, 3], [[1, 2, 3]], None
    >>> parts = list(in_chunks(iter([whole])))
    >>> [item for items, _, _ in parts for item in items]
    [1, 2, 3]
    >>> parts[0]
    ([1], [[1]], None)
    """
    return _cut(fed, Pace(CHUNK_S, MOST_ITEMS))


def _cut(fed: Iterator[Fed], pace: Pace) -> Iterator[Fed]:
    for items, positions, entries in fed:
        start = 0
        while start < len(items):
            part = slice(start, start + pace.limit)
            began_s = time.perf_counter()
            yield (
                items[part],
                [column[part] for column in positions],
                None if entries is None else entries[part],
            )
            pace.observe(pace.limit, time.perf_counter() - began_s)
            start = part.stop
