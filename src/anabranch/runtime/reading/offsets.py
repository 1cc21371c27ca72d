"""Which messages of a topic have arrived: ranges of offsets, each given out once.

What has arrived is taken partition by partition, in the order of the partitions, and
by offset within a partition. A topic that is followed gives every partition its share
of what is taken at a time; one that is not is read partition after partition, up to
where each of them ended when the reading began.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from anabranch.graph.sources import Kafka

_PARTITIONS_S = 10.0  # how often we ask whether there are new partitions


@dataclass(frozen=True)
class Range:
    """The messages of a partition from offset `start` up to `end`."""

    partition: int
    start: int
    end: int


class Bounds(Protocol):
    """Who knows how far a topic reaches."""

    def partitions(self) -> list[int] | None:
        """Return the partitions of the topic; None while nobody answers."""

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the first offset and the one behind the last; None: no answer."""


class Ranges:
    """Hands out the offsets of a topic, each once."""

    def __init__(self, kind: Kafka, topic: Bounds) -> None:
        self._kind = kind
        self._topic = topic
        self._partitions: list[int] | None = None
        self._asked_s = 0.0
        self._ends: dict[int, int] = {}  # of what is not followed
        self.next: dict[int, int] = {}  # partition -> offset
        self.left = 0  # messages that were there and not taken, the last time

    @property
    def ended(self) -> bool:
        """Whether all has been taken that there will be."""
        if self._kind.follow or self._partitions is None:
            return False
        ends = self._ends
        return all(
            p in ends and self.next.get(p, ends[p]) >= ends[p] for p in self._partitions
        )

    def go_to(self, offsets: Mapping[int, int]) -> None:
        """Go on from offsets that were next at an earlier time."""
        self.next = dict(offsets)

    def take(self, most: int) -> list[Range]:
        """Return what has arrived, up to so many offsets."""
        now_s = time.monotonic()
        if self._partitions is None or now_s - self._asked_s > _PARTITIONS_S:
            self._partitions = self._topic.partitions() or self._partitions
            self._asked_s = now_s
        available: dict[int, int] = {}
        for partition in self._partitions or ():
            end = self._end(partition)
            if end is not None and end > self.next[partition]:
                available[partition] = end - self.next[partition]
        fill = _in_shares if self._kind.follow else _in_turn
        ranges = []
        for partition, count in sorted(fill(available, most).items()):
            start = self.next[partition]
            self.next[partition] = start + count
            ranges.append(Range(partition, start, start + count))
        self.left = sum(available.values()) - sum(r.end - r.start for r in ranges)
        return ranges

    def _end(self, partition: int) -> int | None:
        """Return up to where a partition may be read; None: nobody knows yet."""
        if partition in self._ends:
            return self._ends[partition]
        bounds = self._topic.bounds(partition)
        if bounds is None:
            return None
        low, high = bounds
        latest = self._kind.start == "latest" and self._kind.follow
        self.next.setdefault(partition, high if latest else low)
        if not self._kind.follow:
            self._ends[partition] = high
        return high


def _in_turn(available: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how much to take of each: all of the first ones.

    >>> _in_turn({0: 5, 1: 5}, 7)
    {0: 5, 1: 2}
    """
    taken = {}
    for partition, count in sorted(available.items()):
        if most > 0:
            taken[partition] = min(count, most)
            most -= taken[partition]
    return taken


def _in_shares(available: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how much to take of each: the same of all, as far as there is so much.

    >>> _in_shares({0: 100, 1: 2, 2: 100}, 10)
    {1: 2, 0: 4, 2: 4}
    """
    taken = {}
    left = len(available)
    for partition, count in sorted(available.items(), key=lambda pair: pair[1]):
        share = min(count, -(-most // left))
        if share:
            taken[partition] = share
        most -= share
        left -= 1
    return taken
