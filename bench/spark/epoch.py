"""What a small epoch costs: 1,000 tuples through a stateless and a keyed program.

    anabranch bench spark/epoch [--runs N] [--epochs N]

The other side is the least that Structured Streaming asks for: a query whose
`foreachBatch` runs one `mapInArrow` over 1,000 rows and collects the result. Both sides
run in turn on one warm session; an epoch's time is the median over a run.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness.timing import claim, ratio, report
from bench.harness.trades import Trade, per_share, running_vwap

ROWS = 1_000
AT_MOST = {"stateless": 0.15, "keyed": 0.3}  # over the bare one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    spark = open_session("local[2]")
    sides: dict[str, Callable[[], list[float]]] = {
        "bare foreachBatch": lambda: bare(spark, arguments.epochs),
        "stateless": lambda: ours(stateless, arguments.epochs),
        "keyed": lambda: ours(keyed, arguments.epochs),
    }
    medians: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(arguments.runs + 1):
        for name, run in sides.items():
            times = run()
            if number:  # the first round warms up
                medians[name].append(statistics.median(times[3:]))
    found: dict[str, Any] = {
        f"ms an epoch, {name}": sorted(round(1000 * s) for s in seconds)
        for name, seconds in medians.items()
    }
    claims = []
    for name, at_most in AT_MOST.items():
        over = ratio(medians[name], medians["bare foreachBatch"])
        found[f"{name} over bare"] = over
        claims.append(claim(f"epoch: {name} over bare", over, at_most=at_most))
    report("epoch", found, arguments.json, claims=claims)


def trades(epochs: int) -> list[Trade]:
    return [
        Trade(n, f"S{n % 1000:04}", 100.0 + n % 7, 1 + n % 50)
        for n in range(ROWS * epochs)
    ]


def stateless(source: ab.Stream) -> ab.Stream:
    return source.map(per_share)


def keyed(source: ab.Stream) -> ab.Stream:
    return source.key_by("symbol").scan(running_vwap, (0.0, 0))


def ours(program: Callable[[ab.Stream], ab.Stream], epochs: int) -> list[float]:
    sink = program(ab.from_iterable(trades(epochs), Trade)).for_each(lambda _: None)
    job = ab.run(sink, on="spark", epoch_items=ROWS)
    return list(job.metrics().epoch_s)


def bare(spark: SparkSession, epochs: int) -> list[float]:
    """Return the times between the micro-batches of a query that does nothing."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    ends: list[float] = []

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def each(frame: DataFrame, _: int) -> None:
        frame.mapInArrow(same, frame.schema).toArrow()
        ends.append(time.perf_counter())

    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 2)
        .load()
    )
    query = (
        stream.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(folder))
        .trigger(processingTime="0 seconds")
        .start()
    )
    while len(ends) < epochs:
        time.sleep(0.01)
    query.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return [after - before for before, after in pairwise(ends)]


if __name__ == "__main__":
    main()
