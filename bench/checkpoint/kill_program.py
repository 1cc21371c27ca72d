"""The program that `bench/checkpoint/kill.py` kills: one run of it, as a driver of its own.

With `PYSPARK_GATEWAY_PORT` set the driver joins a JVM that is there already. Killed, it
leaves its Spark jobs running there, beside those of the next driver.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
from typing import NamedTuple

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.connectors.storage import Location, locate
from anabranch.epochs.checkpoint import directory as checkpoint_upkeep


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Total(NamedTuple):
    ts: int
    symbol: str
    total: float


class Numbered(NamedTuple):
    number: int
    symbol: str


def larger(trade: Trade) -> Trade:
    return trade._replace(volume=2 * trade.volume)


def add_up(total: float, trade: Trade) -> tuple[float, Total]:
    total += trade.price * trade.volume
    return total, Total(trade.ts, trade.symbol, total)


def number(count: int, trade: Trade) -> tuple[int, Numbered]:
    return count + 1, Numbered(count, trade.symbol)


def mean(trades: list[Trade]) -> Total:
    last = trades[-1]
    return Total(last.ts, last.symbol, sum(t.price for t in trades) / len(trades))


def sinks(trades: str, folder: str):
    """Stateless chain; keyed scan, global scan and keyed window; three file sinks."""
    place = locate(folder)
    chosen = ab.read_csv(trades, Trade).map(larger).filter(lambda t: t.volume > 4)
    totals = chosen.key_by("symbol").scan(add_up, 0.0)
    windows = chosen.key_by("symbol").window(count=7).aggregate(mean)
    return (
        totals.write_csv(str(place / "totals")),
        chosen.scan(number, 0).write_jsonl(str(place / "numbered.jsonl")),
        windows.write_csv(str(place / "windows.csv")),
    )


def write_trades(path: Location, rows: int) -> None:
    rng = random.Random(7)
    lines = ["ts,symbol,price,volume"]
    lines += [
        f"{ts},S{rng.randrange(40)},{rng.randrange(10_000) / 100},{rng.randrange(1, 9)}"
        for ts in range(rows)
    ]
    path.write_bytes(("\n".join(lines) + "\n").encode())


def contents(folder: Location) -> dict[str, bytes]:
    """Return what each sink holds; the parts of a directory, end to end."""
    parts = sorted((folder / "totals").glob("part-*.csv"))
    rows = [part.read_bytes().partition(b"\n") for part in parts]
    return {
        "totals": rows[0][0] + b"\n" + b"".join(row[2] for row in rows),
        "numbered": (folder / "numbered.jsonl").read_bytes(),
        "windows": (folder / "windows.csv").read_bytes(),
        "_SUCCESS": (folder / "totals" / "_SUCCESS").read_bytes(),
    }


def join_session() -> None:
    """Use the Spark session of the JVM that the environment names."""
    gateway = launch_gateway()
    spark = gateway.jvm.org.apache.spark
    java = spark.api.java.JavaSparkContext(spark.SparkContext.getOrCreate())
    conf = SparkConf(_jconf=java.getConf())
    SparkSession(SparkContext(gateway=gateway, jsc=java, conf=conf))


def drive() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trades")
    parser.add_argument("folder")
    parser.add_argument("checkpoint")
    parser.add_argument("--epoch-items", type=int, required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--degree", type=int, default=2)
    given = parser.parse_args()
    faulthandler.enable()  # the harness aborts a driver that does not come to an end
    checkpoint_upkeep.OLDEST = 2  # epochs: snapshots are to be killed at as well
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        join_session()
    ab.run(
        *sinks(given.trades, given.folder),
        checkpoint=given.checkpoint,
        epoch_items=given.epoch_items,
        degree=given.degree,
        master=given.master,
    )
    sys.stdout.flush()
    os._exit(0)  # the JVM is not ours to stop


if __name__ == "__main__":
    drive()
