# aggregate by shop | keyed | push 0..1
import heapq
from typing import NamedTuple


class Item(NamedTuple):
    shop: str
    product: str
    price: float


def operator(items: list[Item]) -> list[tuple[float, str]]:
    heap: list[tuple[float, str]] = []
    for item in items:
        heapq.heappush(heap, (item.price, item.product))
        if len(heap) > 3:
            heapq.heappop(heap)
    return sorted(heap, reverse=True) or heapq.nlargest(3, heap, key=lambda pair: pair[0])
