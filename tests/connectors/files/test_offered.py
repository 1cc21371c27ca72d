"""Offered load counts latency from when items were due, however late they are read."""

from __future__ import annotations

import time

import pytest

import anabranch as ab
from anabranch.connectors.offered import Offer
from anabranch.errors import OperatorError
from anabranch.operators.sources import Offered

ENGINES = ["sequential", "local", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.parametrize("on", ENGINES)
def test_all_items_come_in_order_and_again_and_again(on):
    load = ab.testing.constant(2000, seconds=0.05)
    out = ab.testing.offered(load, "abc").map(str.upper).to_list()

    ab.run(out, on=on)

    assert ["ABC"[n % 3] for n in range(100)] == out.items


def test_nothing_comes_before_it_is_due():
    offer = Offer(Offered((0.0, 0.01, 3600.0)))
    offer.take(10)
    time.sleep(0.02)

    items, due_s = offer.take(10)

    assert [1] == items
    assert 0.01 == pytest.approx(due_s[0] - offer.started_s)
    assert not offer.ended
    assert 3500 < offer.wait_s() <= 3600


def test_latency_counts_from_when_items_were_due():
    """
    The first item blocks the program for 0.2 s; those behind it were due at once, so
    they have waited for about as long, although they were read only then.
    """

    def slow(n):
        if n == 0:
            time.sleep(0.2)
        return n

    load = ab.testing.constant(10_000, seconds=0.01)
    out = ab.testing.offered(load).map(slow).to_list()

    seen = ab.run(out, on="local", degree=1).metrics().latency

    assert 100 == seen.items == len(out.items)
    assert seen.p50_ms > 150


@pytest.mark.spark
def test_latency_on_spark_counts_from_when_items_were_due():
    load = ab.testing.recorded([0.0, 0.0, 0.0, 1.0])
    out = ab.testing.offered(load).map(abs).to_list()

    seen = ab.run(out, on="spark", epoch_items=1).metrics().latency

    assert 4 == seen.items
    assert seen.max_ms > seen.p50_ms  # the third waits for three epochs


def test_items_are_needed():
    with pytest.raises(ValueError, match="got none"):
        ab.testing.offered(ab.testing.constant(1, seconds=1), [])


def test_an_item_that_fails_is_told_by_its_number():
    load = ab.testing.constant(1000, seconds=0.005)
    out = ab.testing.offered(load, name="load").map(lambda n: 1 // (n - 3)).to_list()

    with pytest.raises(OperatorError, match="item 4 of load"):
        ab.run(out, on="sequential")
