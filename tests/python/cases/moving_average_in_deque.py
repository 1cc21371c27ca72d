# scan by sensor | keyed | push 1..1 | forwards sensor
from collections import deque
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    value: float


initial = deque(maxlen=10)


def operator(window, item):
    window.append(item.value)
    return window, item._replace(value=sum(window) / len(window))
