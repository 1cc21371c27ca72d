"""A short way to talk to merges: a number is an item, `P(n)` a pulse."""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.runtime.batch import Batch, mark_at
from anabranch.runtime.ordering.merge import QueueMerge


class P(NamedTuple):
    """A pulse with a number."""

    number: int


def put(merge: QueueMerge, channel: int, *arrivals: Any) -> list[Any]:
    """Let items and pulses arrive in a channel; return what the merge then releases."""
    for arrival in arrivals:
        if isinstance(arrival, P):
            merge.put(channel, Batch([], [[]], mark_at(arrival.number)))
        else:
            number, item = arrival if isinstance(arrival, tuple) else (arrival, arrival)
            merge.put(channel, Batch([item], [[number]]))
    return released(merge)


def released(merge: QueueMerge) -> list[Any]:
    items: list[Any] = []
    while (batch := merge.release()) is not None:
        items += batch.items
    return items
