"""Takes in what an epoch runs on, where possible while the epoch before it still runs.

Finding out which bytes of a file are the next rows costs the driver some hundredths of
a second, in which the tasks would have nothing to do. What can be read at any time is
therefore taken one epoch ahead; what arrives by itself is taken when it is needed, so
that nothing waits longer than it has to.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from anabranch.engines.spark.intake import Intake, Piece


@dataclass(frozen=True)
class Taken:
    """The rows of an epoch; where each source stands behind them; what is left there.

    `asked` is how many rows of each source were asked for.
    """

    asked: int
    pieces: Mapping[str, list[Piece]]
    positions: Mapping[str, Any]
    waiting: int | None


class Taking:
    """Takes from all sources in turn; used by one thread."""

    def __init__(self, intakes: Mapping[str, Intake]) -> None:
        self._intakes = intakes
        self._early = all(intake.any_time for intake in intakes.values())
        self._thread = ThreadPoolExecutor(1, "anabranch-taking")
        self._next: Future[Taken] | None = None

    def take(self, rows: int, parts: int) -> Taken:
        """Return the next rows, as far as they have arrived."""
        if self._next is not None:
            taken, self._next = self._next.result(), None
            return taken
        return self._taken(rows, parts)

    def prepare(self, rows: int, parts: int) -> None:
        """Begin to take the rows after those, beside whatever else goes on."""
        if self._early:
            self._next = self._thread.submit(self._taken, rows, parts)

    def close(self) -> None:
        """Take no more."""
        self._thread.shutdown()

    def _taken(self, rows: int, parts: int) -> Taken:
        exactly = len(self._intakes) > 1
        pieces = {
            name: intake.take(rows, parts, exactly=exactly)
            for name, intake in self._intakes.items()
            if not intake.ended
        }
        known = [intake.waiting() for intake in self._intakes.values()]
        counts = [count for count in known if count is not None]
        return Taken(
            rows,
            {name: found for name, found in pieces.items() if found},
            {name: intake.position() for name, intake in self._intakes.items()},
            sum(counts) if counts else None,
        )
