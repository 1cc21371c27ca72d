"""Functions over trades that can be compiled, for the tests of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    ts: int
    symbol: str
    price: float


def is_large(t: Trade) -> bool:
    return t.volume > 3


def per_share(t: Trade) -> Price:
    return Price(t.ts, t.symbol, t.price / t.volume)


def vwap(state: tuple[float, int], t: Trade) -> tuple[tuple[float, int], Price]:
    value, volume = state[0] + t.price * t.volume, state[1] + t.volume
    return (value, volume), Price(t.ts, t.symbol, value / volume)


def of_window(trades: list[Trade]) -> Price:
    last = trades[-1]
    value = sum(t.price * t.volume for t in trades)
    return Price(last.ts, last.symbol, value / sum(t.volume for t in trades))


def ever_larger(state: int, t: Trade) -> tuple[int, Price]:
    return state * 3 + t.volume, Price(state % 1000, t.symbol, t.price)


def parts_of(t: Trade) -> Iterator[Trade]:
    """Yield a trade in parts of fifty at most."""
    left = t.volume
    while left > 50:
        yield t._replace(volume=50)
        left -= 50
    yield t._replace(volume=left)
