"""Eight sequential operators in a row on Spark: with cuts over one worker.

    anabranch bench spark/cuts [--items N] [--runs N]

Each operator has a state without a key, so that nothing can be replicated, and 50
microseconds of plain Python. `by hand` has a cut in the middle, one worker for each of two
cores; `automatic` is tuned while it runs. The rate is that of the last half of the epochs.
The same work in one and in two bare processes says how much two cores can give here.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Collection

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness.timing import claim, ratio, report, sized

ROUNDS = 135  # about 50 microseconds
AT_LEAST = 1.7
NAMES = tuple(f"o{number}" for number in range(1, 9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=sized(100_000, 2_000))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    open_session("local[2]")
    seconds: dict[str, list[float]] = {"one worker": [], "by hand": [], "automatic": []}
    bare: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(arguments.runs):
        for name, took in seconds.items():
            cuts = {"one worker": (), "by hand": ("o5",)}.get(name)
            took.append(item_s(arguments.items, cuts))
        for processes, took in bare.items():
            took.append(bare_s(processes, arguments.items // 2) / processes)
    gains = {
        name: ratio(seconds["one worker"], seconds[name])
        for name in ("by hand", "automatic")
    }
    claims = [
        claim(f"eight sequential operators, {name}", gain, at_least=AT_LEAST)
        for name, gain in gains.items()
    ]
    found = {
        f"us an item, {name}": [round(1e6 * s) for s in took]
        for name, took in seconds.items()
    }
    bound = {"two bare processes over one": ratio(bare[1], bare[2])}
    report("cuts", {**found, **gains, **bound}, arguments.json, claims=claims)


def item_s(items: int, cuts: Collection[str] | None) -> float:
    """Return the time of an item; without `cuts` they are found while it runs."""
    stream = ab.from_iterable(range(items), int)
    for name in NAMES:
        stream = stream.scan(step, 0, name=name)
    sink = stream.for_each(lambda _: None)
    degree = None if cuts is None else 1
    job = ab.start(sink, on="spark", degree=degree, epoch_items=max(500, items // 20))
    if cuts is not None:
        job._running.set_cuts(cuts)  # noqa: SLF001 - what the controller would do
    job.wait()
    metrics = job.metrics()
    last = len(metrics.epoch_s) // 2
    return statistics.median(
        seconds / count
        for seconds, count in zip(
            metrics.epoch_s[last:], metrics.epoch_items[last:], strict=True
        )
        if count
    )


def bare_s(processes: int, items: int) -> float:
    """Return how long so many processes take, each for so many items of an operator."""
    with multiprocessing.Pool(processes) as pool:
        return max(pool.map(work, [items] * processes, chunksize=1))


def work(items: int) -> float:
    """Return how long an operator takes for so many items."""
    began_s = time.perf_counter()
    for item in range(items):
        step(0, item)
    return time.perf_counter() - began_s


def step(total: int, item: int) -> tuple[int, int]:
    """Count what has come by, and work on it for a while, in a way that is not compiled."""
    mixed = {item}
    for number in range(ROUNDS):
        mixed = {(one * 31 + number) & 0xFFFF for one in mixed}
    return total + 1, item + (min(mixed) & 1)


if __name__ == "__main__":
    main()
