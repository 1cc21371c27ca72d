# apply by user | global at 20: changes
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    ts: int
    user: str


class operator(ab.Operator):
    visits = {}

    def setup(self):
        self.last = None

    def process(self, item):
        self.last = item
        self.visits[item.user] = self.visits.get(item.user, 0) + 1
        yield item
