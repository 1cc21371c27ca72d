# map | global at 13: seen
from typing import NamedTuple

seen = []


class Item(NamedTuple):
    name: str

    @property
    def label(self):
        # reading the label counts it
        seen.append(self.name)
        return self.name


def operator(item):
    return item.label
