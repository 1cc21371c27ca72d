# map | global at 12: changes
from typing import NamedTuple

FACTORS = {"m": 1.0}


class Item(NamedTuple):
    unit: str
    value: float

    def factor(self):
        return FACTORS.setdefault(self.unit, 1.0)


def operator(item: Item) -> float:
    return item.value * item.factor()
