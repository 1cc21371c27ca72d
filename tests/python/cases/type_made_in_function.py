# map | stateless | forwards ts
from typing import NamedTuple


def make(factor):
    class Item(NamedTuple):
        ts: int
        value: float

        def scaled(self):
            return self.value * factor

    class Scaled(NamedTuple):
        ts: int
        value: float

    def operator(item: Item) -> Scaled:
        return Scaled(item.ts, item.scaled())

    return Item, operator


Item, operator = make(3)
