"""Offered load counts latency from when items were due, however late they are read."""

from __future__ import annotations

import time

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from anabranch.testing.offered_load import OfferedSource

ENGINES = ["sequential", "local", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.parametrize("on", ENGINES)
def test_all_items_come_in_order_and_again_and_again(on):
    load = ab.testing.constant(2000, seconds=0.05)
    out = ab.testing.offered(load, "abc").map(str.upper).to_list()

    ab.run(out, on=on)

    assert ["ABC"[n % 3] for n in range(100)] == out.items


def test_nothing_comes_before_it_is_due():
    offered = OfferedSource(ab.testing.recorded([0.0, 0.01, 3600.0]))
    first = list(offered.read("all", None))
    time.sleep(0.02)

    rows = [row for row, _ in (first + list(offered.read("all", len(first))))]

    assert [0, 1] == offered.decode(rows)
    born_s = [offered.born_s(row) for row in rows]
    assert 0.01 == pytest.approx(born_s[1] - born_s[0], abs=1e-6)
    assert not offered.has_ended()
    assert 0 == offered.count_waiting({"all": 2})


def test_the_clock_of_a_load_starts_anew_with_each_run(monkeypatch):
    now_s = 1000.0
    monkeypatch.setattr(time, "time", lambda: now_s)
    offered = OfferedSource(ab.testing.recorded([0.0, 60.0]))

    for _ in range(2):
        at_once = [row for row, _ in offered.read("all", None)]
        assert [0] == offered.decode(at_once)
        assert now_s == offered.born_s(at_once[0])
        now_s += 60
        later = [row for row, _ in offered.read("all", 1)]
        assert [1] == offered.decode(later)
        assert offered.has_ended()
        now_s += 60
        offered.close()
        assert not offered.has_ended()
        assert 0 == offered.count_waiting({})  # as metrics do after the end
        now_s += 60


@pytest.mark.parametrize("on", ENGINES)
def test_a_program_with_a_load_may_run_twice(on):
    load = ab.testing.recorded([0.0, 0.3])
    out = ab.testing.offered(load).map(abs).to_list()

    for _ in range(2):
        ab.run(out, on=on)

        assert [0, 1] == out.items


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
