"""The items and operators of the tests of connectors; workers import them from here."""

from typing import NamedTuple


class Reading(NamedTuple):
    sensor: str
    value: int


class Total(NamedTuple):
    sensor: str
    total: int


def total(state: int, reading: Reading) -> tuple[int, Total]:
    return state + reading.value, Total(reading.sensor, state + reading.value)


def readings(count: int, first: int = 0) -> list[Reading]:
    return [Reading(f"s{n % 3}", n) for n in range(first, first + count)]


def totals(items: list[Reading]) -> list[Total]:
    """The running totals, worked out by hand."""
    sums: dict[str, int] = {}
    found = []
    for item in items:
        sums[item.sensor] = sums.get(item.sensor, 0) + item.value
        found.append(Total(item.sensor, sums[item.sensor]))
    return found


def as_json(items: list[Reading]) -> list[bytes]:
    return [b'{"sensor": "%s", "value": %d}' % (s.encode(), v) for s, v in items]


def as_csv(items: list[Reading]) -> str:
    return "sensor,value\n" + "".join(f"{s},{v}\n" for s, v in items)
