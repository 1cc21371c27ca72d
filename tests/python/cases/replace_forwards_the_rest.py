# map | stateless | forwards symbol, ts
from typing import NamedTuple


class Item(NamedTuple):
    ts: int
    symbol: str
    price: float


def operator(item):
    return item._replace(price=item.price * 2, ts=item.ts)
