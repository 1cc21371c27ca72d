# map | stateless | forwards sensor, ts
import math
from typing import NamedTuple


class Item(NamedTuple):
    ts: int
    sensor: str
    values: list[float]


class Features(NamedTuple):
    ts: int
    sensor: str
    mean: float
    spread: float
    peak: float


def mean(values):
    return sum(values) / len(values) if values else 0.0


def operator(item: Item) -> Features:
    middle = mean(item.values)
    spread = math.sqrt(mean([(v - middle) ** 2 for v in item.values]))
    peak = max(item.values, key=lambda v: abs(v - middle), default=0.0)
    return Features(item.ts, item.sensor, middle, spread, peak)
