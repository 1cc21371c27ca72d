# map | stateless
from typing import NamedTuple


class Item(NamedTuple):
    name: str
    price: float
    n: int


def money(amount: float) -> str:
    return f"{amount:,.2f} EUR"


def operator(item: Item) -> str:
    head = "%-10s|%5d" % (item.name, item.n)
    tail = "{:>12}".format(money(item.price * item.n))
    lines = [head, tail, str(item.price), repr(item.name), f"{item!r:>20}"]
    return " ".join(lines).rjust(40, "*")
