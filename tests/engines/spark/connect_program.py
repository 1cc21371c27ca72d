"""Cases for `test_connect_server.py`, run by a client of a Spark Connect server.

python -m tests.engines.spark.connect_program URL FOLDER CASE...

For each case it prints a line of JSON: the name, and the outputs on Connect and those of
the sequential engine, or another pair that must be equal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import AnabranchError

ITEMS = 3_000
FAILING = 1_234


class Trade(NamedTuple):
    symbol: str
    price: float
    at: int


class Quote(NamedTuple):
    symbol: str
    bid: float


TRADES = [Trade(f"s{n % 7}", float(n * 31 % 113), n) for n in range(ITEMS)]
QUOTES = [Quote(f"s{n % 7}", n / 4) for n in range(ITEMS)]


def add(total: float, trade: Trade) -> tuple[float, tuple[str, float]]:
    return total + trade.price, (trade.symbol, total + trade.price)


def double(trade: Trade) -> Trade:
    return trade._replace(price=trade.price * 2)


def divide(trade: Trade) -> float:
    return 1 / (trade.at - FAILING)


def sleep_for_ever(trade: Trade) -> Trade:
    time.sleep(3600)
    return trade


def programs() -> list[Any]:
    """Return the sinks of one of each: stateless, keyed state, windows, a join."""
    trades, quotes = ab.from_iterable(TRADES, Trade), ab.from_iterable(QUOTES, Quote)
    by_symbol = trades.key_by("symbol")
    pairs = by_symbol.join_latest(quotes.key_by("symbol"), on="symbol")
    return [
        trades.map(double).filter(lambda trade: trade.at % 3 > 0).to_list(),
        by_symbol.scan(add, 0.0).to_list(),
        by_symbol.window(time=50, on="at").aggregate(total=ab.sum("price")).to_list(),
        trades.window(count=100).aggregate(len).to_list(),
        pairs.map(lambda pair: (pair[0].at, pair[1].bid)).to_list(),
    ]


def run(make: Callable[[], list[Any]], **options: Any) -> list[Any]:
    sinks = make()
    ab.run(*sinks, **options)
    return [sink.items for sink in sinks]


def compare(make: Callable[[], list[Any]], **options: Any) -> tuple[Any, Any]:
    ran = run(make, on="spark", **options)
    return ran, run(make, on="sequential")


def run_programs(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    return compare(programs, epoch_items=700)


def run_with_checkpoint(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    return compare(programs, epoch_items=700, checkpoint=str(folder / "checkpoint"))


def run_stateless(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    return compare(lambda: [ab.from_iterable(TRADES, Trade).map(double).to_list()])


def run_in_parts(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    """Let the tasks of a chain be cut, as the throughput controller does."""

    def make() -> list[Any]:
        trades = ab.from_iterable(TRADES, Trade)
        return [trades.map(double, name="one").map(double, name="two").to_list()]

    (sink,) = make()
    job = ab.start(sink, on="spark", epoch_items=500)
    job._running.set_cuts(["two"])
    job.wait()
    return [sink.items], run(make, on="sequential")


def refuse_state(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    """A state without a checkpoint, on hosts that nobody knows."""
    try:
        run(programs, on="spark")
    except AnabranchError as error:
        return "does not name the hosts" in str(error), "\n" not in str(error)
    return "not refused", ""


def resume(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    """Stop a job with a checkpoint after an epoch; the next run completes it."""
    files = {on: str(folder / f"{on}.csv") for on in ("spark", "sequential")}

    def write(path: str) -> Any:
        sums = ab.from_iterable(TRADES, Trade).key_by("symbol").scan(add, 0.0)
        return sums.map(lambda pair: f"{pair[0]} {pair[1]}", type=str).write_csv(path)

    options = {"checkpoint": str(folder / "resumed"), "epoch_items": 300}
    job = ab.start(write(files["spark"]), on="spark", **options)
    while job.metrics().epochs < 2:
        time.sleep(0.05)
    job.stop()
    before = sum(job.metrics().read.values())
    assert job.status == "stopped"
    assert 0 < before < ITEMS
    after = ab.run(write(files["spark"]), on="spark", **options)
    assert sum(after.metrics().read.values()) <= ITEMS
    ab.run(write(files["sequential"]), on="sequential")
    return _read(files["spark"]), _read(files["sequential"])


def _read(path: str) -> str:
    found = Path(path)
    parts = sorted(found.glob("*.csv")) if found.is_dir() else [found]
    lines = [part.read_text().splitlines() for part in parts]
    head = lines[0][:1]
    return "\n".join(head + [row for some in lines for row in some if [row] != head])


def stop_hung(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    """A job whose operator does not return is cancelled, and it is named."""
    sink = ab.from_iterable(TRADES, Trade).map(sleep_for_ever, name="sleeper").to_list()
    job = ab.start(sink, on="spark")
    while not job.metrics().epoch_rows:
        time.sleep(0.05)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        job.stop(grace_s=3)
    named = any("sleeper" in str(one.message) for one in told)
    return [job.status, named, sink.items], ["stopped", True, []]


def fail(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    def tell(on: str) -> str:
        sink = ab.from_iterable(TRADES, Trade).map(divide).to_list()
        try:
            ab.run(sink, on=on, epoch_items=500)
        except AnabranchError as error:
            return f"{len(sink.items)} items; {type(error).__name__}: {error}"
        return "it did not fail"

    return tell("spark"), tell("sequential")


def lose_a_worker(_: SparkSession, folder: Path) -> tuple[Any, Any]:
    """A worker that is killed is replaced, and its epoch runs again."""
    killed = folder / "killed"

    def make() -> list[Any]:
        marker = str(killed)

        def die_once(trade: Trade) -> Trade:
            if trade.at == ITEMS // 2 and not os.path.exists(marker):  # noqa: PTH110
                with open(marker, "w"):  # noqa: PTH123
                    os.kill(os.getpid(), signal.SIGKILL)
            return trade

        one = ab.declare(state="stateless")(die_once)
        return [ab.from_iterable(TRADES, Trade).map(one).to_list()]

    ran = run(make, on="spark", epoch_items=500)
    return [ran, killed.exists()], [run(make, on="sequential"), True]


def read_and_write_frames(spark: SparkSession, folder: Path) -> tuple[Any, Any]:
    frame = spark.range(0, 100, 1, 3).selectExpr("id", "id * 2 as twice")
    rows: list[int] = []

    def take(made: Any, _: int) -> None:
        rows.extend(row[0] for row in made.collect())

    sums = ab.from_spark(frame).map(lambda row: row.id + row.twice, type=int)
    sink = sums.to_list()
    ab.run(sink, sums.to_spark(take), on="spark")
    return [sink.items, rows], [[3 * n for n in range(100)]] * 2


def refuse_streaming_frame(spark: SparkSession, folder: Path) -> tuple[Any, Any]:
    frame = spark.readStream.format("rate").load()
    try:
        ab.run(ab.from_spark(frame).to_list(), on="spark")
    except AnabranchError as error:
        return "foreachBatch on its server" in str(error), "\n" not in str(error)
    return "not refused", ""


CASES = {
    made.__name__: made
    for made in (
        *(run_programs, run_with_checkpoint, run_stateless, run_in_parts, resume),
        *(stop_hung, fail, lose_a_worker, read_and_write_frames),
        *(refuse_streaming_frame, refuse_state),
    )
}


def main(url: str, folder: str, *cases: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    for name in cases:
        own = Path(folder) / name
        own.mkdir(parents=True, exist_ok=True)
        try:
            ran, expected = CASES[name](spark, own)
        except Exception as error:  # noqa: BLE001 - a case more than one test tells
            ran, expected = f"{type(error).__name__}: {error}", "no error"
        sys.stdout.write(json.dumps([name, ran, expected]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
