"""The finance program against prices that were computed in another way."""

from __future__ import annotations

import csv
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.cli.console import load_module

APP = Path(__file__).parents[2] / "apps" / "finance.py"


@pytest.fixture(scope="module")
def finance():
    return load_module(APP)


@pytest.fixture(scope="module")
def sample(finance, tmp_path_factory):
    return finance.sample_file(tmp_path_factory.mktemp("sample") / "trades.csv")


def rows(path):
    parts = sorted(path.glob("part-*.csv")) if path.is_dir() else [path]
    return [
        row for part in parts for row in csv.DictReader(part.read_text().splitlines())
    ]


def prices_of(sink, on, folder):
    ab.run(sink, on=on)
    return rows(folder)


def exact_vwap(trades):
    """
    With fractions, so that it shares no rounding with the program.
    """
    money = sum(Fraction(trade["PRICE"]) * int(trade["SIZE"]) for trade in trades)
    return float(money / sum(int(trade["SIZE"]) for trade in trades))


def by_hundreds(trades):
    """
    Full hundreds when they fill up; then what is left of each stock, by name.
    """
    waiting = defaultdict(list)
    for trade in trades:
        mine = waiting[trade["SYMBOL"]]
        if int(trade["SIZE"]):
            mine.append(trade)
        if len(mine) == 100:
            yield list(mine)
            mine.clear()
    yield from (left for _, left in sorted(waiting.items()) if left)


def expected(groups):
    return [
        (group[-1]["ts_us"], group[-1]["SYMBOL"], len(group), exact_vwap(group))
        for group in groups
    ]


def shown(prices):
    return [
        (row["ts_us"], row["symbol"], int(row["trades"]), float(row["vwap"]))
        for row in prices
    ]


def assert_same(wanted, got):
    assert [row[:3] for row in wanted] == [row[:3] for row in got]
    assert [row[3] for row in wanted] == pytest.approx([row[3] for row in got])


@pytest.mark.parametrize(
    "on", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_prices_of_the_sample_are_those_of_plain_python(finance, sample, on, tmp_path):
    sink = finance.program(sample, tmp_path)

    prices = prices_of(sink, on, tmp_path / "per_100_trades")

    assert_same(expected(by_hundreds(rows(sample))), shown(prices))


def test_the_sample_is_the_same_each_time_and_has_all_cases(finance, sample, tmp_path):
    again = finance.sample_file(tmp_path / "again.csv")

    assert sample.read_bytes() == again.read_bytes()
    assert 12 == len({row["SYMBOL"] for row in rows(sample)})
    assert any(row["SIZE"] == "0" for row in rows(sample))


def test_without_real_data_the_sample_is_read(finance, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH_DATA", str(tmp_path / "nowhere"))

    assert 20_000 == len(rows(finance.trades_file()))


def test_real_prices_by_hundreds_are_those_of_duckdb(finance, data, tmp_path):
    """
    A price over the last 100 trades was stored for every trade; each hundredth of them
    is a price of ours.
    """
    folder = data / "trades_quotes"
    running = rows(folder / "expected_vwap_run100.csv")
    sink = finance.program(folder / "trades.csv", tmp_path)

    prices = prices_of(sink, "sequential", tmp_path / "per_100_trades")

    wanted = [(row["ts_us"], float(row["vwap100"])) for row in running[99::100]]
    full = [row for row in prices if row["trades"] == "100"]
    assert [ts for ts, _ in wanted] == [row["ts_us"] for row in full]
    assert [vwap for _, vwap in wanted] == pytest.approx(
        [float(row["vwap"]) for row in full], rel=1e-12
    )
    assert len(running) == sum(int(row["trades"]) for row in prices)


def test_real_prices_by_five_minutes_are_those_of_duckdb(finance, data, tmp_path):
    folder = data / "trades_quotes"
    sink = finance.five_minutes(folder / "trades.csv", tmp_path)

    prices = prices_of(sink, "sequential", tmp_path / "per_5_minutes")

    wanted = rows(folder / "expected_vwap_5min.csv")
    assert [(row["n"], float(row["vol"])) for row in wanted] == [
        (row["trades"], float(row["volume"])) for row in prices
    ]
    assert [float(row["vwap"]) for row in wanted] == pytest.approx(
        [float(row["vwap"]) for row in prices], rel=1e-12
    )
