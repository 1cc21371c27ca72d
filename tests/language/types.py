"""The tuple types of the programs that the tests of this folder check."""

from typing import NamedTuple


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int

    @property
    def value(self):
        return self.price * self.volume


class Quote(NamedTuple):
    ts: float
    symbol: str
    ask: float


class Odd(NamedTuple):
    ts: str
    symbol: int
