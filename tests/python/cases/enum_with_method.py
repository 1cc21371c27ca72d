# map | stateless
import enum


class Side(enum.Enum):
    BUY = 1
    SELL = -1

    @property
    def sign(self):
        return self.value


def operator(item):
    return item.price * Side.BUY.sign + Side.SELL.value
