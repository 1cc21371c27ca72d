"""Sources whose items arrive while the program runs.

They are asked for what has arrived, and never keep anybody waiting for longer than was
said: between two questions the engine can stop, or look after its sinks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from anabranch.connectors.reader import Reader
from anabranch.runtime.births import Births

POLL_ITEMS = 10_000
POLL_S = 0.05


class LiveReader(Reader):
    """The items of a source as they arrive, numbered from 1.

    `births` are those of the items last polled, by `time.perf_counter`, where that is
    known.
    """

    ended = False
    births: Births | None = None

    @abstractmethod
    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        """Return up to `most` numbered items that have arrived, perhaps none.

        Where there are none yet, wait for `wait_s` at most.
        """

    def close(self) -> None:
        """Let go of connections; nothing is read any more."""

    def count_arrivals(self) -> int | None:
        """Return how many items have arrived, read or not, where that is known."""
        return None

    def read_numbered(self) -> Iterator[tuple[Any, int]]:
        try:
            while not self.ended:
                yield from self.poll(POLL_ITEMS, POLL_S)
        finally:
            self.close()


class Feed:
    """Any source, one item at a time, without waiting for those of a live one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at_hand: Iterator[tuple[Any, int]] = iter(())
        if not isinstance(reader, LiveReader):
            self._at_hand = reader.read_numbered()
        self.ended = False

    def next(self) -> tuple[Any, int] | None:
        """Return the next item with its number; None if there is none (yet)."""
        row = next(self._at_hand, None)
        if row is not None or self.ended:
            return row
        if not isinstance(self._reader, LiveReader) or self._reader.ended:
            self.ended = True
            return None
        self._at_hand = iter(self._reader.poll(POLL_ITEMS, 0.0))
        return next(self._at_hand, None)

    def close(self) -> None:
        """Let go of connections."""
        if isinstance(self._reader, LiveReader):
            self._reader.close()
