# map | global at 10: seen
from typing import NamedTuple

seen = []

class Item(NamedTuple):
    name: str

    def tag(self):
        seen.append(self.name)
        return self.name

def operator(item):
    return item.tag()
