"""The driver's time for each item that goes to Kafka or Postgres on Spark.

    anabranch bench connectors/delivery [--rows N] [--runs N]

A file of trades, the running VWAP of each symbol, and a sink with a checkpoint: files,
which tasks have always written; Kafka and Postgres written by tasks; and both written by
the driver, as before (`in_workers` is off). Measured is the processor time of the
driver's Python process, its start left out, beyond that of the job that writes files. A
system that is not installed is left out; for Kafka, the broker of librdkafka will do.
Target: at most 0.1 microseconds an item if tasks write.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

import anabranch as ab
from anabranch.connectors.kafka import KafkaSink
from anabranch.connectors.postgres import PostgresSink
from anabranch.engines.spark.session import open_session
from anabranch.language.stream import Stream
from bench.harness.timing import Claim, Table, interleaved, report, sized
from bench.harness.trades import JOBS, Trade, make_trades
from tests.connectors.broker import Broker, KafkaServer, find_kafka
from tests.connectors.database import Database, NoServerError

AT_MOST_US = 0.1
MakeSink = Callable[[], ab.Sink]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=sized(500_000, 20_000))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="anabranch-delivery-"))
    (folder / "broker").mkdir()
    broker = KafkaServer(folder / "broker") if find_kafka() else Broker()
    try:
        database = Database()
    except NoServerError:
        database = None
    try:
        compare(broker, database, folder, given.rows, given.runs)
    finally:
        broker.stop()
        if database is not None:
            database.remove()
        shutil.rmtree(folder, ignore_errors=True)


def compare(
    broker: Broker, database: Database | None, folder: Path, rows: int, runs: int
) -> None:
    """Measure all sides in turn."""
    trades = folder / "trades.csv"
    make_trades(trades, rows)
    open_session("local[2]")
    numbers = itertools.count()

    def run(make: MakeSink | None, *, in_workers: bool) -> None:
        number = next(numbers)
        prices: Stream = JOBS["vwap"](ab.read_csv(trades, Trade))
        if make is None:
            written = prices.write_csv(folder / f"out-{number}")
        else:
            sink = make()
            sink.in_workers = in_workers
            written = prices.write(sink)
        ab.run(
            written, on="spark", degree=2, checkpoint=folder / f"checkpoint-{number}"
        )

    systems: dict[str, MakeSink] = {
        "Kafka": lambda: KafkaSink(broker.servers, broker.topic(), "jsonl", "symbol")
    }
    if database is not None:
        systems["Postgres"] = partial(make_table, database)
    sides: dict[str, Callable[[], None]] = {
        "files": partial(run, None, in_workers=True)
    }
    for system, make in systems.items():
        sides[f"{system}, tasks write"] = partial(run, make, in_workers=True)
        sides[f"{system}, the driver writes"] = partial(run, make, in_workers=False)
    took_s = interleaved(sides, runs, clock=time.process_time)
    tell(took_s, rows)


def make_table(database: Database) -> PostgresSink:
    """Return a sink that writes to a new table."""
    table = f"t_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database.dsn) as connection:
        connection.execute(
            f"CREATE TABLE {table} (ts bigint, symbol text, price float8)"
        )
    return PostgresSink(database.dsn, table)


def tell(took_s: dict[str, list[float]], rows: int) -> None:
    """Report the time for each item beyond that of files."""
    files_s = took_s.pop("files")
    beyond_us = {
        side: [1e6 * (s - f) / rows for s, f in zip(found, files_s, strict=True)]
        for side, found in took_s.items()
    }
    median_us = {side: statistics.median(found) for side, found in beyond_us.items()}
    claims = [
        Claim(
            f"time of the driver for an item, {rows:,} items: {side}",
            round(median_us[side], 3),
            round(min(found), 3),
            round(max(found), 3),
            unit="µs",
            at_most=AT_MOST_US if "tasks" in side else None,
            remark="beyond a job that writes files; processor time",
        )
        for side, found in beyond_us.items()
    ]
    shown = [(side, round(us, 3)) for side, us in median_us.items()]
    table = Table("processor time of the driver", ("side", "µs per item"), shown)
    report("delivery", dict(shown), claims=claims, tables=[table])


if __name__ == "__main__":
    main()
