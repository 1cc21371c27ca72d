"""Target: where nothing helps, the controller leaves at least 97% of the throughput.

    anabranch bench autopipe-floor

Programs in plain Python, which hold the interpreter's lock all the time: no thread helps.
Each is run on the sequential engine, in one thread of the local engine without a
controller, and left to the controller until that has settled; in turn, anew each time.
Then items are counted for a second. What one thread is worth differs from start to start,
so it is run twice in each turn: the mean is what the others are compared with, and what
the two differ from each other is what a difference must exceed to mean something. The
paper: "never" worse, by taking back what does not help (section 5).
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import anabranch as ab
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, claim, ratio, report, sized

TURNS = 11
WARM_S, COUNTED_S, WATCH_S = 0.4, 1.0, 20.0
QUIET = "settled", "undo", "look for garbage"  # steps that are no changes to try
WORDS = ("stream", "program", "thread", "port", "queue", "lock", "core", "item")


def numbers() -> ab.Result:
    """Return a chain of eight small calculations."""
    stream = ab.generate(itertools.count, int, name="read")
    for number in range(8):
        stream = stream.map(calculated, name=f"o{number}")
    return stream.for_each(_forget, name="out")


def calculated(item: int) -> int:
    for _ in range(20):
        item = (item * 7 + 3) & 0xFFFF
    return item


def totals() -> ab.Result:
    """Return sums in a row, each with one state for all items."""
    stream = ab.generate(itertools.count, int, name="read")
    for number in range(4):
        stream = stream.scan(added, 0, name=f"o{number}")
    return stream.for_each(_forget, name="out")


def added(total: int, item: int) -> tuple[int, int]:
    for _ in range(40):
        total = (total + item) & 0xFFFF
    return total, total


def texts() -> ab.Result:
    """Return words in other letters, numbered."""
    stream = ab.generate(lines, str, name="read")
    words = stream.flat_map(str.split, name="words").map(str.title, name="titles")
    counted = words.scan(numbered, 0, name="number")
    return counted.for_each(_forget, name="out")


def lines() -> Iterator[str]:
    return itertools.cycle(" ".join(WORDS[n:] + WORDS[:n]) for n in range(8))


def numbered(count: int, word: str) -> tuple[int, tuple[int, str]]:
    return count + 1, (count, word)


def _forget(_: Any) -> None:
    """Do nothing with an item."""


PROGRAMS = {"numbers": numbers, "totals": totals, "texts": texts}
SIDES: dict[str, dict[str, Any]] = {
    "sequential engine": {"on": "sequential"},
    "one thread": {"on": "local", "degree": 1},
    "automatic": {"on": "local"},
    "one thread again": {"on": "local", "degree": 1},
}


def rate(made: Callable[[], ab.Result], side: str) -> tuple[float, list[str]]:
    """Return the items a second once the program has settled, and what was done to it."""
    job = ab.start(made(), **SIDES[side])
    time.sleep(WARM_S)
    until_s = time.perf_counter() + WATCH_S
    while side == "automatic" and time.perf_counter() < until_s:
        if any(step.what == "settled" for step in job.history):
            break
        time.sleep(0.05)
    before, began_s = _read(job), time.perf_counter()
    time.sleep(sized(COUNTED_S, 0.2))
    found = (_read(job) - before) / (time.perf_counter() - began_s)
    job.stop()
    job.wait()
    return found, [f"{step.what}: {step.why}; {step.effect}" for step in job.history]


def _read(job: ab.Job) -> int:
    return sum(job.metrics().read.values())


def told(name: str, rates: Mapping[str, Sequence[float]]) -> list[Claim]:
    """Return the claims about a program."""
    twice = rates["one thread"], rates["one thread again"]
    one = [*map(statistics.fmean, zip(*twice, strict=True))]
    itself = "one thread over itself: {ratio} ({low} to {high})".format_map(
        ratio(*twice)
    )
    paper = "what does not help is taken back (section 5)"
    return [
        claim(
            f"{name}: automatic, settled, over {side}",
            ratio(rates["automatic"], under),
            paper=paper,
            at_least=0.97,
            remark=remark,
        )
        for side, under, remark in (
            ("the sequential engine", rates["sequential engine"], ""),
            ("one thread", one, itself),
        )
    ]


def main() -> None:
    rows, claims, results = [], [], {}
    for name, made in PROGRAMS.items():
        rates: dict[str, list[float]] = {side: [] for side in SIDES}
        done: list[str] = []
        order = list(SIDES)
        for _ in range(sized(TURNS, 1)):
            for side in order:
                one, steps = rate(made, side)
                rates[side].append(one)
                done += steps
            order = [*order[1:], order[0]]
        results[name] = {"rates": rates, "history": done}
        medians = [statistics.median(found) for found in rates.values()]
        tried = sum(not step.startswith(QUIET) for step in done)
        rows.append([name, *medians, tried])
        claims += told(name, rates)
    head = ["program", *SIDES, "changes tried in all turns"]
    table = Table("items a second where nothing helps", head, rows)
    for name, found in results.items():
        print(name, *sorted(set(found["history"])), sep="\n  ")
    report("floor", results, claims=claims, tables=[table])
    lines_of = {
        side: (range(len(rows)), [row[1 + n] / row[2] for row in rows])
        for n, side in enumerate(SIDES)
    }
    plot(
        "autopipe_floor",
        lines_of,
        x="program",
        y="throughput over one thread",
        ticks=list(PROGRAMS),
    )


ab.trust(__name__)


if __name__ == "__main__":
    main()
