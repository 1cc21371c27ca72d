"""The model behind the figures of safe data parallelism, and the kernels it is fed with."""

from __future__ import annotations

import csv
from collections import defaultdict

import pytest

import anabranch as ab
from anabranch.control.throughput.model import ItemCosts
from bench.safe.fig9 import skewed
from bench.safe.kernels import KERNELS
from bench.safe.model import balanced_table, hashed, simulated, with_sources

AT = {("read",): 1e-6, ("read", "work"): 100e-6, ("read", "work", "sink"): 1e-6}
REGIONS = {"r0": ("work",)}


def test_channels_scale_until_cores_or_the_source_are_at_their_limit():
    assert 8.0 == pytest.approx(simulated(ItemCosts(AT), REGIONS, 8, cores=32))
    assert 100.0 == pytest.approx(simulated(ItemCosts(AT), REGIONS, 200, cores=1000))
    assert 4.0 > simulated(ItemCosts(AT), REGIONS, 32, cores=4)


def test_a_region_is_as_slow_as_its_busiest_channel():
    half = [{0: 0.5, 1: 0.25, 2: 0.125, 3: 0.125}]

    assert 2.0 == pytest.approx(simulated(ItemCosts(AT), REGIONS, 4, 32, half))


def test_moving_buckets_evens_out_what_hashing_gives():
    weights = {key: 100.0 if key < 4 else 1.0 for key in range(200)}

    encode_in_order = hashed(weights, 4)
    moved = hashed(weights, 4, balanced_table(weights, 4))

    assert 1.0 == pytest.approx(sum(encode_in_order.values()))
    assert max(moved.values()) <= max(encode_in_order.values())
    assert 0.3 > max(moved.values())


@pytest.mark.parametrize("percent", [78, 20, 1])
def test_so_many_keys_have_four_fifths_of_the_volume(percent):
    weights = sorted(skewed(percent).values(), reverse=True)

    assert 80.0 == pytest.approx(sum(weights[: 10 * percent]))
    assert 100.0 == pytest.approx(sum(weights))


@pytest.mark.parametrize(
    "name", ["network monitoring", "PageRank", "Twitter NLP", "Twitter CEP", "Finance"]
)
def test_kernels_give_the_same_with_two_channels(name, tmp_path):
    given = KERNELS[name].make_input(tmp_path, 300)
    one, two = (KERNELS[name].stream(given).to_list() for _ in range(2))

    ab.run(one, on="sequential")
    ab.run(two, on="local", degree=2)

    assert one.items
    assert one.items == two.items


def test_bargains_are_quotes_below_the_average_so_far(tmp_path):
    """
    Trades and quotes of the same time: the trade counts first.
    """
    paths = KERNELS["Finance"].make_input(tmp_path, 5_000)
    found = KERNELS["Finance"].stream(paths).to_list()

    ab.run(found, on="sequential")

    trades, quotes = (
        list(csv.DictReader(path.read_text().splitlines())) for path in paths
    )
    money, shares = defaultdict(float), defaultdict(int)
    expected = []
    for trade, quote in zip(trades, quotes, strict=True):
        money[trade["symbol"]] += float(trade["price"]) * int(trade["volume"])
        shares[trade["symbol"]] += int(trade["volume"])
        symbol, price = quote["symbol"], round(float(quote["price"]) * 0.999, 2)
        if shares[symbol] and price < money[symbol] / shares[symbol]:
            expected.append((int(quote["ts"]), symbol, price))
    assert expected
    assert expected == [(one.ts, one.symbol, one.price) for one in found.items]


def test_the_source_is_no_limit_where_all_channels_read():
    at = {("read",): 50e-6, ("read", "work"): 100e-6}

    assert 2.0 == pytest.approx(simulated(ItemCosts(at), REGIONS, 8, 32))
    wide = with_sources(ItemCosts(at), REGIONS)
    assert 8.0 == pytest.approx(simulated(ItemCosts(at), wide, 8, 32))
