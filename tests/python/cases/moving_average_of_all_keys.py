# scan by sensor | global at 15: changes
from collections import deque
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    value: float


WINDOW = deque(maxlen=10)


def operator(n, item):
    WINDOW.append(item.value)
    return n + 1, sum(WINDOW) / len(WINDOW)


initial = 0
