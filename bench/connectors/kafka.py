"""Keyed running VWAP from Kafka to Kafka on Spark, over PySpark with its own connector.

    anabranch bench connectors/kafka [--rows N] [--runs N]

A broker of Kafka itself runs on this machine (`make packages`; ANABRANCH_SERVERS names
another folder). Trades are JSON, keyed by symbol, in two partitions. Ours: exactly once,
by transactions, with a checkpoint. By hand: structured streaming with
applyInPandasWithState, which always has a checkpoint, and sends at least once. Both must
give the same prices in the order of each symbol; of ours the order within each partition
is checked too. Target: 3 times as fast.

The jars of Spark's connector are those of a folder that ANABRANCH_SPARK_KAFKA names
(spark-sql-kafka-0-10, spark-token-provider-kafka-0-10, kafka-clients, commons-pool2), or
else fetched from Maven Central by the Ivy of PySpark, one by one: not every mirror has
the token provider of each version. There is no connector of Spark 4.3 there yet, so it is
that of 4.2; it runs with 4.3.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

import confluent_kafka
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness.timing import claim, interleaved, ratio, report
from bench.harness.trades import JOBS, SYMBOLS, Price, Trade, running_vwap
from bench.spark.handwritten import TRADE, keep_vwap
from tests.connectors.broker import KafkaServer, find_kafka

AT_LEAST = 3.0
PARTITIONS = 2
CONNECTOR = (  # none of 4.3 is out
    "org.apache.spark spark-sql-kafka-0-10_2.13 4.2.0",
    "org.apache.spark spark-token-provider-kafka-0-10_2.13 4.0.0",  # the last one found
    "org.apache.kafka kafka-clients 3.9.2",
    "org.apache.commons commons-pool2 2.13.1",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    if not find_kafka():
        msg = "this benchmark needs a Kafka server; `make packages` installs it"
        raise SystemExit(msg)
    root = (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, root))  # of all workers
    os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning"  # of PySpark about pandas
    folder = Path(tempfile.mkdtemp(prefix="anabranch-kafka-"))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {find_jars(folder)} pyspark-shell"
    (folder / "broker").mkdir()
    broker = KafkaServer(folder / "broker")
    try:
        compare(broker, folder, given.rows, given.runs)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def find_jars(folder: Path) -> str:
    """Return the jars of Spark's Kafka connector; fetch them if none are named."""
    named = os.environ.get("ANABRANCH_SPARK_KAFKA", str(folder / "jars"))
    if "ANABRANCH_SPARK_KAFKA" not in os.environ:
        for jar in CONNECTOR:
            fetch(jar.split(), folder / "ivy", named)
    found = sorted(map(str, Path(named).glob("*.jar")))
    if len(found) < len(CONNECTOR):
        msg = f"the connector of Spark must have {len(CONNECTOR)} jars; found: {found}"
        raise SystemExit(msg)
    return ",".join(found)


def fetch(jar: list[str], cache: Path, folder: str) -> None:
    """Fetch a jar without those that it names."""
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    command = ["java", "-jar", str(ivy), "-cache", str(cache), "-warn", "-notransitive"]
    command += ["-confs", "default", "-types", "jar", "-dependency", *jar]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    subprocess.run(command, check=False)  # it says itself what is missing


def compare(broker: KafkaServer, folder: Path, rows: int, runs: int) -> None:
    """Measure both sides in turn and check what each has sent."""
    trades = make_trades(rows)
    source = broker.topic(PARTITIONS)
    send(broker, source, trades)
    spark = open_session("local[2]")
    numbers = itertools.count()
    last: dict[str, str] = {}  # side -> topic of its last run

    def run(side: str) -> None:
        last[side] = broker.topic(PARTITIONS)
        checkpoint = folder / f"{side}-{next(numbers)}"
        if side == "anabranch":
            run_ours(broker.servers, source, last[side], checkpoint)
        else:
            run_by_hand(spark, broker.servers, source, last[side], checkpoint)

    sides = {side: partial(run, side) for side in ("anabranch", "by hand")}
    times = interleaved(sides, runs)
    expected = compute_prices(trades)
    for side, topic in last.items():
        if (why := why_different(expected, receive(broker, topic))) is not None:
            msg = f"{side}: {why}"
            raise SystemExit(msg)
    if (why := why_unordered(receive(broker, last["anabranch"]))) is not None:
        raise SystemExit(why)
    rates = {
        f"{side}, trades a second": round(rows / statistics.median(found))
        for side, found in times.items()
    }
    made = claim(
        f"running VWAP from Kafka to Kafka, {rows:,} trades: over PySpark by hand",
        ratio(times["by hand"], times["anabranch"]),
        at_least=AT_LEAST,
        remark="; ".join(f"{name}: {rate:,}" for name, rate in rates.items()),
    )
    report("kafka", rates, claims=[made])


def make_trades(rows: int) -> list[Trade]:
    """Return trades of all symbols, in the order of their time."""
    return [
        Trade(ts, f"S{ts * 7919 % SYMBOLS:04}", 100 + ts * 31 % 997 / 100, 1 + ts % 90)
        for ts in range(rows)
    ]


def partition_of(symbol: str) -> int:
    """Return the partition that the trades of a symbol are sent to."""
    return int(symbol[1:]) % PARTITIONS


def send(broker: KafkaServer, topic: str, trades: list[Trade]) -> None:
    """Send trades, those of a symbol to one partition."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.servers, "linger.ms": 50}
    )
    for number, trade in enumerate(trades):
        value, key = json.dumps(trade._asdict()), trade.symbol
        producer.produce(topic, value, key, partition=partition_of(key))
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush(60) == 0


def run_ours(servers: str, source: str, target: str, checkpoint: Path) -> None:
    """Run the job as a user of ours writes it."""
    trades = ab.kafka(servers, source, Trade, format="jsonl", follow=False)
    sink = JOBS["vwap"](trades).to_kafka(servers, target, key="symbol")
    ab.run(sink, on="spark", degree=2, checkpoint=checkpoint)


def run_by_hand(
    spark: SparkSession, servers: str, source: str, target: str, checkpoint: Path
) -> None:
    """Run the job as a PySpark user writes it."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    raw = read.option("subscribe", source).option("startingOffsets", "earliest").load()
    text = F.col("value").cast("string")
    trades = raw.select(F.from_json(text, TRADE).alias("trade")).select("trade.*")
    prices = keep_vwap(trades)
    message = prices.select(
        F.col("symbol").alias("key"), F.to_json(F.struct("*")).alias("value")
    )
    write = message.writeStream.format("kafka").outputMode("append")
    write = write.option("kafka.bootstrap.servers", servers).option("topic", target)
    query = write.option("checkpointLocation", str(checkpoint)).trigger(
        availableNow=True
    )
    query.start().awaitTermination()


Prices = dict[str, list[tuple[int, float]]]


def compute_prices(trades: list[Trade]) -> Prices:
    """Return the prices by symbol, from a plain loop."""
    states: dict[str, tuple[float, int]] = {}
    found: Prices = defaultdict(list)
    for trade in trades:
        state = states.get(trade.symbol, (0.0, 0))
        states[trade.symbol], price = running_vwap(state, trade)
        found[trade.symbol].append((price.ts, price.price))
    return found


def receive(broker: KafkaServer, topic: str) -> list[list[Price]]:
    """Return the prices in each partition of a topic."""
    return [
        [Price(**json.loads(value)) for value in broker.received(topic, 0, partition)]
        for partition in range(PARTITIONS)
    ]


def why_different(expected: Prices, received: list[list[Price]]) -> str | None:
    """Return why the prices of a symbol are others or in another order, or None."""
    found: Prices = defaultdict(list)
    for prices in received:
        for price in prices:
            found[price.symbol].append((price.ts, price.price))
    for symbol in sorted(expected.keys() | found.keys()):
        if expected[symbol] != found[symbol]:
            return f"the prices of {symbol} differ from those of a plain loop"
    return None


def why_unordered(received: list[list[Price]]) -> str | None:
    """Return why results of one input partition are not in its order, or None."""
    for number, prices in enumerate(received):
        for partition in range(PARTITIONS):
            times = [p.ts for p in prices if partition_of(p.symbol) == partition]
            if times != sorted(times):
                return f"partition {number} has results of {partition} in another order"
    return None


if __name__ == "__main__":
    main()
