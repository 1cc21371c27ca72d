# aggregate by sensor | keyed | forwards sensor
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    ts: int
    value: float


class Trend(NamedTuple):
    sensor: str
    slope: float
    first: int


def operator(items: list[Item]) -> Trend:
    n = len(items)
    xs, ys = zip(*((item.ts, item.value) for item in items))
    mx, my = sum(xs) / n, sum(ys) / n
    over = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    under = sum((x - mx) ** 2 for x in xs)
    return Trend(items[0].sensor, over / under if under else 0.0, min(xs))
