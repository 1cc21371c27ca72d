# map | global at 12: default
from typing import NamedTuple


class Box(NamedTuple):
    held: list = []


def operator(item):
    box = Box()
    # every box has the same list
    box.held.append(item)
    return len(box.held)
