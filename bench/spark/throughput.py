"""Throughput on Spark, end to end from a CSV file to an ordered CSV, in steady state.

    anabranch bench spark/throughput chain|vwap|window|heavy|mixed
        [--rows N] [--runs N] [--parquet] [--skip-by-hand]
        [--by-hand-rows N] [--by-hand-runs N]

Sides, measured in turn in one run: this engine; the job as two plain Python processes
over half of the input each (no order, no recovery, keys split by hand: an upper bound
for Python on two cores); then the job written by hand in PySpark (`--by-hand-rows`, once
after a warm-up: it is slow; rates are compared, and what it writes is checked, as far as
it keeps an order). With `--parquet` files are Parquet, and plain processes read
and write them by Arrow. `heavy` compares degree 2 with degree 1 as well. What we write
must be what one plain process writes, byte by byte. The session is up before. What a job
takes to start and its first epoch are part of our rates, and reported apart; the rate
without them is the steady state.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness import trades, trades_parquet
from bench.harness.timing import Claim, claim, interleaved, ratio, report
from bench.harness.trades import JOBS, Trade, find_row, make_trades, plain
from bench.harness.trades_parquet import make_parquet, plain_parquet, why_different
from bench.spark import handwritten

ROWS = dict.fromkeys(JOBS, 2_000_000) | {"heavy": 200_000}
OURS = "anabranch"
METRICS: list[ab.Metrics] = []  # of our runs with degree 2
WARM_UPS = 3  # measured: the rate still rises in the second and the third run
BY_HAND_ROWS = 1_000_000  # some seconds to start a query do not count there
BY_HAND: dict[str, dict[str, Callable[..., None]]] = {
    "chain": {"four mapInPandas": handwritten.chain},
    "vwap": {
        "applyInPandasWithState": handwritten.vwap_with_state,
        "transformWithState": handwritten.vwap_transform,
    },
    "window": {
        "applyInPandasWithState": handwritten.window_with_state,
        "transformWithState": handwritten.window_transform,
    },
    "heavy": {},
    "mixed": {},
}
AT_LEAST = {  # over each other side
    ("chain", "two processes"): 2.5,
    ("chain", "four mapInPandas"): 10.0,
    ("vwap", "two processes"): 2.5,
    ("vwap", "applyInPandasWithState"): 35.0,
    ("vwap", "transformWithState"): 35.0,
    ("window", "two processes"): 2.5,
    ("window", "applyInPandasWithState"): 35.0,
    ("window", "transformWithState"): 35.0,
    ("heavy", "two processes"): 0.9,
    ("mixed", "two processes"): 1.0,
    ("heavy", "anabranch, degree 1"): 1.7,
}
MANY_ROWS = 10_000_000  # from here on the fixed cost of epochs does not count
AT_LEAST_OF_MANY = 4.0  # over two processes; the aim is 6
AT_LEAST_OF_PARQUET = 8.0  # over two processes that use Arrow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--skip-by-hand", action="store_true")
    parser.add_argument("--by-hand-rows", type=int, default=BY_HAND_ROWS)
    parser.add_argument("--by-hand-runs", type=int, default=1)
    parser.add_argument("--parquet", action="store_true")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    job = arguments.job
    rows = arguments.rows or ROWS[job]
    folder = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    found = (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, found))  # of all workers
    os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning"  # of PySpark about pandas
    try:
        source = make_trades(folder / "trades.csv", rows)
        if arguments.parquet:
            source = make_parquet(source)
        spark = open_session("local[2]")
        # Where the second one begins: a row, or a byte of a text.
        middle = rows // 2 if arguments.parquet else find_row(source, rows // 2)
        sides = {
            OURS: partial(ours, job, source, folder, 2),
            "two processes": partial(two_processes, job, source, rows, middle, folder),
        }
        counts = dict.fromkeys(sides, rows)
        if job == "heavy":
            sides["anabranch, degree 1"] = partial(ours, job, source, folder, 1)
            counts["anabranch, degree 1"] = rows
        times = interleaved(sides, arguments.runs, warm_ups=WARM_UPS)
        if job != "heavy" and not (arguments.skip_by_hand or arguments.parquet):
            (folder / "some").mkdir()  # a streaming source reads nothing else
            slow = arguments.by_hand_rows
            some = make_trades(folder / "some" / "trades.csv", slow)
            for name in BY_HAND[job]:
                found = time_by_hand(job, name, spark, some, arguments.by_hand_runs)
                times[name] = (found * arguments.runs)[: len(times[OURS])]
                counts[name] = slow
        rates = {
            name: [counts[name] / seconds for seconds in found]
            for name, found in times.items()
        }
        whole = folder / f"whole{source.suffix}"
        alone = plain_parquet if arguments.parquet else plain
        alone(job, source, 0, rows, whole)
        if (why := why_different(whole, folder / "ours")) is not None:
            raise SystemExit(why)
        kind = f"{job}, Parquet" if arguments.parquet else job
        results, claims = compared(kind, rates, METRICS[-arguments.runs :], counts)
        name = f"{kind}, {rows:,} trades" if rows >= MANY_ROWS else kind
        report(name, results, arguments.json, claims=claims)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compared(
    job: str,
    rates: dict[str, list[float]],
    metrics: list[ab.Metrics],
    counts: dict[str, int],
) -> tuple[dict[str, Any], list[Claim]]:
    """Return the rates, and what ours is over each of the others."""
    rows = counts[OURS]
    others = {name: found for name, found in rates.items() if name != OURS}
    sides = {OURS: rates[OURS]}
    if all(found.epochs > 1 for found in metrics):
        sides[f"{OURS} in steady state"] = [steady_rate(found) for found in metrics]
    results: dict[str, Any] = {
        f"tuples/s, {name}": sorted(round(rate) for rate in found)
        for name, found in (others | sides).items()
    }
    results["s to start, and of the first epoch (part of the rates)"] = [
        (round(found.start_s, 2), round(found.epoch_s[0], 2)) for found in metrics
    ]
    claims = [
        claim(
            f"{job}, {rows:,} trades: {our_name} over {name}",
            ratio(our_rates, found),
            at_least=least(job, name, rows),
            remark=f"by hand: {counts[name]:,} trades" if counts[name] != rows else "",
        )
        for our_name, our_rates in sides.items()
        for name, found in others.items()
    ]
    return results, claims


def least(job: str, name: str, rows: int) -> float:
    """Return how many times as fast as another side ours should be."""
    if job.endswith("Parquet"):
        return AT_LEAST_OF_PARQUET
    heavy = job in ("heavy", "mixed")
    if name == "two processes" and not heavy and rows >= MANY_ROWS:
        return AT_LEAST_OF_MANY
    return AT_LEAST[job, name]


def steady_rate(metrics: ab.Metrics) -> float:
    """Return the tuples a second of a run after its first epoch."""
    later_s = metrics.elapsed_s - metrics.start_s - metrics.epoch_s[0]
    rate: float = sum(metrics.epoch_items[1:]) / later_s
    return rate


def ours(job: str, source: Path, folder: Path, degree: int) -> None:
    target = folder / "ours"
    shutil.rmtree(target, ignore_errors=True)
    if source.suffix == ".parquet":
        stream = JOBS[job](ab.read_parquet(str(source), Trade))
        sink = stream.write_parquet(str(target))
    else:
        sink = JOBS[job](ab.read_csv(str(source), Trade)).write_csv(str(target))
    found = ab.run(sink, on="spark", degree=degree).metrics()
    if degree > 1:
        METRICS.append(found)


def two_processes(job: str, source: Path, rows: int, middle: int, folder: Path) -> None:
    half = rows // 2
    by_arrow = source.suffix == ".parquet"
    script = trades_parquet.__file__ if by_arrow else trades.__file__
    halves = [(0, half), (middle, rows - half)]
    started = [
        subprocess.Popen(
            [
                sys.executable,
                script,
                job,
                str(source),
                str(start),
                str(count),
                str(folder / f"plain-{start}{source.suffix}"),
            ]
        )
        for start, count in halves
    ]
    for process in started:
        if process.wait() != 0:
            msg = "a plain process failed"
            raise RuntimeError(msg)


def why_other_rows(job: str, source: Path, target: Path) -> str | None:
    """Return why a job by hand has written other rows than it should, or None.

    It keeps no order of a key, so only the chain has the same values for certain. A
    stream by hand has no end, so windows that are not full are missing.
    """
    written = Counter(
        tuple(row)
        for part in sorted(target.glob("part*"))
        for row in csv.reader(part.open())
        if row[0] != "ts"
    )
    if job == "window":
        with source.open() as file:
            trades = Counter(row[1] for row in csv.reader(file) if row[0] != "ts")
        full = Counter({symbol: count // 100 for symbol, count in trades.items()})
        found = Counter(symbol for _, symbol, _ in written.elements())
        return None if +full == found else f"{target} has other windows"
    expected = target.with_suffix(".expected")
    plain(job, source, 0, sys.maxsize, expected)
    with expected.open() as file:
        rows = Counter(tuple(row) for row in csv.reader(file) if row[0] != "ts")
    if job == "vwap":
        written, rows = (
            Counter(row[:2] for row in one.elements()) for one in (written, rows)
        )
    return None if rows == written else f"{target} has other rows"


def time_by_hand(
    job: str, name: str, spark: object, source: Path, runs: int
) -> list[float]:
    """Return what runs of a job by hand take; check what the last one has written."""
    target = source.parent.parent / "by-hand"

    def run() -> None:
        for used in (target, Path(f"{target}.checkpoint")):
            shutil.rmtree(used, ignore_errors=True)
        BY_HAND[job][name](spark, source.parent, target)

    found = interleaved({name: run}, runs, warm_ups=1)[name]
    if (why := why_other_rows(job, source, target)) is not None:
        msg = f"{name}: {why}"
        raise SystemExit(msg)
    return found


if __name__ == "__main__":
    main()
