"""The programs of the figures on safe data parallelism, and their measured speedups.

The work for a tuple is a number of integer multiplications, as in section 6 of the
paper. They run without the interpreter's lock, so two channels can use two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba

import anabranch as ab
from bench.harness.local_run import running
from bench.harness.timing import interleaved, sized

KEYS = 1_000


class Item(NamedTuple):
    """A tuple with two keys, for two regions."""

    n: int
    key: int
    other: int


def some(count: int) -> list[Item]:
    """Return tuples; the keys of the second region have nothing to do with the first."""
    return [Item(n, n * 7919 % KEYS, n * 104_729 % 997) for n in range(count)]


@numba.njit(nogil=True)
def multiply(times: int) -> int:
    """Multiply so many times; the interpreter's lock is free meanwhile."""
    total = 1
    for i in range(times):
        total = ((total ^ (total >> 7)) * 31 + i) & 0xFFFFFFFF  # has no short cut
    return total


multiply(1)  # compiled before anything is measured


def stateless(times: int, source: ab.Stream) -> ab.Stream:
    """Return one stateless operator behind the source."""

    @ab.declare(state="stateless", push=(1, 1))
    def work(item: Item) -> Item:
        multiply(times)
        return item

    return source.map(work, name="work")


def stateful(times: int, source: ab.Stream, key: str = "key") -> ab.Stream:
    """Return an aggregation that keeps state for each key."""

    @ab.declare(state="stateless", forwards=("n", "key", "other"))
    def step(total: int, item: Item) -> tuple[int, Item]:
        multiply(times)
        return total + 1, item

    return source.key_by(key).scan(step, 0, name=f"by_{key}")


def shuffle(times: int, source: ab.Stream) -> ab.Stream:
    """Return two aggregations by different keys, with a shuffle between them."""
    return stateful(times, stateful(times, source), "other")


PROGRAMS: dict[str, Callable[[int, ab.Stream], ab.Stream]] = {
    "stateless": stateless,
    "stateful": stateful,
    "shuffle": shuffle,
}


def count_for(times: int, most: int = 30_000) -> int:
    """Return how many tuples make a run of about a third of a second."""
    each_s = 4e-6 + times * 2e-9
    return max(200, min(most, int(sized(0.3, 0.1) / each_s)))


def speedups(
    make: Callable[[], ab.Result],
    channels: Sequence[int],
    *,
    repetitions: int = 5,
    **how: Any,
) -> dict[int, list[float]]:
    """Return the speedup of so many channels over one, on the local engine."""
    sides = {n: running(make(), degree=n, **how) for n in (1, *channels)}
    times = interleaved({str(n): run for n, run in sides.items()}, repetitions)
    return {
        n: [one / many for one, many in zip(times["1"], times[str(n)], strict=True)]
        for n in channels
    }
