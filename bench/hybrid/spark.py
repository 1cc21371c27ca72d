"""Blocks on Spark: the 8x8 cosine transform in two tasks over one, in Python.

The session is up before; times are those of the epochs. Target: at least 1.5, since
each task has half of the squares, and reading and placing them is not shared.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import anabranch as ab
from anabranch.engines.spark.session import open_session
from anabranch.runtime.compiled.program import WHEN_VARIABLE
from bench.harness.timing import claim, ratio, report, sized
from bench.hybrid.programs import dct

ITEMS = 64 * 16_000


def added(square: list[float]) -> list[float]:
    """Return the sum of a square, so that little goes to the driver."""
    total = 0.0
    for x in square:
        total += x
    return [total]


def ran(items: int, degree: int) -> tuple[float, list[float]]:
    """Return how long the epochs took, and the result."""
    source = ab.from_iterable([float(n * 7919 % 256) for n in range(items)], float)
    sink = dct(source).block(added, pop=64, push=1).to_list()
    job = ab.run(sink, on="spark", degree=degree, epoch_items=items // 2 + 7)
    return sum(job.metrics().epoch_s), sink.items


def main() -> None:
    found = (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, found))  # of all workers
    os.environ[WHEN_VARIABLE] = "never"
    session = open_session("local[2]")
    items = sized(ITEMS, 6400)
    results = {degree: ran(items, degree)[1] for degree in (1, 2)}
    assert results[1] == results[2]
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(sized(5, 2)):
        for degree, series in times.items():
            series.append(ran(items, degree)[0])
    session.stop()
    medians = {f"{d} tasks, s": round(statistics.median(times[d]), 2) for d in times}
    made = claim(
        "blocks in two tasks over one", ratio(times[1], times[2]), at_least=1.5
    )
    report("hybrid-spark", medians, claims=[made])


if __name__ == "__main__":
    main()
