# apply by user | global at 15: changes
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    user: str
    event: str


class operator(ab.Operator):
    def process(self, item):
        if item.event not in SEEN:
            SEEN.add(item.event)
            yield item


SEEN = set()
