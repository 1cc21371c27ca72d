# map | global at 12: changes the input item
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    values: list[float]


def scaled(values):
    top = max(values)
    values[:] = [v / top for v in values]
    return values


def operator(item: Item) -> float:
    return sum(scaled(item.values))
