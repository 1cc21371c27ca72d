# aggregate by shop | global at 16: changes
import heapq
from typing import NamedTuple


class Item(NamedTuple):
    shop: str
    price: float


BEST = []


def operator(items):
    for item in items:
        heapq.heappush(BEST, item.price)
    return heapq.nlargest(3, BEST)
