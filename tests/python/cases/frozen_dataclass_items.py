# map | stateless | forwards account
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Item:
    account: str
    amount: float
    currency: str = "EUR"
    tags: tuple[str, ...] = field(default=())

    @property
    def is_large(self) -> bool:
        return abs(self.amount) > 10_000

    def in_cents(self) -> int:
        return int(self.amount * 100)


RATES = {"USD": 0.9, "EUR": 1.0}


def operator(item: Item) -> Item:
    if item.currency != "EUR":
        item2 = replace(item, amount=item.amount * RATES[item.currency], currency="EUR")
        return item2 if item2.is_large else Item(item.account, item.in_cents() / 100)
    return replace(item, tags=(*item.tags, "checked") if item.is_large else item.tags)
