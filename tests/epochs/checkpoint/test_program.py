"""What of a program may change between two runs, and what may not."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import types
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.checkpoint.program import (
    differences,
    program_of,
    refuse_hidden_state,
)
from anabranch.epochs.layout import lay_out
from anabranch.errors import CheckpointError


class Trade(NamedTuple):
    symbol: str
    price: float


class Rated(NamedTuple):
    symbol: str
    rate: float


def add(total, trade: Trade) -> tuple[float, Trade]:
    return total + trade.price, trade


def add_more(total, trade: Trade) -> tuple[float, Trade]:
    return total + 2 * trade.price, trade


def rated(trade: Trade) -> Rated:
    return Rated(trade.symbol, trade.price)


def described(*sinks):
    made = ab.compile(*sinks)
    return program_of(lay_out(made.graph, made.plan))


def trades(path="trades.csv"):
    return ab.read_csv(path, Trade)


def base(step=add, size=3, out="out"):
    totals = trades().filter(lambda t: t.price > 0).key_by("symbol").scan(step, 0.0)
    return totals.window(count=size).aggregate(len).write_jsonl(out)


ALLOWED = {
    "the code of a function": lambda: base(step=add_more),
    "an operator without state": lambda: (
        trades()
        .filter(lambda t: t.price > 0)
        .filter(lambda t: t.price < 9)
        .key_by("symbol")
        .scan(add, 0.0)
        .window(count=3)
        .aggregate(len)
        .write_jsonl("out")
    ),
    "a new tuple type before those in states": lambda: (
        trades()
        .map(rated)
        .map(lambda r: Trade(r.symbol, r.rate))
        .key_by("symbol")
        .scan(add, 0.0)
        .window(count=3)
        .aggregate(len)
        .write_jsonl("out")
    ),
    "a tuple type behind them": lambda: (
        trades()
        .key_by("symbol")
        .scan(add, 0.0)
        .window(count=3)
        .aggregate(len)
        .map(lambda n: Rated("", n), type=Rated)
        .write_jsonl("out")
    ),
}

REFUSED = {
    "a window of another size": (
        lambda: base(size=4),
        "parameters was .*count=3.*; is .*count=4",
    ),
    "another output": (
        lambda: base(out="other"),
        r"sink 'write_jsonl'.* was path=.*out",
    ),
    "another key": (
        lambda: (
            trades()
            .key_by("price")
            .scan(add, 0.0)
            .window(count=3)
            .aggregate(len)
            .write_jsonl("out")
        ),
        r"operator 'scan' .*key was \(symbol\); is \(price\)",
    ),
    "an operator with state that is gone": (
        lambda: (
            trades().key_by("symbol").window(count=3).aggregate(len).write_jsonl("out")
        ),
        "operator 'scan' .* is gone",
    ),
    "another input": (
        lambda: (
            trades("other.csv")
            .key_by("symbol")
            .scan(add, 0.0)
            .window(count=3)
            .aggregate(len)
            .write_jsonl("out")
        ),
        "source 'read_csv'.*path=.*trades.csv",
    ),
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("trades.csv", "other.csv"):
        (tmp_path / name).write_text("symbol,price\nA,1.0\n")


@pytest.mark.parametrize("changed", ALLOWED.values(), ids=ALLOWED)
def test_may_change(changed):
    assert [] == differences(described(base()), described(changed()))


@pytest.mark.parametrize(("changed", "told"), REFUSED.values(), ids=REFUSED)
def test_may_not_change(changed, told):
    import re

    found = "\n".join(differences(described(base()), described(changed())))

    assert re.search(told, found), found


def several(order=(0, 1, 2), name=None):
    """Return sinks without names, of states and types that differ, in some order."""
    totals = trades().key_by("symbol").scan(add, 0.0)
    rates = trades().map(rated, name=name).key_by("symbol").scan(count_rated, 0)
    sinks = [
        totals.write_csv("totals"),
        rates.write_csv("rates"),
        totals.window(count=3).aggregate(len).write_csv("lengths"),
    ]
    return [sinks[number] for number in order]


def count_rated(total, rate: Rated) -> tuple[int, Rated]:
    return total + 1, rate


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_in_which_sinks_are_given_may_change(order):
    assert [] == differences(described(*several()), described(*several(order)))


def test_an_operator_without_state_may_have_another_name():
    assert [] == differences(described(*several()), described(*several(name="rate")))


class Visit(NamedTuple):
    user: str
    at: dt.datetime


def count(total: int, visit: Visit) -> tuple[int, int]:
    return total + 1, total


def visits(lateness="4 s", forget_after=None):
    timed = ab.read_jsonl("visits.jsonl", Visit).event_time("at", lateness=lateness)
    return timed.key_by("user", forget_after=forget_after)


DURATIONS = {
    "the gap of a session": lambda span: visits().window(gap=span).aggregate(len),
    "the length of a window": lambda span: visits().window(time=span).aggregate(len),
    "the lateness of a clock": lambda span: visits(lateness=span).scan(count, 0),
    "the age of a forgotten key": lambda span: visits(forget_after=span).scan(count, 0),
    "the time between two that are joined": lambda span: visits().join(
        visits(), on="user", within=span, into=lambda left, right: (left, right)
    ),
    "a duration in a setting of the user's": lambda span: visits().apply(
        Waiting, dt.timedelta(seconds=int(span.split()[0]))
    ),
}


class Waiting(ab.Operator):
    def __init__(self, patience):
        self.patience = patience

    def process(self, item):
        yield item


@pytest.mark.parametrize("program", DURATIONS.values(), ids=DURATIONS)
def test_a_duration_may_not_change(program, tmp_path):
    (tmp_path / "visits.jsonl").write_text("")
    ten, twenty = (described(program(s).write_jsonl("o")) for s in ("10 s", "20 s"))

    found = "\n".join(differences(ten, twenty))

    assert [] == differences(ten, ten)
    assert "10 s" in found
    assert "20 s" in found


def test_a_checkpoint_without_durations_is_that_of_a_program_with_any(tmp_path):
    """As earlier releases have left it."""
    (tmp_path / "visits.jsonl").write_text("")
    now = described(DURATIONS["the gap of a session"]("10 s").write_jsonl("o"))
    was = json.loads(json.dumps(now))
    del was["durations"]
    for one in was["operators"].values():
        del one["timing"]
        one["parameters"].pop("lateness", None)
        one["parameters"].get("window", {}).pop("gap", None)

    assert was["operators"] != now["operators"]
    assert [] == differences(was, now)


def test_a_body_of_rounds_may_move_to_another_line():
    def rounds(body):
        return described(trades().iterate(body, rounds=2).write_jsonl("out"))

    before = rounds(lambda s: s.map(lambda n: n))
    after = rounds(
        lambda s: s.map(
            lambda n: n,
        )
    )

    assert [] == differences(before, after)


def test_what_is_remembered_outside_of_states_is_refused_with_its_line():
    box = types.SimpleNamespace(seen=[])  # what is in there is not lifted

    def remember(item):
        box.seen.append(item)
        return item

    made = ab.compile(ab.from_iterable([1]).map(remember).to_list())

    with pytest.raises(CheckpointError, match=r"'map' \(.*test_program.py:"):
        refuse_hidden_state(lay_out(made.graph, made.plan), made.plan)


CONNECTORS = {
    "kafka": (
        lambda: ab.kafka("localhost:9092", "t", int),
        {
            "servers": "localhost:9092",
            "topic": "t",
            "type": "int",
            "format": "jsonl",
            "delimiter": ",",
            "start": "earliest",
            "follow": True,
        },
    ),
    "socket": (
        lambda: ab.socket("localhost", 9, int),
        {
            "host": "localhost",
            "port": 9,
            "type": "int",
            "format": "jsonl",
            "delimiter": ",",
            "reconnect": False,
        },
    ),
    "read_postgres": (
        lambda: ab.read_postgres("dbname=test", "t", int, order_by="id"),
        {"query": "t", "type": "int", "order_by": ["id"]},
    ),
}


@pytest.mark.parametrize(("kind", "case"), CONNECTORS.items(), ids=CONNECTORS)
def test_our_connectors_are_described_as_in_earlier_releases(kind, case):
    make, parameters = case

    found = described(make().to_list())["operators"][kind]

    assert (kind, parameters) == (found["kind"], found["parameters"])
