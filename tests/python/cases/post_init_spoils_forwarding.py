# map | stateless | forwards
import dataclasses


@dataclasses.dataclass
class Item:
    a: int
    b: int

    def __post_init__(self):
        self.a = 0


def operator(item):
    return Item(item.a, item.b)
