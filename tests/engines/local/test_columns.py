"""Elements that run in columns on threads give what one thread gives, errors included."""

from __future__ import annotations

import random

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from tests.engines.trades import (
    Trade,
    ever_larger,
    is_large,
    of_window,
    parts_of,
    per_share,
    vwap,
)


def in_cents(t: Trade) -> Trade:
    return t._replace(price=round(t.price * 100, 2))


def in_words(t: Trade) -> Trade:
    words = [t.symbol]
    words.append(str(t.volume % 3))
    return t._replace(symbol="-".join(words))


PROGRAMS = {
    "chain": lambda s: s.map(in_cents).filter(is_large).map(per_share),
    "filter": lambda s: s.filter(is_large),
    "scan": lambda s: s.key_by("symbol").scan(vwap, (0.0, 0)),
    "window": lambda s: s.key_by("symbol").window(count=7).aggregate(of_window),
    "sliding": lambda s: (
        s.key_by("symbol").window(count=7, every=2).aggregate(of_window)
    ),
    "sliding in time": lambda s: (
        s.key_by("symbol").window(time=90, every=30, on="ts").aggregate(of_window)
    ),
    "named columns": lambda s: s.window(time=9, on="ts").aggregate(
        start=ab.window_start(), most=ab.max("price"), symbol=ab.last("symbol")
    ),
    "flat_map": lambda s: s.flat_map(parts_of).filter(is_large),
    "beyond 64 bits": lambda s: s.key_by("symbol").scan(ever_larger, 1),
    "mixed": lambda s: s.map(in_words).filter(is_large).map(per_share),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at once")


def make_trades(count, volume=None):
    rng = random.Random(3)
    return [
        Trade(
            ts,
            f"S{rng.randrange(40)}",
            round(rng.uniform(1, 200), 2),
            rng.randrange(1, 99) if volume is None else volume(ts),
        )
        for ts in range(count)
    ]


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_items_are_those_of_one_thread(name, degree):
    trades = make_trades(20_000)
    one = PROGRAMS[name](ab.from_iterable(trades, Trade)).to_list()
    two = PROGRAMS[name](ab.from_iterable(trades, Trade)).to_list()

    ab.run(one, on="sequential")
    job = ab.run(two, on="local", degree=degree)

    assert list(map(repr, one.items)) == list(map(repr, two.items))
    shares = job.metrics().in_columns
    runs = {o.name for o in job.plan.operators if o.runs == "columns"}
    assert runs == set(shares)
    assert runs
    assert (name != "beyond 64 bits") == (min(shares.values()) > 0.2)


def test_the_users_own_error_names_its_item():
    trades = make_trades(9000, lambda ts: 0 if ts == 7777 else 4)
    stream = ab.from_iterable(trades, Trade)
    sink = stream.map(in_cents).map(per_share).to_list()

    with pytest.raises(OperatorError, match="ZeroDivisionError") as raised:
        ab.run(sink, on="local")

    assert "item 7778 of from_iterable" in str(raised.value)
    assert "ts=7777" in str(raised.value)


def test_values_that_are_not_of_the_promised_type_are_the_users_own():
    trades = [t._replace(price=3) if t.ts % 5 else t for t in make_trades(5000)]
    one = ab.from_iterable(trades, Trade).filter(is_large).map(per_share).to_list()
    two = ab.from_iterable(trades, Trade).filter(is_large).map(per_share).to_list()

    ab.run(one, on="sequential")
    ab.run(two, on="local")

    assert list(map(repr, one.items)) == list(map(repr, two.items))


def test_explain_says_which_part_runs_in_columns():
    stream = ab.from_iterable([], Trade).map(in_cents, name="one")
    sink = stream.map(in_words, name="two").filter(is_large, name="three")
    text = ab.explain(sink.map(per_share, name="four").to_list(), on="local")

    assert "one: Python (the part from three on is compiled instead)" in text
    assert "three: columns (its predicate is compiled)" in text
    assert "four: columns" in text
