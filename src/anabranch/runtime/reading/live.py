"""Sources whose items arrive while the program runs.

They are asked for what has arrived, and never keep anybody waiting for longer than was
said: between two questions the engine can stop, or look after its sinks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from anabranch.runtime.reading.reader import Reader

POLL_ITEMS = 10_000
POLL_S = 0.05


class LiveReader(Reader):
    """The items of a source as they arrive, numbered from 1."""

    ended = False

    @abstractmethod
    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        """Return up to `most` numbered items that have arrived, perhaps none.

        Where there are none yet, wait for `wait_s` at most.
        """

    def close(self) -> None:
        """Let go of connections; nothing is read any more."""

    def numbered(self) -> Iterator[tuple[Any, int]]:
        try:
            while not self.ended:
                yield from self.poll(POLL_ITEMS, POLL_S)
        finally:
            self.close()
