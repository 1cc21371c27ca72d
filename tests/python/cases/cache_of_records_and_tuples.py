# map | global: mixes up what is equal
import functools
from typing import NamedTuple


class Point(NamedTuple):
    x: int
    y: int


@functools.lru_cache(maxsize=None)
def show(point):
    return f"{point}"


def operator(n: int):
    return show(Point(n, 1) if n % 2 else (n, 1))
