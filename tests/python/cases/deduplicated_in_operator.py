# apply by user | keyed | push 0..1 | forwards all
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    user: str
    event: str


class operator(ab.Operator):
    def setup(self):
        self.seen = set()
        self.order = []

    def process(self, item):
        if item.event not in self.seen:
            self.seen.add(item.event)
            self.order.append(item.event)
            if len(self.order) > 1_000:
                self.seen.discard(self.order.pop(0))
            yield item
