# map | stateless | forwards sensor
from types import MappingProxyType
from typing import NamedTuple

TO_METRES = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1_000.0}
OFFSETS = MappingProxyType({"C": 0.0, "K": -273.15})


class Item(NamedTuple):
    sensor: str
    unit: str
    value: float


def to_metres(value: float, unit: str) -> float:
    return value * TO_METRES[unit]


def operator(item: Item) -> Item:
    if item.unit in TO_METRES:
        return item._replace(unit="m", value=to_metres(item.value, item.unit))
    return item._replace(unit="C", value=item.value + OFFSETS.get(item.unit, 0.0))
