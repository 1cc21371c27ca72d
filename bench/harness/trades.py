"""The jobs that throughput is measured on, in plain Python and as stream programs.

A file of trades (ts, one of 1,000 symbols, price, volume) goes to a file of prices.
"""

from __future__ import annotations

import csv
import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SYMBOLS = 1_000
HEADER = "ts,symbol,price,volume"


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    ts: int
    symbol: str
    price: float


def in_cents(t: Trade) -> Trade:
    return t._replace(price=t.price * 100)


def is_large(t: Trade) -> bool:
    return t.volume > 10


def with_fee(t: Trade) -> Trade:
    return Trade(t.ts, t.symbol, t.price * 1.001, t.volume)


def per_share(t: Trade) -> Price:
    return Price(t.ts, t.symbol, t.price / t.volume)


def rounded(t: Trade) -> Trade:
    """Take the price to two digits, by a text: no kernel computes that."""
    return t._replace(price=float(format(t.price, ".2f")))


def running_vwap(state: tuple[float, int], t: Trade) -> tuple[tuple[float, int], Price]:
    value, volume = state[0] + t.price * t.volume, state[1] + t.volume
    return (value, volume), Price(t.ts, t.symbol, value / volume)


def window_vwap(trades: list[Trade]) -> Price:
    last = trades[-1]
    value = sum(t.price * t.volume for t in trades)
    return Price(last.ts, last.symbol, value / sum(t.volume for t in trades))


def heavy(t: Trade) -> Price:
    """Take about 50 microseconds of pure Python."""
    x = t.price
    for i in range(700):
        x = x * 1.000001 + i % 3
    return Price(t.ts, t.symbol, x)


JOBS: dict[str, Callable[[Any], Any]] = {  # from stream to stream
    "chain": lambda s: s.map(in_cents).filter(is_large).map(with_fee).map(per_share),
    "vwap": lambda s: s.key_by("symbol").scan(running_vwap, (0.0, 0)),
    "window": lambda s: s.key_by("symbol").window(count=100).aggregate(window_vwap),
    "heavy": lambda s: s.map(heavy),
    "mixed": lambda s: s.map(in_cents).filter(is_large).map(rounded).map(per_share),
}


def make_trades(path: Path, rows: int, seed: int = 7) -> Path:
    """Write a file of trades, the same for the same seed."""
    rng = random.Random(seed)
    prices = [100 + 50 * rng.random() for _ in range(SYMBOLS)]
    with path.open("w") as file:
        file.write(HEADER + "\n")
        for ts in range(rows):
            symbol = rng.randrange(SYMBOLS)
            prices[symbol] *= 1 + (rng.random() - 0.5) / 1000
            volume = rng.randrange(1, 1000)
            file.write(f"{ts},S{symbol:04},{prices[symbol]:.2f},{volume}\n")
    return path


def find_row(source: Path, number: int) -> int:
    """Return the byte at which a row of a file begins; the first has number 0."""
    with source.open("rb") as file:
        return sum(map(len, itertools.islice(file, number + 1)))


def plain(job: str, source: Path, at: int, rows: int, target: Path) -> None:
    """Run a job over some rows as a Python programmer would write it.

    They begin `at` a byte, so that nobody has to read those before; 0: at the first row.
    """
    with source.open() as file, target.open("w") as out:
        if at:
            file.seek(at)
        else:
            file.readline()
        lines = csv.reader(itertools.islice(file, rows))
        write = csv.writer(out).writerow
        write(Price._fields)
        trades = (
            Trade(int(ts), symbol, float(price), int(volume))
            for ts, symbol, price, volume in lines
        )
        PLAIN[job](trades, write)


def _plain_mixed(trades: Any, write: Callable[[Any], Any]) -> None:
    for trade in trades:
        t = in_cents(trade)
        if is_large(t):
            write(per_share(rounded(t)))


def _plain_chain(trades: Any, write: Callable[[Any], Any]) -> None:
    for trade in trades:
        t = in_cents(trade)
        if is_large(t):
            write(per_share(with_fee(t)))


def _plain_vwap(trades: Any, write: Callable[[Any], Any]) -> None:
    states: dict[str, tuple[float, int]] = {}
    for t in trades:
        states[t.symbol], price = running_vwap(states.get(t.symbol, (0.0, 0)), t)
        write(price)


def _plain_window(trades: Any, write: Callable[[Any], Any]) -> None:
    windows: dict[str, list[Trade]] = {}
    for t in trades:
        window = windows.setdefault(t.symbol, [])
        window.append(t)
        if len(window) == 100:
            write(window_vwap(window))
            windows[t.symbol] = []
    for symbol in sorted(windows):
        if windows[symbol]:
            write(window_vwap(windows[symbol]))


def _plain_heavy(trades: Any, write: Callable[[Any], Any]) -> None:
    for t in trades:
        write(heavy(t))


PLAIN = {
    "chain": _plain_chain,
    "vwap": _plain_vwap,
    "window": _plain_window,
    "heavy": _plain_heavy,
    "mixed": _plain_mixed,
}

if __name__ == "__main__":  # one of two plain processes: JOB SOURCE AT ROWS TARGET
    plain(
        sys.argv[1],
        Path(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        Path(sys.argv[5]),
    )
