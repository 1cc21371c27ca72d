# apply by sensor | keyed | push 0..1 | forwards sensor
from dataclasses import dataclass, field
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    sensor: str
    value: float


@dataclass
class Track:
    low: float = float("inf")
    high: float = float("-inf")
    history: list[float] = field(default_factory=list)

    def add(self, value):
        self.low = min(self.low, value)
        self.high = max(self.high, value)
        self.history.append(value)
        if len(self.history) > 20:
            del self.history[0]


class operator(ab.Operator):
    def __init__(self, factor=2.0):
        self.factor = factor
        self.track = Track()

    def process(self, item):
        before = self.track.high - self.track.low
        self.track.add(item.value)
        if self.track.high - self.track.low > self.factor * before:
            yield item._replace(value=self.track.high)
