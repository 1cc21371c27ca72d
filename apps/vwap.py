"""Bargains among quotes, as six desks see them that look back over six horizons.

Each desk keeps the volume-weighted average price of the last trades of a stock, and
their highest and lowest price. A quote that offers the stock below the average is a
bargain; how good a one tells its index, exp(average - offer) times the size, and its
depth, the discount as a share of the range of prices. There are 58 operators, as in
the application of the same name of the paper on auto-pipelining: 24 that transform, 12
joins, 12 aggregations, and six outputs.

It reads real trades and quotes (TAQ format, one stock, two days) from the folder
`trades_quotes` of the real data, and a generated sample where there is none.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, csv_sample, real_file

HORIZONS = (10, 20, 50, 100, 200, 500)  # trades
FIVE_SECONDS_US = 5_000_000


class Trade(NamedTuple):
    """One trade; the attributes have the names of the columns in a TAQ file."""

    ts_us: int
    SYMBOL: str
    PRICE: float
    SIZE: int


class Quote(NamedTuple):
    """One quote, likewise."""

    seq: int
    ts_us: int
    SYMBOL: str
    BID: float
    BIDSIZ: int
    OFR: float
    OFRSIZ: int


class Sale(NamedTuple):
    """A trade with the money that changed hands."""

    ts_us: int
    symbol: str
    price: float
    volume: int
    money: float


class Totals(NamedTuple):
    """The last trades together."""

    ts_us: int
    symbol: str
    money: float
    volume: int


class Price(NamedTuple):
    """The average price of the last trades."""

    ts_us: int
    symbol: str
    vwap: float


class Range(NamedTuple):
    """The highest and the lowest price of the last trades."""

    ts_us: int
    symbol: str
    high: float
    low: float


class Offer(NamedTuple):
    """What somebody wants to sell."""

    seq: int
    ts_us: int
    symbol: str
    price: float
    size: int


class Bargain(NamedTuple):
    """An offer below the average; `depth` comes last."""

    seq: int
    ts_us: int
    symbol: str
    offer: float
    size: int
    vwap: float
    index: float = math.nan
    depth: float = math.nan


def sale(trade: Trade) -> Sale:
    """Return what a trade counts for."""
    money = trade.PRICE * trade.SIZE
    return Sale(trade.ts_us, trade.SYMBOL, trade.PRICE, trade.SIZE, money)


def price(totals: Totals) -> Price:
    """Return the average price."""
    return Price(totals.ts_us, totals.symbol, totals.money / totals.volume)


def offer(quote: Quote) -> Offer:
    """Return the side of a quote that sells."""
    return Offer(quote.seq, quote.ts_us, quote.SYMBOL, quote.OFR, quote.OFRSIZ)


def is_below(offer: Offer, price: Price) -> bool:
    """Tell whether the offer is below the price."""
    return offer.price < price.vwap


def bargain(offer: Offer, price: Price) -> Bargain:
    """Return an offer with the price that it is compared to."""
    return Bargain(*offer, price.vwap)


def with_depth(bargain: Bargain, prices: Range) -> Bargain:
    """Return the bargain with its discount as a share of the range."""
    spread = prices.high - prices.low
    discount = bargain.vwap - bargain.offer
    return bargain._replace(depth=discount / spread if spread else 0.0)


def with_index(bargain: Bargain) -> Bargain:
    """Return the bargain with the number by which desks compare them."""
    discount = bargain.vwap - bargain.offer
    return bargain._replace(index=math.exp(discount) * bargain.size)


def desk(trades: ab.Stream, quotes: ab.Stream, horizon: int) -> ab.Result:
    """Return the bargains against the last `horizon` trades of a stock."""
    name = f"desk_{horizon}"
    sales = trades.map(sale, name=f"sales_{horizon}").key_by("symbol")
    recent = sales.window(count=horizon, every=1)
    totals = recent.aggregate(
        ts_us=ab.last("ts_us"),
        symbol=ab.any("symbol"),
        money=ab.sum("money"),
        volume=ab.sum("volume"),
        into=Totals,
        name=f"totals_{horizon}",
    )
    ranges = recent.aggregate(
        ts_us=ab.last("ts_us"),
        symbol=ab.any("symbol"),
        high=ab.max("price"),
        low=ab.min("price"),
        into=Range,
        name=f"ranges_{horizon}",
    )
    offers = quotes.map(offer, name=f"offers_{horizon}")
    latest = {"on": "symbol", "left_window": 0, "right_window": 1}
    prices = totals.map(price, name=f"prices_{horizon}")
    below = offers.join(
        prices, match=is_below, into=bargain, name=f"below_{horizon}", **latest
    )
    graded = below.join(ranges, into=with_depth, name=f"depths_{horizon}", **latest)
    return graded.map(with_index, name=f"indices_{horizon}").to_list(name=name)


def program(
    trades: Path | None = None,
    quotes: Path | None = None,
    horizons: Sequence[int] = HORIZONS,
) -> list[ab.Result]:
    """Return the bargains of each desk."""
    if trades is None or quotes is None:
        trades, quotes = input_files()
    offered = ab.read_csv(str(quotes), Quote, name="quotes")
    traded = ab.read_csv(str(trades), Trade, name="trades")
    tape = ab.merge(offered, traded, by="ts_us", name="tape")
    sides = tape.split(lambda row: int(isinstance(row, Trade)), 2, name="sides")
    return [desk(sides[1], sides[0], horizon) for horizon in horizons]


def input_files() -> tuple[Path, Path]:
    """Return the trades and the quotes, real ones where they are at hand."""
    trades = real_file("trades_quotes", "trades.csv")
    quotes = real_file("trades_quotes", "quotes.csv")
    return (trades, quotes) if trades and quotes else sample_files()


def sample_files(
    folder: Path = SAMPLES, trades: int = 400, seed: int = 11
) -> tuple[Path, Path]:
    """Write trades of three stocks whose prices walk at random, and quotes around."""
    chance = random.Random(seed)
    prices = {"A": 30.0, "B": 80.0, "C": 150.0}
    traded, offered = [], []
    for number in range(trades):
        symbol = chance.choice("ABC")
        prices[symbol] = round(prices[symbol] * chance.uniform(0.998, 1.002), 2)
        traded.append(
            (number * FIVE_SECONDS_US, symbol, prices[symbol], chance.randrange(1, 900))
        )
        for _ in range(2):
            ask = round(prices[symbol] * chance.uniform(0.997, 1.004), 2)
            ts_us = number * FIVE_SECONDS_US + chance.choice([0, 1_000_000])
            size = chance.randrange(1, 30)
            offered.append((ts_us, symbol, ask - 0.05, size, ask, size))
    offered.sort(key=lambda quote: quote[0])
    numbered = [(seq, *quote) for seq, quote in enumerate(offered)]
    return (
        csv_sample("vwap_trades.csv", Trade._fields, traded, folder),
        csv_sample("vwap_quotes.csv", Quote._fields, numbered, folder),
    )
