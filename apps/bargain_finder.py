"""Trades below the average price of the five minutes before, and what to order.

A stock whose price dips below its volume-weighted average of the last full window of
five minutes is a bargain. The first operator finds bargains, at a rate that only the
prices know; the two behind it turn each into an order and cost it, one for one. This is
the bargain finder of the paper on hybrid scheduling.

It reads real trades (TAQ format, one stock, two days) from the folder `trades_quotes`
of the real data, and a generated sample where there is none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from vwap import Trade, input_files

FIVE_MINUTES_US = 5 * 60 * 1_000_000
BUDGET = 10_000.0
FEE = 0.001


class Bargain(NamedTuple):
    """A trade below the average of the window before."""

    ts_us: int
    symbol: str
    price: float
    vwap: float


class Order(NamedTuple):
    """So many shares, the more the better the bargain, for at most the average."""

    ts_us: int
    symbol: str
    shares: int
    price: float
    limit: float


class Deal(NamedTuple):
    """What an order costs, and what it gains if the price returns to the average."""

    ts_us: int
    symbol: str
    shares: int
    cost: float
    gain: float


class Bargains(ab.Operator):
    """One stock: sums over the open window, the average of the one before."""

    def setup(self) -> None:
        """Start without an average."""
        self.window = -1
        self.money = 0.0
        self.volume = 0
        self.vwap = 0.0

    def process(self, trade: Trade) -> Iterator[Bargain]:
        """Yield the trade if it is below the average, and add it to the window."""
        window, price = trade.ts_us // FIVE_MINUTES_US, trade.PRICE
        if window < self.window:
            msg = (
                f"the trades of a stock must be in the order of their windows; got "
                f"{trade!r} after a trade of window {self.window}; sort the file by ts_us"
            )
            raise ValueError(msg)
        if window > self.window:
            self.vwap = self.money / self.volume if self.volume else 0.0
            self.window, self.money, self.volume = window, 0.0, 0
        self.money += price * trade.SIZE
        self.volume += trade.SIZE
        if price < self.vwap:
            yield Bargain(trade.ts_us, trade.SYMBOL, price, self.vwap)


def order(bargain: Bargain) -> Order:
    """Return what to order: a hundredth of the budget for 0.01% below the average."""
    discount = 1 - bargain.price / bargain.vwap
    money = BUDGET * min(1.0, 100 * discount)
    shares = int(money / bargain.price)
    return Order(bargain.ts_us, bargain.symbol, shares, bargain.price, bargain.vwap)


def deal(order: Order) -> Deal:
    """Return what an order costs with the fee."""
    cost = order.shares * order.price * (1 + FEE)
    gain = order.shares * order.limit - cost
    return Deal(order.ts_us, order.symbol, order.shares, cost, gain)


def program(trades: Path | None = None) -> ab.Result:
    """Return the deals."""
    path = trades or input_files()[0]
    by_stock = ab.read_csv(str(path), Trade, name="trades").key_by("SYMBOL")
    bargains = by_stock.apply(Bargains, name="bargains")
    deals = bargains.map(order, name="orders").map(deal, name="deals")
    return deals.to_list(name="bought")
