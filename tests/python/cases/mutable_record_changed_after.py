# map | stateless | forwards
import dataclasses


@dataclasses.dataclass
class Item:
    a: int
    b: int


def operator(item):
    out = Item(item.a, item.b)
    out.a = 0
    return out
