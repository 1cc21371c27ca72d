# scan by account | keyed
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, order=True)
class Money:
    cents: int

    def __add__(self, other):
        return Money(self.cents + other.cents)

    def __str__(self):
        return f"{self.cents / 100:.2f}"


class Item(NamedTuple):
    account: str
    amount: Money


initial = Money(0)


def operator(balance, item):
    balance = balance + item.amount
    return balance, f"{item.account}: {max(balance, Money(0))}"
