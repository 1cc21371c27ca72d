"""Types and functions for the tests of the Spark engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    ts: int
    symbol: str
    vwap: float


@dataclass(frozen=True)
class Note:
    symbol: str
    text: str | None


def trades(n: int) -> list[Trade]:
    return [Trade(i, f"S{i % 7}", 100 + i / 8, i % 50) for i in range(n)]


def traded(t: Trade) -> bool:
    return t.volume > 0


def vwap(state: tuple[float, int], t: Trade) -> tuple[tuple[float, int], Price]:
    value, volume = state[0] + t.price * t.volume, state[1] + t.volume
    return (value, volume), Price(t.ts, t.symbol, value / volume)


def mean(items: list[Trade]) -> Price:
    last = items[-1]
    return Price(last.ts, last.symbol, sum(t.price for t in items) / len(items))


def note(t: Trade) -> Note:
    return Note(t.symbol, None if t.volume % 2 else f"a, {t.volume}")
