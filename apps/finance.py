"""Volume-weighted average prices of stocks, by 100 trades and by five minutes.

A VWAP is the money that changed hands divided by the shares that did. The program reads
trades in time order and writes a price to `out/finance/per_100_trades` whenever a stock
has seen 100 more of them; `finance.py:five_minutes` writes one to
`out/finance/per_5_minutes` for every five minutes in which the stock was traded.
Nothing in it says what may run in parallel.

It reads real trades (TAQ format, one stock, two days) from the folder `trades_quotes`
in $ANABRANCH_DATA or in ../shared/data, and a generated sample where neither is there.
"""

import csv
import os
import random
from pathlib import Path
from typing import NamedTuple

import anabranch as ab

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("out") / "finance"
FIVE_MINUTES_US = 5 * 60 * 1_000_000


class Trade(NamedTuple):
    """One trade; the attributes have the names of the columns in a TAQ file."""

    ts_us: int
    SYMBOL: str
    PRICE: float
    SIZE: int


class Price(NamedTuple):
    """The price of a stock over the trades up to `ts_us`."""

    ts_us: int
    symbol: str
    trades: int
    volume: int
    vwap: float


def vwap(trades: list[Trade]) -> Price:
    """Return the volume-weighted average price of some trades of one stock."""
    last = trades[-1]
    volume = sum(trade.SIZE for trade in trades)
    money = sum(trade.PRICE * trade.SIZE for trade in trades)
    return Price(last.ts_us, last.SYMBOL, len(trades), volume, money / volume)


def program(trades: Path | None = None, out: Path = OUT) -> ab.Result:
    """Return the prices of every 100 trades of a stock."""
    prices = traded(trades).window(count=100).aggregate(vwap, name="vwap")
    return prices.write_csv(str(out / "per_100_trades"), name="per_100_trades")


def five_minutes(trades: Path | None = None, out: Path = OUT) -> ab.Result:
    """Return the prices of every five minutes in which a stock was traded."""
    windows = traded(trades).window(time=FIVE_MINUTES_US, on="ts_us")
    prices = windows.aggregate(vwap, name="vwap")
    return prices.write_csv(str(out / "per_5_minutes"), name="per_5_minutes")


def traded(trades: Path | None) -> ab.Stream:
    """Return the trades that were not cancelled, by stock."""
    path = trades_file() if trades is None else trades
    read = ab.read_csv(str(path), Trade, name="trades")
    return read.filter(lambda trade: trade.SIZE > 0, name="not_cancelled").key_by(
        "SYMBOL"
    )


def trades_file() -> Path:
    """Return the file of real trades, or of sample trades where there is none."""
    data = Path(os.environ.get("ANABRANCH_DATA", ROOT.parent / "shared" / "data"))
    real = data / "trades_quotes" / "trades.csv"
    return real if real.exists() else sample_file(OUT.parent / "sample_trades.csv")


def sample_file(path: Path, trades: int = 20_000, seed: int = 7) -> Path:
    """Write a sample: the same seed gives the same trades of twelve stocks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seq", *Trade._fields])
        writer.writerows(
            (seq, *trade) for seq, trade in enumerate(sample(trades, seed))
        )
    return unfinished.replace(path)


def sample(trades: int, seed: int) -> list[Trade]:
    """Return trades whose prices walk at random; some are cancelled, of size 0."""
    chance = random.Random(seed)
    prices = {f"S{number:02}": 20.0 + 15 * number for number in range(12)}
    ts_us = 1_514_903_400_000_000
    made = []
    for _ in range(trades):
        ts_us += chance.randrange(1, 600_000)
        symbol = chance.choice(sorted(prices))
        prices[symbol] = round(prices[symbol] * chance.uniform(0.999, 1.001), 2)
        size = chance.choice([0, 1, 50, 100, 100, 100, 200, 500])
        made.append(Trade(ts_us, symbol, prices[symbol], size))
    return made
