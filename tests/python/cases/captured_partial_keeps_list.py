# map | global at 6: changes
from functools import partial


def keep(held, value):
    held.append(value)
    return len(held)


HELD = []


def operator(values: list[float]):
    return list(map(partial(keep, HELD), values))
