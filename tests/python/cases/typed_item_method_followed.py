# map | stateless
from typing import NamedTuple


class Item(NamedTuple):
    price: float
    volume: int

    @property
    def value(self):
        return self.price * self.volume

    def worth(self, factor):
        total = self.value
        total += 1
        return total * factor


def operator(item):
    return item.worth(2)
