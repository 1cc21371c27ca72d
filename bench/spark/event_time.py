"""What a clock costs, what closing windows costs, and that forgotten keys leave nothing.

    anabranch bench spark/event_time [clock] [closing] [forgetting] [--on local] [--runs N]

- *clock*: keyed windows by time behind `event_time`, over the same without it: at most 1.15.
  In Python (a function of the items) and with named columns, which run in columns without a clock.
- *closing*: 1,000,000 keys hold a window each and 1% of them close in an epoch, over 10,000
  keys that hold only the windows that close, as many in an epoch: at most 1.5.
- *forgetting*: each of 200 epochs brings new keys with `forget_after`; what the workers and
  the checkpoint hold at the end, over what they held after 50: at most 1.2.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness.timing import Claim, claim, interleaved, ratio, report, sized
from bench.spark.state import workers_mib

CLOCK, CLOSING, FLAT = 1.15, 1.5, 1.2
FEW, MANY = 10_000, 1_000_000
GROUPS = 100  # of keys, whose windows close one after the other
CLOSED = 12  # of the groups: each in an epoch of its own
LENGTH = 1000  # of a window
EARLY = 50  # epochs


class Event(NamedTuple):
    ts: int
    key: int


def spread(events: list[Event]) -> tuple[int, int]:
    return events[0].key, len(events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = ["clock", "closing", "forgetting"]
    parser.add_argument("what", nargs="*", default=parts, help=", ".join(parts))
    parser.add_argument("--on", default="spark", help="of clock alone")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--items", type=int, default=sized(1_000_000, 20_000))
    parser.add_argument("--keys", type=int, default=sized(MANY, 20_000))
    parser.add_argument("--epochs", type=int, default=sized(200, 60))
    given = parser.parse_args()
    if given.on == "spark" or {"closing", "forgetting"} & {*given.what}:
        open_session("local[2]")
    measures = {"clock": measure_clock, "closing": measure_closing}
    measures["forgetting"] = measure_forgetting
    for what in given.what:
        results, claims = measures[what](given)
        name = "event_time" if what == "clock" else what
        report(name, results, claims=claims)


Measured: TypeAlias = tuple[dict[str, Any], list[Claim]]


def measure_clock(given: argparse.Namespace) -> Measured:
    """Return how much longer windows take with a clock."""
    results: dict[str, Any] = {}
    claims = []
    for how in ("function", "columns"):
        sides = {
            name: partial(run_windows, given.items, how, given.on, clock=clock)
            for name, clock in (("with", True), ("without", False))
        }
        times = interleaved(sides, repetitions=given.runs)
        found = ratio(times["with"], times["without"])
        what = f"{how}: windows with a clock over without, {given.on}"
        results[what] = found
        claims.append(claim(what, found, at_most=CLOCK))
    return results, claims


def measure_closing(given: argparse.Namespace) -> Measured:
    """Return how much longer epochs take that close windows of many keys."""
    few = given.keys // GROUPS
    spent: dict[int, list[float]] = {few: [], given.keys: []}
    for _ in range(given.runs):
        for keys, found_s in spent.items():
            found_s.append(close_windows(keys, given.keys))
    found = ratio(spent[given.keys], spent[few])
    what = f"{given.keys:,} keys over {few:,}, {few:,} windows close in an epoch"
    results = {what: found, "ms an epoch": {k: _ms(s) for k, s in spent.items()}}
    return results, [claim(what, found, at_most=CLOSING)]


def measure_forgetting(given: argparse.Namespace) -> Measured:
    """Return how much more workers and checkpoint hold after many epochs."""
    held = forget_keys(given.epochs)
    claims = [
        claim(f"{what}: last over early", ratio([late], [max(early, 1)]), at_most=FLAT)
        for what, (early, late) in held.items()
    ]
    return dict(held), claims


def _ms(seconds: list[float]) -> list[int]:
    return sorted(round(1000 * s) for s in seconds)


def run_windows(items: int, how: str, on: str, *, clock: bool) -> None:
    stream = ab.from_iterable([Event(n, n % 997) for n in range(items)], Event)
    stream = stream.event_time("ts", lateness=100) if clock else stream
    windows = stream.key_by("key").window(time=20 * LENGTH, on="ts")
    counted = (
        windows.aggregate(spread)
        if how == "function"
        else windows.aggregate(key=ab.any("key"), n=ab.count(), last=ab.max("ts"))
    )
    ab.run(counted.for_each(ignore), on=on, degree=2)


def ignore(_: Any) -> None:
    """Take an output."""


def close_windows(keys: int, windows: int) -> float:
    """Return what an epoch takes that closes one of the groups of windows.

    First all windows are opened; then the clock moves on, group by group. Keys that are
    no more than close in an epoch have a window in each group that closes.
    """
    per_group = windows // GROUPS
    groups = 1 if keys == windows else CLOSED
    opened = [
        Event((key % GROUPS if groups == 1 else group) * LENGTH, key)
        for group in range(groups)
        for key in range(keys)
    ]
    late = (GROUPS + 1) * LENGTH
    closing = [
        Event(late + (group + 1) * LENGTH if n == 0 else -1, -1)
        for group in range(CLOSED)
        for n in range(per_group)
    ]
    events = ab.from_iterable(opened + closing, Event).filter(lambda e: e.ts >= 0)
    clocked = events.event_time("ts", lateness=late)
    counted = clocked.key_by("key").window(time=LENGTH, on="ts").aggregate(spread)
    job = ab.run(counted.for_each(ignore), on="spark", epoch_items=per_group)
    return statistics.median(job.metrics().epoch_s[-10:])


def forget_keys(epochs: int) -> dict[str, tuple[int, int]]:
    """Return what workers and the checkpoint hold after some epochs, and at the end."""
    per_epoch = 1000
    events = [Event(n, n) for n in range(per_epoch * epochs)]
    clocked = ab.from_iterable(events, Event).event_time("ts")
    keyed = clocked.key_by("key", forget_after=5 * per_epoch)
    counted = keyed.scan(lambda n, event: (n + 1, (event.key, n + 1)), 0)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"on": "spark", "epoch_items": per_epoch}
        job = ab.start(counted.for_each(ignore), checkpoint=folder, **options)
        early = None
        while not job.wait(timeout=0.05):
            if early is None and job.metrics().epochs >= EARLY:
                early = workers_mib(), _kib(Path(folder))
        late = workers_mib(), _kib(Path(folder))
    before = early or late
    return {
        f"MiB of the workers after {EARLY} and {epochs} epochs": (before[0], late[0]),
        f"KiB of the checkpoint after {EARLY} and {epochs}": (before[1], late[1]),
    }


def _kib(folder: Path) -> int:
    return (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >> 10
    )


if __name__ == "__main__":
    main()
