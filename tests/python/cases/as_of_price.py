# scan by symbol | keyed | push 1..1 | forwards symbol, ts
from typing import NamedTuple


class Item(NamedTuple):
    ts: int
    symbol: str
    side: str
    price: float


class Trade(NamedTuple):
    ts: int
    symbol: str
    slippage: float


initial = (0, 0.0, None)


def operator(state, item):
    ts, mid, last = state
    if item.side == "quote":
        return (item.ts, item.price, last), Trade(item.ts, item.symbol, 0.0)
    age = item.ts - ts
    slippage = (item.price - mid) / mid if mid and age < 1_000 else 0.0
    return (ts, mid, item.price), Trade(item.ts, item.symbol, slippage)
