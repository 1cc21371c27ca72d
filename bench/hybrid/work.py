"""The work loop of the paper on hybrid scheduling, and pipelines of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba

import anabranch as ab
from bench.hybrid.schedulers.stages import Row, row_of


@numba.njit("float64(float64, int64)", nogil=True, cache=True)
def computed(x, count):  # the work unit of section 6 of the paper
    for i in range(count):
        x += i * 3.0 - 1.0
    return x


def work(count: int) -> Callable[[float], float]:
    """Return an operator that does `count` computations, at machine speed."""

    def worked(x: float) -> float:
        return computed(x, count)

    return identity if count == 0 else worked


def work_in_python(count: int) -> Callable[[float], float]:
    """Return the same operator as a user would write it."""

    def worked(x: float) -> float:
        for i in range(count):
            x += i * 3.0 - 1.0
        return x

    return worked


def identity(x: float) -> float:
    """Return an item as it is."""
    return x


def pipeline(items: Sequence[float], *functions: Callable[[float], float]) -> Row:
    """Return a row of maps."""
    stream = ab.from_iterable(list(items), float)
    for function in functions:
        stream = stream.map(function)
    return row_of(stream.to_list())


def floats(count: int) -> list[float]:
    """Return items for a benchmark."""
    return [float(n % 1000) for n in range(count)]
