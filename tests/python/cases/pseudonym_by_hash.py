# map | stateless | forwards amount
import hashlib
from typing import NamedTuple

SALT = b"pepper"


class Item(NamedTuple):
    user: str
    amount: int


def operator(item: Item) -> Item:
    digest = hashlib.blake2b(item.user.encode("utf-8"), digest_size=8, key=SALT)
    digest.update(b"more")
    return item._replace(user=digest.hexdigest())
