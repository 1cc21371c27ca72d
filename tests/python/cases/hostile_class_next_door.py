# aggregate by key | keyed
import random
from typing import NamedTuple

LOG = []


class Item(NamedTuple):
    key: str
    value: int


class Replay:
    def __call__(self):
        return random.Random(1)

    def __len__(self):
        LOG.append(1)
        return 1

    def __add__(self, other):
        LOG.append(other)
        return self

    def __iter__(self):
        LOG.append(1)
        return iter(LOG)

    def __lt__(self, other):
        LOG.append(other)
        return True


def operator(items):
    ordered = sorted(items)
    total = sum(item.value for item in ordered) + len(items)
    texts = [item.key for item in items]
    return min(texts), max(total, 3), tuple(reversed(ordered)), abs(total)
