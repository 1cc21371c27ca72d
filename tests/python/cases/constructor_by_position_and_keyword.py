# map | stateless | forwards symbol, ts
from typing import NamedTuple


class Item(NamedTuple):
    ts: int
    symbol: str
    price: float


class Out(NamedTuple):
    symbol: str
    ts: int
    cents: int
    price: float


def operator(item):
    s = item.symbol
    return Out(s, price=0.0, ts=item.ts, cents=int(item.price))
