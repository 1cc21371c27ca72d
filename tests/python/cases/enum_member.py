# filter | stateless
import enum


class Side(enum.Enum):
    BUY = 1
    SELL = 2


def operator(item):
    return item.side is Side.BUY or Side(item.code) == Side.SELL
