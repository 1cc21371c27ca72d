"""A program with every kind of state that a checkpoint can hold.

It is loaded as a script, as `anabranch run` does: the names of its classes in the
checkpoint depend on the name of this file alone.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anabranch as ab


class Event(NamedTuple):
    ts: int
    key: str
    value: int


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


@dataclass
class Sizes:
    """A class that the program names nowhere."""

    last: Size
    large: int = 0


class Best(ab.Operator):
    """Gives each value that is the largest of its key so far, and the sum at the end."""

    def setup(self):
        self.best, self.seen = -1, []

    def process(self, item: Event):
        self.seen.append(item.value)
        if item.value > self.best:
            self.best = item.value
            yield Event(item.ts, item.key, item.value)

    def finish(self):
        yield Event(-1, "sum", sum(self.seen))


def add(total: int, item: Event) -> tuple[int, Event]:
    return total + item.value, item._replace(value=total + item.value)


def measure(sizes: Sizes, item: Event) -> tuple[Sizes, str]:
    size = Size.LARGE if item.value > 8 else Size.SMALL
    large = sizes.large + (size is Size.LARGE)
    return Sizes(size, large), f"{item.key} {sizes.last.name} {size.name} {large}"


def refuse_thirteen(item: Event) -> int:
    if item.value == 13:
        msg = "thirteen"
        raise ValueError(msg)
    return item.value


def difference(last, row) -> tuple[object, int]:
    """Keep the last row, of a type that the aggregate has made."""
    return row, row.total - (0 if last is None else last.total)


def ends_sentence(item: Event) -> bool:
    return item.value == 4


def values(items: list[Event]) -> list[int]:
    return [item.value for item in items]


def pair(one: Event, other: Event) -> tuple[int, int]:
    return one.value, other.value


def groups(_: Path) -> dict[str, ab.Stream]:
    """Return a stream with blocks that run in parallel; not with dead letters."""
    numbers = ab.from_iterable(list(range(60)), int, name="numbers")
    return {"groups": numbers.block(sum_all, pop=7, push=1, name="groups")}


def states(folder: Path) -> dict[str, ab.Stream]:
    """Return streams with every other kind of state, by name."""
    events = ab.read_csv(folder / "events.csv", Event, name="events")
    numbers = ab.from_iterable(list(range(60)), int, name="numbers")
    made = [Event(3 * n, "ab"[n % 2], n) for n in range(60)]
    others = ab.from_iterable(made, Event, name="others")
    keyed = events.key_by("key")
    totals = events.window(count=7).aggregate(total=ab.sum("value"), name="sums")
    sentences = events.punctuate(ends_sentence)
    odd_even = ab.split_join(
        ab.round_robin([2, 1]),
        [lambda s: s.map(lambda n: n), lambda s: s.block(sum_all, pop=2, push=1)],
        ab.round_robin([4, 1]),
        name="turns",
    )
    return {
        "scan": keyed.scan(add, 0, name="scan"),
        "sizes": keyed.scan(measure, Sizes(Size.SMALL), name="sizes"),
        "rows": totals.scan(difference, None, name="differences"),
        "best": keyed.apply(Best, name="best"),
        "count": keyed.window(count=4).aggregate(values, name="count"),
        "sliding": keyed.window(count=4, every=3).aggregate(values, name="sliding"),
        "time": keyed.window(time=30, on="ts").aggregate(values, name="time"),
        "slices": keyed.window(time=30, every=20, on="ts").aggregate(
            values, name="slices"
        ),
        "delta": keyed.window(delta=25, on="ts").aggregate(values, name="delta"),
        "sentences": sentences.window(punctuation=True).aggregate(
            values, name="sentences"
        ),
        "join": events.join(
            others,
            on="key",
            left_window=3,
            right_window=ab.Window(time=9, on="ts"),
            into=pair,
            name="join",
        ),
        "merge": ab.merge(events, others.filter(is_rare), by="ts", name="merge"),
        "barrier": ab.barrier(
            events, others.filter(is_even), into=pair, name="barrier"
        ),
        "turns": numbers.pipe(odd_even),
        "peeks": numbers.block(sum_three, pop=3, push=1, peek=5, name="peeks"),
        "rounds": sentences.map(lambda e: e.value).iterate(
            lambda s: s.map(lambda n: n + 1), rounds=2, name="rounds"
        ),
        "failing": events.map(refuse_thirteen, name="failing"),
    }


def sum_all(window: list[int]) -> list[int]:
    return [sum(window)]


def sum_three(window: list[int]) -> list[int]:
    return [window[0] + window[2] + window[4]]


def is_rare(item: Event) -> bool:
    return item.value % 5 == 0


def is_even(item: Event) -> bool:
    return item.value % 2 == 0
