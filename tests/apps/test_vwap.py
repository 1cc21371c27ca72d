"""The desks' bargains against DuckDB's and against a look back from every quote."""

from __future__ import annotations

import csv
import math

import pytest

import anabranch as ab
from tests.apps.loading import load_app


@pytest.fixture(scope="module")
def vwap():
    return load_app("vwap")


@pytest.fixture(scope="module")
def sample(vwap, tmp_path_factory):
    return vwap.sample_files(tmp_path_factory.mktemp("sample"))


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def bargains(sink):
    return [(b.seq, b.vwap, b.index, b.depth) for b in sink.items]


def expected(trades, quotes, horizon):
    """
    For every quote, the trades that were strictly before it, with exact sums.
    """
    for quote in quotes:
        before = [
            trade
            for trade in trades
            if trade["SYMBOL"] == quote["SYMBOL"]
            and int(trade["ts_us"]) < int(quote["ts_us"])
        ][-horizon:]
        if not before:
            continue
        sizes = [int(trade["SIZE"]) for trade in before]
        prices = [float(trade["PRICE"]) for trade in before]
        average = math.fsum(map(math.prod, zip(prices, sizes, strict=True))) / sum(
            sizes
        )
        discount = average - float(quote["OFR"])
        if discount > 0:
            spread = max(prices) - min(prices)
            yield (
                int(quote["seq"]),
                average,
                math.exp(discount) * int(quote["OFRSIZ"]),
                discount / spread if spread else 0.0,
            )


def assert_close(wanted, got):
    assert [row[0] for row in wanted] == [row[0] for row in got]
    for column in range(1, len(wanted[0])):
        assert [row[column] for row in wanted] == pytest.approx(
            [row[column] for row in got], rel=1e-9
        )


def test_bargains_of_the_sample_are_those_of_a_look_back(vwap, sample):
    sinks = vwap.program(*sample)
    trades, quotes = map(rows, sample)

    ab.run(*sinks, on="sequential")

    for horizon, sink in zip(vwap.HORIZONS, sinks, strict=True):
        assert_close(list(expected(trades, quotes, horizon)), bargains(sink))


@pytest.mark.spark
def test_bargains_of_a_desk_on_spark_are_those_of_a_look_back(vwap, sample):
    """
    One desk of the six, since each has the same operators.
    """
    (sink,) = vwap.program(*sample, [20])
    trades, quotes = map(rows, sample)

    ab.run(sink, on="spark")

    assert_close(list(expected(trades, quotes, 20)), bargains(sink))


def test_there_are_58_operators_of_the_kinds_in_the_paper(vwap, sample):
    graph = ab.compile(*vwap.program(*sample)).graph
    kinds = [op.kind.label for op in graph.ops]

    assert (58, 24, 12, 12, 6) == (
        len(kinds),
        kinds.count("map"),
        kinds.count("join"),
        kinds.count("aggregate"),
        kinds.count("to_list"),
    )


@pytest.mark.long
def test_real_bargains_of_100_trades_are_those_of_duckdb(vwap, data):
    folder = data / "trades_quotes"
    (sink,) = vwap.program(folder / "trades.csv", folder / "quotes.csv", [100])
    wanted = rows(folder / "expected_bargains.csv")

    ab.run(sink, on="sequential")

    assert [int(row["seq"]) for row in wanted] == [b.seq for b in sink.items]
    for mine, theirs in [("vwap", "vwap"), ("index", "idx")]:
        assert [float(row[theirs]) for row in wanted] == pytest.approx(
            [getattr(b, mine) for b in sink.items], rel=1e-12
        )
