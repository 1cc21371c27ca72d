# apply by sensor | global at 17: changes
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    sensor: str
    value: float


class operator(ab.Operator):
    def __init__(self, history=[]):
        self.history = history

    def process(self, item):
        self.history.append(item.value)
        yield max(self.history)
