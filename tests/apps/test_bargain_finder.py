"""Deals against averages that DuckDB computed, and against exact fractions."""

from __future__ import annotations

import csv
from collections import defaultdict
from fractions import Fraction

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def bargain_finder():
    return load_app("bargain_finder")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return load_app("vwap").sample_files(tmp_path_factory.mktemp("sample"))[0]


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def averages(trades, span_us):
    """
    By stock and window, over all trades at once, as fractions.
    """
    money, volume = defaultdict(Fraction), defaultdict(int)
    for trade in trades:
        window = trade["SYMBOL"], int(trade["ts_us"]) // span_us
        money[window] += Fraction(trade["PRICE"]) * int(trade["SIZE"])
        volume[window] += int(trade["SIZE"])
    return {window: float(money[window] / volume[window]) for window in money}


def deals(trades, average, span_us):
    for trade in trades:
        price, now = float(trade["PRICE"]), int(trade["ts_us"]) // span_us
        before = [window for symbol, window in average if symbol == trade["SYMBOL"]]
        last = max((window for window in before if window < now), default=None)
        vwap = average.get((trade["SYMBOL"], last), 0)
        if price < vwap:
            shares = int(10_000 * min(1, 100 * (1 - price / vwap)) / price)
            cost = shares * price * 1.001
            yield int(trade["ts_us"]), shares, cost, shares * vwap - cost


def assert_same(wanted, sink):
    got = [(one.ts_us, one.shares, one.cost, one.gain) for one in sink.items]
    assert wanted
    assert [row[:2] for row in wanted] == [row[:2] for row in got]
    assert [row[2:] for row in wanted] == [
        pytest.approx(row[2:], rel=1e-9, abs=1e-9) for row in got
    ]


@pytest.mark.parametrize("on", ENGINES)
def test_deals_of_the_sample_are_those_of_fractions(bargain_finder, sample, on):
    trades = rows(sample)
    span_us = bargain_finder.FIVE_MINUTES_US
    sink = bargain_finder.program(sample)

    ab.run(sink, on=on)

    assert_same(list(deals(trades, averages(trades, span_us), span_us)), sink)


def test_real_deals_follow_from_the_averages_of_duckdb(bargain_finder, data):
    folder = data / "trades_quotes"
    stored = rows(folder / "expected_vwap_5min.csv")
    span_us = bargain_finder.FIVE_MINUTES_US
    average = {
        (row["SYMBOL"], int(row["w"]) // span_us): float(row["vwap"]) for row in stored
    }
    sink = bargain_finder.program(folder / "trades.csv")

    ab.run(sink, on="sequential")

    assert_same(list(deals(rows(folder / "trades.csv"), average, span_us)), sink)


def test_a_trade_of_a_window_that_is_over_is_an_error(bargain_finder, sample, tmp_path):
    head, *lines = sample.read_text().splitlines()
    (tmp_path / "late.csv").write_text("\n".join([head, *lines, lines[0]]))

    with pytest.raises(OperatorError, match="must be in the order of their windows"):
        ab.run(bargain_finder.program(tmp_path / "late.csv"), on="sequential")
