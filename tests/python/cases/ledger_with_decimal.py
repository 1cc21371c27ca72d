# scan by account | keyed | push 1..1
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

CENT = Decimal("0.01")


class Item(NamedTuple):
    account: str
    amount: str


initial = Decimal(0)


def operator(balance, item):
    amount = Decimal(item.amount).quantize(CENT, rounding=ROUND_HALF_UP)
    balance += amount
    return balance, (item.account, str(balance), balance < 0)
