# map | global at 10: process
from typing import NamedTuple


class Item(NamedTuple):
    user: str


def operator(item: Item) -> Item:
    return item._replace(user=f"user-{hash(item.user):x}")
