"""Fission of one operator: its firings divided among threads.

Kernels let go of the interpreter's lock, so threads run them side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeAlias

WORTH_S = 200e-6  # what a thread should have to do, to be worth waking up
_FORGET = 0.3

Fired: TypeAlias = Callable[[int, int], bool]  # the firings from one up to another


class Threads:
    """How many threads share the firings of an operator, by what a firing costs.

    >>> threads = Threads(2)
    >>> threads.ways(1000)
    1
    >>> threads.learn(10, 0.001)
    >>> threads.ways(1000)
    2
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._firing_s = 0.0

    def ways(self, firings: int) -> int:
        """Return how many threads should share so many firings."""
        worth = int(firings * self._firing_s / WORTH_S)
        return max(1, min(self._most, worth, firings))

    def learn(self, firings: int, time_s: float) -> None:
        """Note what firings have cost, all threads together."""
        cost_s = time_s / firings
        if self._firing_s:
            cost_s = self._firing_s + _FORGET * (cost_s - self._firing_s)
        self._firing_s = cost_s

    def each(self, fire: Fired, parts: Iterable[tuple[int, int]]) -> list[bool]:
        """Fire all parts at the same time, the first one in this thread."""
        first, *others = parts
        waiting = [_pool(self._most).submit(fire, *part) for part in others]
        return [fire(*first), *(one.result() for one in waiting)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="fission")
