# map | stateless | forwards a, b
import dataclasses


@dataclasses.dataclass(frozen=True)
class Item:
    a: int
    b: int
    c: int


def operator(item):
    return dataclasses.replace(item, c=0)
