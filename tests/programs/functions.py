"""The operators that generated programs are made of.

They stand at the top level of a module, so that analysis can read them and other
processes can import them. All are pure but the `Operator` classes, whose state is
their attributes. Most are annotated; some are not, as in the programs of users.
Values stay small, so that every item fits the columns of a typed stream.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import anabranch as ab

KEYS = ("red", "green", "blue", "grey")
PRIME = 997


class Event(NamedTuple):
    ts: int
    key: str
    zone: int
    value: int


# ---------------------------------------------------------------- sources


def events(seed: int, n: int) -> list[Event]:
    """Return `n` events by ascending time; one key is much more frequent."""
    rng = random.Random(seed)
    ts = rng.randrange(5)
    made = []
    for _ in range(n):
        ts += rng.choice((0, 0, 1, 1, 2, 9))
        key = rng.choice(("red", "red", *KEYS))
        made.append(Event(ts, key, rng.randrange(3), rng.randrange(100)))
    return made


class Replay:
    """A factory for `ab.generate`: the same events each time it is called."""

    def __init__(self, seed: int, n: int) -> None:
        self.seed = seed
        self.n = n

    def __call__(self) -> Iterator[Event]:
        return iter(events(self.seed, self.n))


# ---------------------------------------------------------------- map


def bump(e: Event) -> Event:
    return e._replace(value=(e.value * 3 + 1) % PRIME)


def rezone(e: Event) -> Event:
    return Event(e.ts, e.key, e.value % 3, e.value)


def rekey(e: Event) -> Event:
    return e._replace(key=KEYS[e.value % len(KEYS)])


def shift(e: Event) -> Event:
    return Event(ts=e.ts + 3, key=e.key, zone=e.zone, value=e.value)


def fold_time(e: Event) -> Event:
    return e._replace(ts=e.ts * 7 % 40)


def plain(e):
    return e._replace(value=e.value ^ 5)


# ---------------------------------------------------------------- filter, split


def is_even(e: Event) -> bool:
    return e.value % 2 == 0


def outside(e: Event) -> bool:
    return e.zone != 0


def is_rare(e):
    return e.value % 5 == 0


def never(e: Event) -> bool:
    return e.value < 0


def by_zone(e: Event) -> int:
    return e.zone


def by_parity(e: Event) -> int:
    return e.value % 2


def to_itself(e: Event) -> tuple[int, ...]:
    return (0, 0) if e.value % 2 else (0,)


def to_several(e: Event) -> tuple[int, ...]:
    return ((), (0,), (1, 0), (0, 1), (1, 1))[e.value % 5]


# ---------------------------------------------------------------- flat_map


def up_to_three(e: Event) -> list[Event]:
    return [e._replace(value=(e.value + i) % PRIME) for i in range(e.value % 4)]


def twice(e: Event) -> Iterator[Event]:
    yield e
    yield e._replace(zone=(e.zone + 1) % 3)


def perhaps(e):
    if e.value % 3:
        yield e._replace(value=e.value // 3)


# ---------------------------------------------------------------- scan


def running_total(total: int, e: Event) -> tuple[int, Event]:
    total = (total + e.value) % PRIME
    return total, e._replace(value=total)


def difference(last, e):
    change = 0 if last is None else e.value - last
    return e.value, e._replace(value=change % PRIME)


def numbered(n: int, e: Event) -> tuple[int, Event]:
    return n + 1, Event(e.ts, e.key, n % 3, e.value)


# ---------------------------------------------------------------- Operator classes


class Counter(ab.Operator):
    """Passes items on with their number; says at the end how many there were."""

    def setup(self) -> None:
        self.n = 0
        self.last = Event(0, "none", 0, 0)

    def process(self, item: Event) -> Iterator[Event]:
        self.n += 1
        self.last = item
        yield item._replace(value=self.n)

    def finish(self) -> Iterator[Event]:
        yield self.last._replace(value=-self.n)


class Changes(ab.Operator):
    """Passes an item on where its zone is not that of the item before."""

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.zone: int | None = None

    def process(self, item: Event) -> Iterator[Event]:
        if item.zone != self.zone:
            self.zone = item.zone
            yield item._replace(value=item.value * self.weight % PRIME)


class Bells(ab.Operator):
    """Passes each item on, and gives two at a punctuation: its rate is not steady."""

    def setup(self) -> None:
        self.n = 0
        self.last = Event(0, "none", 0, 0)

    def process(self, item: Event) -> Iterator[Event]:
        self.n += 1
        self.last = item
        yield item

    def punctuation(self) -> Iterator[Event]:
        yield self.last._replace(value=self.n)
        yield self.last._replace(value=-self.n)


class Sheaves(ab.Operator):
    """Gives items back in reverse, three at a time, at a punctuation and at the end."""

    def setup(self):
        self.held = []

    def process(self, item):
        self.held.append(item)
        return self._release() if len(self.held) == 3 else []

    def punctuation(self):
        return self._release()

    def finish(self):
        return self._release()

    def _release(self):
        held, self.held = self.held, []
        return held[::-1]


# ---------------------------------------------------------------- aggregate, block


def total(items: list[Event]) -> Event:
    last = items[-1]
    return last._replace(value=sum(e.value for e in items) % PRIME)


def fingerprint(items):
    """Tell the order and the number of the items apart, not only their sum."""
    mark = 0
    for e in items:
        mark = (mark * 31 + e.value + 7 * e.zone + e.ts) % PRIME
    return Event(items[-1].ts, items[0].key, len(items) % 3, mark)


class Tally(NamedTuple):
    ts: int
    key: str
    n: int
    low: int
    high: int
    mean: float


def from_tally(t: Tally) -> Event:
    return Event(t.ts, t.key, t.n % 3, (t.low + t.high + int(t.mean * 4)) % PRIME)


def from_row(row) -> Event:
    return Event(row.ts, row.key, row.zone, (row.value + row.n) % PRIME)


def sum_block(items: Sequence[Event]) -> list[Event]:
    return [total(list(items))]


def swap_block(items: Sequence[Event]) -> list[Event]:
    return [items[1], items[0]]


def double_block(items: Sequence[Event]) -> list[Event]:
    return [items[0], bump(items[0])]


def peek_block(items):
    return [fingerprint(items), items[0]]


def smooth_block(items: Sequence[Event]) -> list[Event]:
    return [items[0]._replace(value=sum(e.value for e in items) // len(items))]


# ---------------------------------------------------------------- join, barrier


def are_close(left: Event, right: Event) -> bool:
    return abs(left.value - right.value) < 40


def pair_up(left: Event, right: Event) -> Event:
    value = (left.value * 2 + right.value) % PRIME
    return Event(max(left.ts, right.ts), left.key, right.zone, value)


def from_pair(pair: tuple[Event, Event]) -> Event:
    return pair_up(pair[0], pair[1])


def blend(*items: Event) -> Event:
    return items[0]._replace(value=sum(e.value for e in items) % PRIME)


# ---------------------------------------------------------------- iterate


def bump_body(s: ab.Stream) -> ab.Stream:
    return s.map(bump)


def thin_body(s: ab.Stream) -> ab.Stream:
    return s.filter(outside).key_by("key").scan(running_total, 0).map(rezone)


def diamond_body(s: ab.Stream) -> ab.Stream:
    return ab.union(s.filter(is_even), s.filter(is_rare).map(shift))


def window_body(s: ab.Stream) -> ab.Stream:
    return s.window(count=2).aggregate(total)


def is_small(items: list[Event]) -> bool:
    return len(items) < 4 or sum(e.value for e in items) % 3 == 0


# ---------------------------------------------------------------- windows in two steps
# At the end, since golden plans name the lines above.


class Totals(NamedTuple):
    ts: int
    key: str
    zone: int
    n: int
    low: int
    total: int


def from_totals(t) -> Event:
    return Event(t.ts, t.key, (t.zone + t.n) % 3, (t.low * 7 + t.total) % PRIME)


def from_tops(row) -> Event:
    top, low = row.tops[-1], row.low[0]
    return Event(row.ts, [*row.keys][-1], top.zone, len(row.tops) * 100 + low.value)


def from_some(row) -> Event:
    return Event(row.ts, row.some, row.n % 3, row.n)
