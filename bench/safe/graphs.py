"""Regions that are graphs: what a second channel brings, and what moving hot keys brings.

    anabranch bench safe/graphs [fan-out] [join] [pairs] [rounds] [skew] [--on spark] [--runs N]

- *fan-out*: a heavy map with two consumers; *join*: a keyed join of two sources with a heavy
  `into` (each source has a thread on local, so work before the join would be parallel at one
  channel too); *pairs*: two branches of a stream, one of them heavy, that meet at a `barrier`.
  Two channels over one: at least 1.7.
- *rounds*: eight rounds of an `iterate` whose body is a heavy map. Two channels over one: at
  least 1.5 (on Spark one process runs the first round, to see whether it takes long).
- *skew*: 1% of the keys have 80% of the volume, and all of them begin on one of two
  channels, the worst that hashing can do. With balancing over without: at least 1.6.

On Spark the work holds the interpreter's lock and is none that is compiled; on local it
lets go of the lock.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numba

import anabranch as ab
from anabranch.engines.local import key_watch
from anabranch.engines.spark.session import open_session
from anabranch.epochs import division
from anabranch.epochs.division import FINEST
from anabranch.epochs.state.states import bucket_of
from anabranch.epochs.task import deal_evenly
from anabranch.language.drafts import Result
from anabranch.runtime import split
from bench.harness.timing import claim, interleaved, ratio, report, sized

CHANNELS = 1.7
IN_ROUNDS = 1.5
BALANCE = 1.6
KEYS = 1000
EPOCHS = 8
ROUNDS = 500_000  # of the compiled loop, about 100 microseconds
HASHES = 150  # about as long


class Item(NamedTuple):
    """An item, its key, and what was computed of it."""

    number: int
    key: str
    value: int


@numba.njit(nogil=True)
def spin(value: int, rounds: int) -> int:
    for i in range(rounds):
        value = (value * 31 + i) & 0xFFFFFF
    return value


@ab.declare(state="stateless", push=(1, 1), forwards=("number", "key"))
def without_lock(item: Item) -> Item:
    return Item(item.number, item.key, spin(item.number, ROUNDS))


def hash_often(value: int) -> int:
    """Compute what is not compiled, and holds the lock."""
    digest = str(value).encode()
    for _ in range(HASHES):
        digest = hashlib.sha256(digest).digest()
    return digest[0]


def with_lock(item: Item) -> Item:
    return Item(item.number, item.key, hash_often(item.number))


@ab.declare(state="stateless")
def add_without_lock(total: int, item: Item) -> tuple[int, Item]:
    total = spin(total + item.number, ROUNDS)
    return total, Item(item.number, item.key, total)


def add_with_lock(total: int, item: Item) -> tuple[int, Item]:
    total = hash_often(total + item.number)
    return total, Item(item.number, item.key, total)


@ab.declare(state="stateless", push=(1, 1))
def pair_without_lock(left: Item, right: Item) -> Item:
    return Item(left.number, left.key, spin(left.number + right.number, ROUNDS))


def pair_with_lock(left: Item, right: Item) -> Item:
    return Item(left.number, left.key, hash_often(left.number + right.number))


class Work(NamedTuple):
    """What the operators of a case compute."""

    of_item: Any
    of_state: Any
    of_pair: Any
    of_round: Any


WORK = {
    "spark": Work(with_lock, add_with_lock, pair_with_lock, with_lock),
    "local": Work(without_lock, add_without_lock, pair_without_lock, without_lock),
}


def is_odd(item: Item) -> bool:
    return item.value % 2 == 1


def fan_out(on: str, items: Sequence[Item]) -> list[Result]:
    heavy = ab.from_iterable(items, Item).map(WORK[on].of_item, name="heavy")
    return [heavy.to_list(), heavy.filter(is_odd, name="odd").to_list()]


def join(on: str, items: Sequence[Item]) -> list[Result]:
    half = len(items) // 2
    left, right = (
        ab.from_iterable(some, Item) for some in (items[:half], items[half:])
    )
    into = WORK[on].of_pair
    pairs = left.join(right, on="key", left_window=1, right_window=1, into=into)
    return [pairs.to_list()]


def add_values(left: Item, right: Item) -> Item:
    return Item(left.number, left.key, left.value + right.value)


def twice(item: Item) -> Item:
    return Item(item.number, item.key, 2 * item.number)


def pairs(on: str, items: Sequence[Item]) -> list[Result]:
    stream = ab.from_iterable(items, Item)
    heavy = stream.map(WORK[on].of_item, name="heavy")
    light = stream.map(twice, name="light")
    return [ab.barrier(heavy, light, into=add_values).to_list()]


def rounds(on: str, items: Sequence[Item]) -> list[Result]:
    stream = ab.from_iterable(items[: len(items) // 4], Item)
    heavy = WORK[on].of_round
    return [stream.iterate(lambda s: s.map(heavy, name="heavy"), rounds=8).to_list()]


def skewed(on: str, items: Sequence[Item]) -> list[Result]:
    stream = ab.from_iterable(items, Item).key_by("key")
    return [stream.scan(WORK[on].of_state, 0, name="totals").to_list()]


def make_items(count: int) -> list[Item]:
    return [Item(n, f"k{n % KEYS}", 0) for n in range(count)]


def make_skewed_items(on: str, count: int) -> list[Item]:
    """Return items of which 80% have 1% of the keys, all of one channel of two."""
    names = [f"k{n}" for n in range(KEYS)]
    if on == "spark":
        table = deal_evenly(FINEST, 2)
        channels = [table[bucket_of(name, FINEST)] for name in names]
    else:
        even = split.even_table(2)
        channels = [even[split.bucket_of(name)] for name in names]
    hot = list(compress(names, (channel == 0 for channel in channels)))[: KEYS // 100]
    cold = [name for name in names if name not in hot]
    return [
        Item(n, cold[n // 5 % len(cold)] if n % 5 == 0 else hot[n % len(hot)], 0)
        for n in range(count)
    ]


def run(
    build: Callable[[str, Sequence[Item]], list[Result]],
    on: str,
    items: Sequence[Item],
    degree: int,
) -> float:
    """Return how long it takes once the workers are there."""
    more = {"epoch_items": len(items) // EPOCHS} if on == "spark" else {}
    job = ab.run(*build(on, items), on=on, degree=degree, verify="off", **more)
    found = job.metrics()
    return found.elapsed_s - found.start_s


def run_unbalanced(on: str, items: Sequence[Item]) -> float:
    """Run without moving keys; all else, the small first epoch too, is the same."""
    before = division.STANDS_OUT, key_watch.LEAST_ITEMS
    division.STANDS_OUT = key_watch.LEAST_ITEMS = math.inf  # type: ignore[assignment]
    try:
        return run(skewed, on, items, 2)
    finally:
        division.STANDS_OUT, key_watch.LEAST_ITEMS = before


BUILDS = {"fan-out": fan_out, "join": join, "pairs": pairs, "rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    known = ("fan-out", "join", "pairs", "rounds", "skew")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(known))
    parser.add_argument("--on", action="append", choices=("spark", "local"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--items", type=int, default=sized(40_000, 2000))
    parser.add_argument("--json", help="write the results to this file")
    asked = parser.parse_args()
    cases = asked.cases or known
    if unknown := set(cases).difference(known):
        parser.error(f"a case must be one of {', '.join(known)}; got {unknown}")
    results, claims = {}, []
    for on in asked.on or ("spark", "local"):
        if on == "spark":
            open_session("local[2]")
        for case in cases:
            if case == "skew":
                items = make_skewed_items(on, asked.items)
                sides = {
                    "slow": partial(run_unbalanced, on, items),
                    "fast": partial(run, skewed, on, items, 2),
                }
                name, least = f"{on}, skew: balanced over not", BALANCE
            else:
                build = BUILDS[case]
                items = make_items(asked.items)
                sides = {
                    side: partial(run, build, on, items, degree)
                    for side, degree in (("slow", 1), ("fast", 2))
                }
                name = f"{on}, {case}: two channels over one"
                least = IN_ROUNDS if case == "rounds" else CHANNELS
            times = interleaved(sides, asked.runs, warm_ups=1)
            results[name] = ratio(times["slow"], times["fast"])
            claims.append(claim(f"graphs: {name}", results[name], at_least=least))
    report("graphs", results, asked.json, claims=claims)


if __name__ == "__main__":
    main()
