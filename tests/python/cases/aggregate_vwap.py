# aggregate by symbol | keyed | push 0..1 | forwards symbol
from typing import NamedTuple


class Item(NamedTuple):
    ts: int
    symbol: str
    price: float


def operator(items):
    last = items[-1]
    total = last.price
    for t in items:
        total += t.price
    return Item(last.ts, last.symbol, total / len(items))
