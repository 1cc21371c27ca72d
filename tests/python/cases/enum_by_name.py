# map | stateless | forwards price
import enum
from typing import NamedTuple


class Side(enum.Enum):
    BUY = "B"
    SELL = "S"


class Item(NamedTuple):
    code: str
    price: float


class Order(NamedTuple):
    side: Side
    price: float
    signed: float


def operator(item):
    side = Side(item.code) if len(item.code) == 1 else Side[item.code.upper()]
    signed = item.price if side is Side.BUY else -item.price
    label = f"{side.name}:{side.value}"
    return Order(side, item.price, signed if label else 0.0)
