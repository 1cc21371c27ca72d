# flat_map | stateless | push 0..1
import csv
from typing import NamedTuple


class Row(NamedTuple):
    city: str
    population: int


def operator(line: str):
    fields = line.rstrip("\n").split(",")
    if len(fields) != 2 or fields[0] == "city":
        return []
    name, count = fields
    return [Row(name.strip().title(), int(count.replace("_", "") or 0))]
