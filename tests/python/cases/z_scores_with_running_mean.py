# aggregate by sensor | global at 14: changes
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    value: float


HISTORY = {"n": 0}


def operator(items):
    HISTORY["n"] += len(items)
    return sum(item.value for item in items) / HISTORY["n"]
