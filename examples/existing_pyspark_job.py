"""An existing PySpark job that hands the part that hurts to Anabranch.

The job reads a directory of CSV files as a stream, and writes Parquet with a writer of
its own: both stay as they are. In the middle, the running VWAP of each symbol needs
state per symbol and the order of the trades: that part is an Anabranch program.

    python examples/existing_pyspark_job.py TRADES RESULTS
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

import anabranch as ab


class Trade(NamedTuple):
    """A row of the files."""

    ts: int
    symbol: str
    price: float
    volume: int


class Vwap(NamedTuple):
    """The average price of a symbol so far, weighted by volume."""

    ts: int
    symbol: str
    vwap: float


class Sums(NamedTuple):
    """What has been traded of a symbol so far."""

    value: float
    volume: int


def average(sums: Sums, trade: Trade) -> tuple[Sums, Vwap]:
    """Add a trade to the sums of its symbol and give the new average."""
    sums = Sums(sums.value + trade.price * trade.volume, sums.volume + trade.volume)
    return sums, Vwap(trade.ts, trade.symbol, sums.value / sums.volume)


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the trades as the job always has."""
    reader = spark.readStream.schema(
        "ts long, symbol string, price double, volume long"
    )
    files = reader.option("header", True).option("maxFilesPerTrigger", 1)
    return files.csv(str(folder)).where("volume > 0")


def main(spark: SparkSession, trades: Path, results: Path) -> ab.Job:
    """Run the job on all files that are there."""

    def write(rows: DataFrame, epoch: int) -> None:
        """Write the rows as the job always has; the same epoch, the same directory."""
        rows.write.mode("overwrite").parquet(str(results / f"epoch={epoch:06}"))

    stream = ab.from_spark(
        read_stream(spark, trades), Trade, trigger={"availableNow": True}
    )
    averages = stream.key_by("symbol").scan(average, Sums(0.0, 0))
    return ab.run(averages.to_spark(write))


if __name__ == "__main__":
    session = SparkSession.builder.appName("existing job").getOrCreate()
    main(session, Path(sys.argv[1]), Path(sys.argv[2]))
    session.read.parquet(sys.argv[2]).orderBy("ts").show()
