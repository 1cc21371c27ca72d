"""Large programs and streams: many keys, a long window, a hot key, many operators, a slow sink.

    anabranch bench local/load [keys] [window] [hot] [operators] [sink] [--on spark] [--part N]

- *keys*: a keyed count of 10,000,000 keys, each of which occurs twice.
- *window*: one window of 1,000,000 items.
- *hot*: one key has 90% of 2,000,000 items.
- *operators*: a chain of 1,000 operators with a function each.
- *sink*: a sink that is slower than the source. Its peak memory with ten times the items
  over that with one: at most 1.2, since what waits for the sink is bounded.

Each part is a process of its own, checks its result by arithmetic, and reports its CPU
seconds and peak memory, on Spark with its processes. `--part N` divides the sizes by N.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import anabranch as ab
from bench.harness.timing import Claim, Table, quick, report

SIZES = {"keys": 10_000_000, "window": 1_000_000, "hot": 2_000_000}
OPERATORS, OPERATOR_ITEMS = 1_000, 1_000
SLOW_ITEMS, SLOWNESS_S = 500_000, 0.02  # for each thousand items
SMALL = 200  # part of the sizes, in a quick run


class Event(NamedTuple):
    key: int
    n: int


def count(seen: int, _: Event) -> tuple[int, int]:
    return seen + 1, seen + 1


def give_keys(keys: int) -> Iterator[Event]:
    for _ in range(2):
        for key in range(keys):
            yield Event(key, key)


def give_hot(items: int) -> Iterator[Event]:
    for n in range(items):
        yield Event(0 if n % 10 else n, n)


def add(n: int, value: int) -> int:
    return value + n


class Sum:
    """A sink that sums what it gets; it waits for each thousandth item if it is slow."""

    def __init__(self, slowness_s: float = 0.0) -> None:
        self.total = self.items = 0
        self._slowness_s = slowness_s

    def __call__(self, value: int) -> None:
        self.total += value
        self.items += 1
        if self._slowness_s and not self.items % 1000:
            time.sleep(self._slowness_s)


def run(stream: ab.Stream, on: str, sink: Sum) -> Sum:
    ab.run(stream.for_each(sink), on=on, degree=2)
    return sink


def run_keys(on: str, keys: int) -> bool:
    events = ab.generate(partial(give_keys, keys), Event)
    found = run(events.key_by("key").scan(count, 0), on, Sum())
    return (found.items, found.total) == (2 * keys, 3 * keys)


def run_window(on: str, items: int) -> bool:
    lengths = ab.from_iterable(range(items), int).window(count=items).aggregate(sum)
    found = run(lengths, on, Sum())
    return (found.items, found.total) == (1, items * (items - 1) // 2)


def run_hot(on: str, items: int) -> bool:
    events = ab.generate(partial(give_hot, items), Event)
    found = run(events.key_by("key").scan(count, 0), on, Sum())
    hot = items - (items + 9) // 10 + 1  # item 0 has the hot key too
    return found.total == hot * (hot + 1) // 2 + items - hot


def run_operators(on: str, operators: int) -> bool:
    stream = ab.from_iterable(range(OPERATOR_ITEMS), int)
    for n in range(operators):
        stream = stream.map(partial(add, n), name=f"add_{n}")
    found = run(stream, on, Sum())
    added = operators * (operators - 1) // 2
    return found.total == sum(range(OPERATOR_ITEMS)) + OPERATOR_ITEMS * added


def run_sink(on: str, items: int) -> bool:
    found = run(ab.from_iterable(range(items), int), on, Sum(SLOWNESS_S))
    return found.items == items


PARTS: dict[str, Callable[[str, int], bool]] = {
    "keys": run_keys,
    "window": run_window,
    "hot": run_hot,
    "operators": run_operators,
    "sink": run_sink,
}


def measure(part: str, on: str, size: int) -> dict[str, Any]:
    """Run a part in a process of its own."""
    command = [sys.executable, "-m", "bench.local.load", part, "--on", on]
    told = subprocess.run(
        [*command, "--size", str(size)], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


def measure_here(part: str, on: str, size: int) -> dict[str, Any]:
    right = PARTS[part](on, size)
    mine, theirs = map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {
        "part": part,
        "size": size,
        "right": right,
        "cpu_s": round(sum(u.ru_utime + u.ru_stime for u in (mine, theirs)), 1),
        "peak_mb": max(mine.ru_maxrss, theirs.ru_maxrss) // 1024,
    }


def main() -> None:
    """Run the parts that the command line names, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--on", default="local", choices=("local", "spark"))
    parser.add_argument("--part", type=int, default=SMALL if quick() else 1)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.size is not None:
        print(json.dumps(measure_here(asked.parts[0], asked.on, asked.size)))
        return
    sizes = SIZES | {"operators": OPERATORS, "sink": SLOW_ITEMS}
    chosen = asked.parts or list(PARTS)
    rows = [
        measure(one, asked.on, max(2, sizes[one] // asked.part))
        for one in chosen
        if one != "sink"
    ]
    claims = []
    if "sink" in chosen:
        few = max(2, SLOW_ITEMS // asked.part)
        rows += [measure("sink", asked.on, size) for size in (few, 10 * few)]
        grown = rows[-1]["peak_mb"] / rows[-2]["peak_mb"]
        claims.append(
            Claim(
                "peak memory before a slow sink, ten times the items over one",
                round(grown, 2),
                at_most=1.2,
            )
        )
    wrong = sum(not row["right"] for row in rows)
    claims.append(Claim("parts with a wrong result", wrong, at_most=0))
    table = Table(
        f"Load on {asked.on}",
        ("part", "size", "right", "CPU s", "peak MB"),
        [tuple(row.values()) for row in rows],
    )
    report(f"load, {asked.on}", {"rows": rows}, claims=claims, tables=[table])


if __name__ == "__main__":
    main()
