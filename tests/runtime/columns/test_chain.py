"""Chains of kernels: states, windows and filters together, batch by batch."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.compiler.columns.choose_columns import find_columns
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.operators.stateless import WINDOW
from anabranch.runtime.columns.chain import ColumnChain
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.columns.tier import ChainTier
from anabranch.runtime.program import Program


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    ts: int
    symbol: str
    price: float


def is_large(t):
    return t.volume > 4


def vwap(state, t):
    value, volume = state[0] + t.price * t.volume, state[1] + t.volume
    return (value, volume), Price(t.ts, t.symbol, value / volume)


def of_window(items):
    last = items[-1]
    return Price(last.ts, last.symbol, sum(p.price for p in items) / len(items))


def make_trades(count, seed=1):
    rng = random.Random(seed)
    return [
        Trade(n, f"S{rng.randrange(5)}", rng.uniform(1, 9), rng.randrange(1, 9))
        for n in range(count)
    ]


class Both:
    """A program in Python, and the same one in columns on states of its own."""

    def __init__(self, stream):
        graph = build_graph([stream.to_list()])
        known = {op.name: Traits("stateless") for op in graph}
        self.kernels = {r.operator: r.kernel for r in find_columns(graph, known)}
        self.ops = [op for op in graph if op.name in self.kernels]
        (entry,) = graph.out_edges(graph.sources[0].name)
        names = [op.name for op in self.ops]
        self.one, self.two = (Program(graph, names, [entry]) for _ in range(2))
        self.chain = ColumnChain(self.ops, self.kernels, self.two.states)

    def python(self, items, program=None):
        program = program or self.one
        (left,) = program.exits.values()
        left.clear()
        program.run(items)
        return left.items[:]

    def columns(self, items):
        return self.chain.run(
            self.chain.of_table(to_table(items, form_of(Trade)))
        ).items()


def test_filter_scan_and_window_go_on_from_batch_to_batch():
    stream = ab.from_iterable([], Trade).filter(is_large).key_by("symbol")
    both = Both(
        stream.scan(vwap, (0.0, 0))
        .key_by("symbol")
        .window(count=4)
        .aggregate(of_window)
    )
    items = make_trades(200)

    for start in range(0, 200, 37):
        batch = items[start : start + 37]
        assert both.python(batch) == both.columns(batch)
    assert both.one.states == both.two.states


def test_columns_and_python_may_take_turns():
    both = Both(
        ab.from_iterable([], Trade)
        .key_by("symbol")
        .window(count=3)
        .aggregate(lambda ts: Price(ts[0].ts, ts[0].symbol, sum(t.price for t in ts)))
    )
    items = make_trades(120)

    for number, start in enumerate(range(0, 120, 10)):
        batch = items[start : start + 10]
        expected = both.python(batch)
        run = both.columns if number % 2 else lambda b: both.python(b, both.two)
        assert expected == run(batch)
    assert both.one.states == both.two.states


WINDOWS = {
    "count": {"count": 4},
    "count that slides": {"count": 5, "every": 2},
    "time": {"time": 40, "on": "ts", "late": "drop"},
    "time that slides": {"time": 60, "every": 20, "on": "ts", "late": "include"},
    "delta": {"delta": 12.5, "on": "price"},
    "delta that slides": {"delta": 30.0, "every": 7.5, "on": "price"},
}


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_that_stay_in_columns_hold_what_the_interpreter_holds(window):
    """
    Keys come later, a batch gives up, Python takes some items: nobody sees the columns.
    """
    options = WINDOWS[window]
    both = Both(
        ab.from_iterable([], Trade)
        .key_by("symbol")
        .window(**options)
        .aggregate(lambda ts: Price(ts[0].ts, ts[0].symbol, sum(t.price for t in ts)))
    )
    (states,) = both.two.states.values()
    rng = random.Random(4)
    clock = 0
    for number in range(60):
        batch = []
        for n in range(rng.randrange(1, 30)):
            clock += rng.randrange(4)
            name = f"S{rng.randrange(2 + number // 4)}"
            late = 30 * (n % 13 == 5 and options.get("on") == "ts")
            batch.append(Trade(clock - late, name, clock / 2, n))
        expected = both.python(batch)
        if number % 7 == 3:
            with pytest.raises(UnfitError):
                both.chain.run(
                    both.chain.of_items([*batch, batch[0]._replace(price=1)])
                )
        if number % 11 == 5:
            assert expected == both.python(batch, both.two)
            assert states.holder is None
        else:
            assert expected == both.columns(batch)
            assert states.holder is not None
        if number % 5 == 0:
            assert both.one.states == both.two.states
    assert both.one.states == both.two.states


def test_the_least_time_of_64_bits_is_left_to_python():
    """Its absolute value has no place in 64 bits."""
    both = Both(
        ab.from_iterable([], Trade)
        .key_by("symbol")
        .window(time=10, on="ts")
        .aggregate(count=ab.count())
    )

    with pytest.raises(UnfitError, match="a time is too large"):
        both.columns([Trade(-(1 << 63), "A", 0.5, 1), Trade(7, "A", 0.5, 1)])


def test_many_keys_are_not_held_for_a_few_items(monkeypatch):
    monkeypatch.setattr("anabranch.runtime.columns.held_state._HELD_KEYS", 8)
    stream = ab.from_iterable([], Trade).key_by("ts").window(count=2)
    both = Both(stream.aggregate(of_window))
    many = [Trade(n, "S", 1.5, n) for n in range(50)]
    batches = [many, many[:3], many[10:40], many]

    assert [both.python(b) for b in batches] == [both.columns(b) for b in batches]
    assert both.one.states == both.two.states


def test_a_batch_that_gives_up_leaves_the_states_as_they_were():
    both = Both(ab.from_iterable([], Trade).key_by("symbol").scan(vwap, (0.0, 0)))
    both.columns(make_trades(20))
    before = {k: list(v) for k, v in both.two.states["scan"].items()}
    bad = [
        *make_trades(5),
        Trade(1, "S1", 1.0, -(1 << 62) - 5),
        Trade(1, "new", 1.0, 0),
    ]

    with pytest.raises(UnfitError):
        both.columns(bad)

    assert before == dict(both.two.states["scan"])


def test_a_key_whose_items_are_filtered_out_gets_no_state():
    stream = ab.from_iterable([], Trade).filter(is_large).key_by("symbol")
    both = Both(stream.scan(vwap, (0.0, 0)))

    both.columns([Trade(1, "small", 1.0, 1), Trade(2, "large", 1.0, 9)])

    assert ["large"] == list(both.two.states["scan"])


def test_a_state_of_another_type_is_pythons():
    both = Both(ab.from_iterable([], Trade).key_by("symbol").scan(vwap, (0.0, 0)))
    both.two.states["scan"]["S1"] = [(1, 2)]

    with pytest.raises(UnfitError):
        both.columns([Trade(1, "S1", 1.0, 1)])


def test_whole_numbers_beyond_64_bits_give_pythons_values():
    def grow(state, t):
        return state * 3 + t.volume, t

    both = Both(ab.from_iterable([], Trade).scan(grow, 1))
    items = make_trades(60)
    seen = []
    for start in range(0, 60, 10):
        batch = items[start : start + 10]
        expected = both.python(batch)
        try:
            actual = both.columns(batch)
            seen.append("columns")
        except UnfitError:
            actual = both.python(batch, both.two)
            seen.append("python")
        assert expected == actual
    assert both.one.states == both.two.states
    assert ["columns", "columns", "columns", "python", "python", "python"] == seen


def test_an_empty_batch_gives_an_empty_batch():
    both = Both(ab.from_iterable([], Trade).filter(is_large))

    assert [] == both.columns([Trade(1, "a", 1.0, 1)])


def test_kernels_that_keep_giving_up_are_dropped():
    both = Both(
        ab.from_iterable([], Trade).map(lambda t: t._replace(price=1 / t.volume))
    )
    tier = ChainTier(both.ops, both.kernels, {}, "at once")
    table = to_table([Trade(1, "a", 1.0, 0)], form_of(Trade))

    assert tier.ready
    assert [None] * 5 == [tier.run(table) for _ in range(5)]
    assert not tier.ready
    assert "keep going through Python" in tier.why_not


def test_a_small_job_is_not_compiled():
    both = Both(
        ab.from_iterable([], Trade).map(lambda t: t._replace(price=t.price + 7))
    )
    tier = ChainTier(both.ops, {**both.kernels}, {}, "never")

    assert not tier.ready


class Number(NamedTuple):
    n: int
    x: float
    s: str


TABLE = {"a": 0.5, "b": 3.0}


def powers(t):
    return Number(t.n**3 + (t.n << 2), t.x**2.0 + abs(t.x) ** 0.5, t.s)


def digits(t):
    return t._replace(x=round(t.x, 2) + round(t.x / 8, 1))


def tables(t):
    return t._replace(x=TABLE.get(t.s, -1.0) * TABLE["a"], n=[5, 6, 7][t.n % 3])


def caught(t):
    try:
        ratio = t.x / t.n
    except ZeroDivisionError:
        ratio = -1.0
    return t._replace(x=ratio)


@pytest.mark.parametrize("function", [powers, digits, tables, caught])
def test_compiled_helpers_are_exact(function):
    rng = random.Random(5)
    items = [
        Number(rng.randrange(-9, 9), rng.choice([rng.uniform(-99, 99), k / 8]), word)
        for k in range(3000)
        for word in [rng.choice("abc")]
    ]
    graph = build_graph([ab.from_iterable([], Number).map(function).to_list()])
    (found,) = find_columns(graph, {op.name: Traits("stateless") for op in graph})
    assert found.kernel is not None, found.why
    chain = ColumnChain([graph["map"]], {"map": found.kernel}, {})

    made = chain.run(chain.of_table(to_table(items, form_of(Number)))).items()

    assert list(map(repr, map(function, items))) == list(map(repr, made))


def divisor(t):
    return t._replace(n=math.gcd(t.n, 0))


def test_a_divisor_beyond_64_bits_is_left_to_python():
    graph = build_graph([ab.from_iterable([], Number).map(divisor).to_list()])
    (found,) = find_columns(graph, {op.name: Traits("stateless") for op in graph})
    assert found.kernel is not None, found.why
    chain = ColumnChain([graph["map"]], {"map": found.kernel}, {})

    (made,) = chain.run(chain.of_items([Number(1 - (1 << 63), 0.5, "a")])).items()
    assert (1 << 63) - 1 == made.n
    with pytest.raises(UnfitError):
        chain.run(chain.of_items([Number(-1 << 63, 0.5, "a")]))


def test_a_punctuation_among_plain_values_makes_the_batch_go_through_python():
    graph = build_graph([ab.from_iterable([], int).map(lambda n: 5).to_list()])
    (found,) = find_columns(graph, {op.name: Traits("stateless") for op in graph})
    chain = ColumnChain([graph["map"]], {"map": found.kernel}, {})

    assert [5, 5] == chain.run(chain.of_items([1, 2])).items()
    with pytest.raises(UnfitError):
        chain.of_items([1, WINDOW, 2])
