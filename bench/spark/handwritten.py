"""The same jobs as a PySpark user writes them by hand, without any order kept."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from bench.harness.trades import Trade, in_cents, is_large, per_share, with_fee

TRADE = "ts long, symbol string, price double, volume long"
PRICE = "ts long, symbol string, price double"


def chain(spark: SparkSession, source: Path, target: Path) -> None:
    """Run four mapInPandas one behind the other, each with its Python function."""
    (
        spark.read.csv(str(source), TRADE, header=True)
        .mapInPandas(_mapped(in_cents), TRADE)
        .mapInPandas(_filtered(is_large), TRADE)
        .mapInPandas(_mapped(with_fee), TRADE)
        .mapInPandas(_mapped(per_share), PRICE)
        .write.mode("overwrite")
        .csv(str(target), header=True)
    )


Frames = Iterator[pd.DataFrame]


def _mapped(function: Callable[[Trade], Any]) -> Callable[[Frames], Frames]:
    def run(frames: Frames) -> Frames:
        for frame in frames:
            rows = frame.itertuples(index=False, name=None)
            yield pd.DataFrame([function(Trade(*row)) for row in rows])

    return run


def _filtered(predicate: Callable[[Trade], bool]) -> Callable[[Frames], Frames]:
    def run(frames: Frames) -> Frames:
        for frame in frames:
            rows = frame.itertuples(index=False, name=None)
            yield frame[[predicate(Trade(*row)) for row in rows]]

    return run


def keep_vwap(trades: DataFrame) -> DataFrame:
    """Keep a running VWAP per symbol with applyInPandasWithState."""

    def running(
        _key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        value, volume = state.get if state.exists else (0.0, 0)
        for frame in frames:
            prices = []
            for price, amount in zip(frame.price, frame.volume, strict=True):
                value, volume = value + price * amount, volume + amount
                prices.append(value / volume)
            yield frame.assign(price=prices)[["ts", "symbol", "price"]]
        state.update((value, volume))

    return trades.groupBy("symbol").applyInPandasWithState(
        running, PRICE, "value double, volume long", "append", "NoTimeout"
    )


def vwap_with_state(spark: SparkSession, source: Path, target: Path) -> None:
    """Write a running VWAP per symbol."""
    _to_end(keep_vwap(spark.readStream.csv(str(source), TRADE, header=True)), target)


def window_with_state(spark: SparkSession, source: Path, target: Path) -> None:
    """Make a VWAP of each 100 trades per symbol with applyInPandasWithState."""

    def windows(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        held = pickle.loads(state.get[0]) if state.exists else []
        for frame in frames:
            made = []
            for row in zip(frame.ts, frame.price, frame.volume, strict=True):
                held.append(row)
                if len(held) == 100:
                    value = sum(p * v for _, p, v in held)
                    made.append((row[0], key[0], value / sum(v for _, _, v in held)))
                    held = []
            columns = ["ts", "symbol", "price"]
            yield pd.DataFrame(made, columns=columns) if made else frame[:0][columns]
        state.update((pickle.dumps(held),))

    # Spark 4.3 hands the schema of the state on in small letters, and then finds no
    # `elementType` in it: a state cannot have arrays.
    schema = "held binary"
    stream = spark.readStream.csv(str(source), TRADE, header=True)
    keyed = stream.groupBy("symbol").applyInPandasWithState(
        windows, PRICE, schema, "append", "NoTimeout"
    )
    _to_end(keyed, target)


def vwap_transform(spark: SparkSession, source: Path, target: Path) -> None:
    """Keep a running VWAP per symbol with transformWithState."""

    class Running(_Processor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.state = handle.getValueState("vwap", "value double, volume long")

        def handleInputRows(  # noqa: N802 - the name that Spark calls
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,  # noqa: N803 - as above
        ) -> Iterator[pd.DataFrame]:
            value, volume = self.state.get() if self.state.exists() else (0.0, 0)
            for frame in rows:
                prices = []
                for price, amount in zip(frame.price, frame.volume, strict=True):
                    value, volume = value + price * amount, volume + int(amount)
                    prices.append(value / volume)
                yield frame.assign(price=prices)[["ts", "symbol", "price"]]
            self.state.update((value, volume))

    _transformed(spark, source, target, Running())


def window_transform(spark: SparkSession, source: Path, target: Path) -> None:
    """Make a VWAP of each 100 trades per symbol with transformWithState."""

    class Windows(_Processor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            schema = "ts long, price double, volume long"
            self.state = handle.getListState("held", schema)

        def handleInputRows(  # noqa: N802 - the name that Spark calls
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,  # noqa: N803 - as above
        ) -> Iterator[pd.DataFrame]:
            held = list(self.state.get()) if self.state.exists() else []
            for frame in rows:
                made: list[tuple[Any, ...]] = []
                for row in zip(
                    frame.ts.tolist(),
                    frame.price.tolist(),
                    frame.volume.tolist(),
                    strict=True,
                ):
                    held.append(row)
                    if len(held) == 100:
                        value = sum(p * v for _, p, v in held)
                        volume = sum(v for _, _, v in held)
                        made.append((row[0], key[0], value / volume))
                        held = []
                if made:
                    yield pd.DataFrame(made, columns=["ts", "symbol", "price"])
            self.state.clear()
            if held:
                self.state.put(held)

    _transformed(spark, source, target, Windows())


class _Processor(StatefulProcessor):
    def close(self) -> None:
        pass


def _transformed(
    spark: SparkSession, source: Path, target: Path, processor: StatefulProcessor
) -> None:
    provider = (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    stream = spark.readStream.csv(str(source), TRADE, header=True)
    keyed = stream.groupBy("symbol").transformWithStateInPandas(
        processor, PRICE, "append", "none"
    )
    _to_end(keyed, target)


def _to_end(stream: Any, target: Path) -> None:
    """Run a streaming query; as many partitions as cores, as its writer would say."""
    stream.sparkSession.conf.set("spark.sql.shuffle.partitions", "2")
    query = (
        stream.writeStream.format("csv")
        .option("path", str(target))
        .option("checkpointLocation", f"{target}.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
