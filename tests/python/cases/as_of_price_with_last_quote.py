# scan by symbol | global at 14: changes
from typing import NamedTuple

QUOTES = {}


class Item(NamedTuple):
    symbol: str
    side: str
    price: float


def operator(state, item):
    QUOTES[item.symbol] = item.price
    return state, item.price - QUOTES.get(item.symbol, 0.0)


initial = 0
