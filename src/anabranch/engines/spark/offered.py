"""What an epoch takes in of offered load: what has been due, as far as it admits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.engines.spark.intake import Intake, Piece, ShippedPiece
from anabranch.engines.spark.pickling import Pickler
from anabranch.graph.sources import Offered
from anabranch.runtime.reading.offered import Offer


class OfferedIntake(Intake):
    """Items that have been due; the driver has them all."""

    live = True

    def __init__(self, source: str, kind: Offered, pickler: Pickler) -> None:
        self._source = source
        self._pickler = pickler
        self._offer = Offer(kind)
        self._due_s: Sequence[float] = ()

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        first = self._offer.ahead
        items, self._due_s = self._offer.take(rows)
        self.ended = self._offer.ended
        size = max(1, -(-len(items) // parts))
        return [
            ShippedPiece(
                self._source,
                first + start + 1,
                len(items[start : start + size]),
                self._pickler.dumps(items[start : start + size]),
            )
            for start in range(0, len(items), size)
        ]

    def due_s(self) -> Sequence[float]:
        return self._due_s

    def waiting(self) -> int:
        return self._offer.arrived() - self._offer.ahead

    def arrived(self) -> int:
        return self._offer.arrived()

    def position(self) -> Any:
        return {"at": self._offer.ahead}

    def seek(self, position: Any) -> None:
        self._offer.ahead = position["at"]
        self.ended = self._offer.ended
