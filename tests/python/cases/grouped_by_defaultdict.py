# aggregate by shop | keyed
from collections import defaultdict
from typing import NamedTuple


class Item(NamedTuple):
    shop: str
    product: str
    price: float


class Row(NamedTuple):
    shop: str
    totals: dict[str, float]


def operator(items):
    totals = defaultdict(float)
    names = defaultdict(list)
    for item in items:
        totals[item.product] += item.price
        names[item.product].append(item.price)
    ranked = sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))
    best = {name: max(prices) for name, prices in names.items()}
    return Row(items[0].shop, {name: best[name] for name, _ in ranked})
