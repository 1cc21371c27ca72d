# aggregate | global: changes
from dataclasses import dataclass

SEEN = []


@dataclass(frozen=True)
class Item:
    value: int

    def __lt__(self, other):
        SEEN.append(other)
        return self.value < other.value


def operator(items):
    return sorted(items)[0]
