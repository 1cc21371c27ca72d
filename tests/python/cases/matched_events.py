# map | stateless
from typing import NamedTuple


class Item(NamedTuple):
    kind: str
    payload: dict[str, int]


def operator(item):
    match item.kind, item.payload:
        case "click", {"x": x, "y": y}:
            return x + y
        case "key", payload if payload:
            return len(payload)
        case _:
            return 0
