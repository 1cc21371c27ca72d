# aggregate by sensor | keyed
from operator import attrgetter, itemgetter
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    ts: int
    value: float


def operator(items):
    by_value = sorted(items, key=attrgetter("value"))
    low, high = by_value[len(items) // 4], by_value[3 * len(items) // 4]
    reach = 1.5 * (high.value - low.value)
    far = [i for i in items if not low.value - reach <= i.value <= high.value + reach]
    pairs = [(i.ts, i.value) for i in far]
    return items[0].sensor, max(pairs, key=itemgetter(1), default=None)
