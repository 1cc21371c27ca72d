"""Enrichment: from a mapping, from a DataFrame, from the latest item of another stream."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, GraphError

ENGINES = [
    pytest.param("sequential", {}),
    pytest.param("local", {"degree": 2}),
    pytest.param("spark", {"epoch_items": 3}, marks=pytest.mark.spark),
]


class Trade(NamedTuple):
    symbol: str
    n: int


class Rate(NamedTuple):
    symbol: str
    rate: int


TRADES = [Trade("ABC"[i % 3], i) for i in range(8)]
NAMES = {"A": "Acme", "B": "Bolt"}


def run(stream, engine="sequential", **options):
    out = stream.to_list()
    ab.run(out, on=engine, **options)
    return out.items


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_what_a_mapping_does_not_have_is_left_out(engine, options):
    stream = ab.from_iterable(TRADES, Trade).lookup(NAMES, on="symbol")
    expected = [(t, NAMES[t.symbol]) for t in TRADES if t.symbol in NAMES]
    assert run(stream, engine, **options) == expected


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_a_default_and_a_function_of_both(engine, options):
    stream = ab.from_iterable(TRADES, Trade).lookup(
        NAMES, on="symbol", default=None, into=lambda trade, name: (trade.n, name)
    )
    expected = [(t.n, NAMES.get(t.symbol)) for t in TRADES]
    assert run(stream, engine, **options) == expected


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_the_latest_item_of_another_stream_counts(engine, options):
    rates = [Rate("A", 10), Rate("B", 20), Rate("A", 11), Rate("C", 30)]
    trades = ab.from_iterable(TRADES, Trade)
    stream = trades.lookup(
        ab.from_iterable(rates, Rate),
        on="symbol",
        default=Rate("", 0),
        into=lambda trade, rate: (trade.n, rate.rate),
    )
    latest, expected = {}, []
    for turn, trade in enumerate(TRADES):  # the sources take turns, trades first
        expected.append((trade.n, latest.get(trade.symbol, 0)))
        if turn < len(rates):
            latest[rates[turn].symbol] = rates[turn].rate
    assert run(stream, engine, **options) == expected


FRAMES = {
    "pandas": pd.DataFrame({"symbol": ["A", "B"], "name": ["Acme", "Bolt"]}),
    "arrow": pa.table({"symbol": ["A", "B"], "name": ["Acme", "Bolt"]}),
}


@pytest.mark.parametrize("table", FRAMES.values(), ids=FRAMES)
def test_each_row_of_a_table_is_found_by_its_key(table):
    stream = ab.from_iterable(TRADES[:3], Trade).lookup(table, on="symbol")
    assert [(t.n, row.name) for t, row in run(stream)] == [(0, "Acme"), (1, "Bolt")]


def test_a_spark_dataframe_is_a_table(spark):
    table = spark.createDataFrame([("A", 1), ("B", 2)], ["symbol", "rank"])
    stream = ab.from_iterable(TRADES[:2], Trade).lookup(table, on="symbol")
    assert [row.rank for _, row in run(stream)] == [1, 2]


def test_several_attributes_are_looked_up_together():
    table = {("A", 0): "first", ("A", 3): "fourth"}
    stream = ab.from_iterable(TRADES, Trade).lookup(table, on=("symbol", "n"))
    assert [name for _, name in run(stream)] == ["first", "fourth"]


def test_the_table_is_as_it_was_when_the_program_was_written():
    table = dict(NAMES)
    stream = ab.from_iterable(TRADES[:1], Trade).lookup(table, on="symbol")
    table["A"] = "changed"
    assert run(stream) == [(TRADES[0], "Acme")]


def test_a_lookup_is_in_a_region_and_forwards_what_its_function_does():
    stream = ab.from_iterable(TRADES, Trade).lookup(
        NAMES, on="symbol", into=lambda trade, name: trade
    )
    counted = stream.key_by("symbol").scan(lambda n, t: (n + 1, n), 0)
    regions = ab.compile(counted.to_list(), on="local").plan.regions
    assert [r.operators for r in regions if "lookup" in r.operators]


def test_the_clock_goes_through_a_lookup():
    stream = (
        ab.from_iterable(TRADES, Trade)
        .event_time("n")
        .lookup(NAMES, on="symbol", into=lambda trade, name: trade)
    )
    rows = run(stream.window(time=4, on="n").aggregate(n=ab.count()))
    assert [row.n for row in rows] == [3, 3]


def test_bad_tables_are_refused():
    trades = ab.from_iterable(TRADES, Trade)
    with pytest.raises(TypeError, match="must be given a mapping, a DataFrame or a"):
        trades.lookup(5, on="symbol")
    with pytest.raises(ArgumentError, match="one row for each key; 'A' has several"):
        trades.lookup(pa.table({"symbol": ["A", "A"]}), on="symbol")
    with pytest.raises(ArgumentError, match="'symbol' is not among name"):
        trades.lookup(pa.table({"name": ["A"]}), on="symbol")
    with pytest.raises(GraphError, match="on names 'symbl'"):
        ab.compile(trades.lookup(NAMES, on="symbl").to_list())
