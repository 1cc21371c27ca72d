"""The jobs by hand in PySpark: mapInPandas without state, applyInPandasWithState with.

A streaming source reads directories only, so those jobs get one with a link in it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import talk
from bench.harness.trades import Trade
from bench.harness.trades import heavy as heavy_map
from bench.spark import handwritten


@functools.cache
def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("by hand")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    return builder.config("spark.driver.memory", "2g").getOrCreate()


def folder_of(source: str, target: str) -> Path:
    folder = Path(f"{target}.in")
    folder.mkdir()
    (folder / "trades.csv").hardlink_to(source)
    return folder


def chain(source: str, target: str) -> None:
    handwritten.chain(session(), Path(source), Path(target))


def vwap(source: str, target: str) -> None:
    handwritten.vwap_with_state(session(), folder_of(source, target), Path(target))


def window(source: str, target: str) -> None:
    handwritten.window_with_state(session(), folder_of(source, target), Path(target))


def heavy(source: str, target: str) -> None:
    def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            rows = frame.itertuples(index=False, name=None)
            yield pd.DataFrame([heavy_map(Trade(*row)) for row in rows])

    trades = session().read.csv(source, handwritten.TRADE, header=True)
    half = trades.repartition(2) if trades.rdd.getNumPartitions() < 2 else trades
    half.mapInPandas(run, handwritten.PRICE).write.csv(target, header=True)


def live(port: int, target: str) -> None:
    spark, seen = session(), talk.Seen(target)
    lines = spark.readStream.format("socket").option("host", "127.0.0.1")
    parts = lines.option("port", port).load().selectExpr("split(value, ',') AS v")
    trades = parts.selectExpr(
        "CAST(v[0] AS long) ts",
        "v[1] symbol",
        "CAST(v[2] AS double) price",
        "CAST(v[3] AS long) volume",
    )

    def note(batch: DataFrame, _number: int) -> None:
        seen.note(*[row.ts for row in batch.collect()])

    stream = handwritten.keep_vwap(trades).writeStream.foreachBatch(note)
    stream = stream.option("checkpointLocation", f"{target}.checkpoint")
    stream.start().awaitTermination()


if __name__ == "__main__":
    talk.main({"chain": chain, "vwap": vwap, "window": window, "heavy": heavy}, live)
