# aggregate by sensor | keyed | push 0..1
import statistics
from typing import NamedTuple


class Item(NamedTuple):
    sensor: str
    value: float


class Replay:
    def __call__(self):
        return open("somewhere")


def operator(items):
    values = [item.value for item in items]
    middle = statistics.fmean(values)
    spread = statistics.pstdev(values) or 1.0
    scores = [round((v - middle) / spread, 3) for v in values]
    worst = max(range(len(scores)), key=lambda i: abs(scores[i]))
    return items[worst].sensor, scores[worst], f"{scores[worst]:+.2f}"
