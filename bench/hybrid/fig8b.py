"""Figure 8 (b): bargain finder. A window of trades closes, on average, every n-th trade.

Its volume-weighted average goes to two operators of 1,000 computations each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import anabranch as ab
from bench.hybrid.events import ITEMS, measure
from bench.hybrid.figure import Figure


class Trade(NamedTuple):
    """A trade."""

    time: int
    price: float
    volume: int


class Vwap(ab.Operator):
    """Gives the average of a window of time when the next one begins."""

    def __init__(self, length: int) -> None:
        self.length = length

    def setup(self) -> None:
        self.window, self.money, self.volume = 0, 0.0, 0

    def process(self, trade: Trade) -> Iterator[float]:
        window = trade.time // self.length
        if window != self.window and self.volume:
            yield self.money / self.volume
            self.money, self.volume = 0.0, 0
        self.window = window
        self.money += trade.price * trade.volume
        self.volume += trade.volume


def program(every: int, first: Any, second: Any) -> ab.Stream:
    trades = [Trade(n, 20 + n % 7 * 0.25, 1 + n % 90) for n in range(ITEMS)]
    averages = ab.from_iterable(trades, Trade).apply(Vwap, every)
    # The type of what an operator gives is the annotation of its process.
    return averages.map(first).map(second)


def main() -> None:
    figure = Figure(
        "hybrid-fig8b",
        "Bargain finder: hybrid over no-op padding",
        ("trades in a window", "times as fast"),
        "5.1 times on 8 cores with 10 trades in a window",
    )
    measure(figure, program, (1, 10, 100, 1000))
    figure.finish()


if __name__ == "__main__":
    main()
