"""Which channel of a region an item goes to (section 4.2 of the paper)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

from anabranch.runtime.batch import Column
from anabranch.runtime.keys import key_getter, key_hash

BUCKETS = 1024

Part: TypeAlias = tuple[list[Any], list[Column] | None]  # items and their positions


def bucket_of(key: Any) -> int:
    """Return the bucket of a key; a bucket always moves as a whole.

    >>> bucket_of("A") == bucket_of("A"), 0 <= bucket_of(("A", 1)) < BUCKETS
    (True, True)
    """
    return key_hash(key) % BUCKETS


def even_table(channels: int) -> tuple[int, ...]:
    """Return the channel of each bucket when all channels have the same share.

    >>> even_table(4)[:5]
    (0, 1, 2, 3, 0)
    """
    return tuple(bucket % channels for bucket in range(BUCKETS))


class Router(ABC):
    """Divides the items of a stream among channels; keeps their order in each."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    @abstractmethod
    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        """Return the part of each channel."""


class RoundRobinRouter(Router):
    """Deals items out in turn: for regions without state."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self._turn = 0

    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        n, turn = self.channels, self._turn
        self._turn = (turn + len(items)) % n
        parts: list[Part] = []
        for channel in range(n):
            first = (channel - turn) % n
            own = None if columns is None else [c[first::n] for c in columns]
            parts.append((items[first::n], own))
        return parts


class GroupRouter(Router):
    """Deals items out in turn, a whole group at a time: for regions with blocks.

    >>> router = GroupRouter(2, 3)
    >>> [part for part, _ in router.divide(list("abcdefgh"), None)]
    [['a', 'b', 'c', 'g', 'h'], ['d', 'e', 'f']]
    """

    def __init__(self, channels: int, size: int) -> None:
        super().__init__(channels)
        self._size = size
        self._dealt = 0

    def go_on(self, dealt: int) -> None:
        """Begin with a group of which the first channel has so many items already."""
        self._dealt = dealt

    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        mine: list[list[Any]] = [[] for _ in range(self.channels)]
        own: list[list[list[int]]] = [
            [[] for _ in columns or ()] for _ in range(self.channels)
        ]
        start = 0
        while start < len(items):
            group, place = divmod(self._dealt, self._size)
            end = min(len(items), start + self._size - place)
            channel = group % self.channels
            mine[channel] += items[start:end]
            for kept, column in zip(own[channel], columns or (), strict=True):
                kept.extend(column[start:end])
            self._dealt += end - start
            start = end
        self._dealt %= self._size * self.channels
        return [
            (part, None if columns is None else list(numbers))
            for part, numbers in zip(mine, own, strict=True)
        ]


class KeyRouter(Router):
    """Sends all items of a key to the channel that has the key's bucket."""

    def __init__(self, attributes: tuple[str, ...], table: Sequence[int]) -> None:
        super().__init__(max(table) + 1)
        self._key = key_getter(attributes)
        self._table = table
        self._channel_of: dict[Any, int] = {}

    def divide(self, items: list[Any], columns: list[Column] | None) -> list[Part]:
        chosen = list(map(self._channel, items))
        parts: list[Part] = []
        for channel in range(self.channels):
            places = [i for i, c in enumerate(chosen) if c == channel]
            own: list[Column] | None = None
            if columns is not None:
                own = [[column[i] for i in places] for column in columns]
            parts.append(([items[i] for i in places], own))
        return parts

    def _channel(self, item: Any) -> int:
        try:
            key = self._key(item)
            channel = self._channel_of.get(key)
            if channel is None:
                channel = self._table[bucket_of(key)]
                self._channel_of[key] = channel
        except Exception:  # noqa: BLE001 - the operator that needs the key will complain
            return 0
        return channel
