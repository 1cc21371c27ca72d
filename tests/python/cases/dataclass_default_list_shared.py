# map | global at 13: changes
from dataclasses import dataclass, field

SHARED = []


@dataclass
class Row:
    name: str
    parts: list = field(default_factory=lambda: SHARED)

    def add(self, part):
        self.parts.append(part)
        return self


def operator(line: str):
    return Row(line).add(line).parts
