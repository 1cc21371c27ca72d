"""What of Python becomes kernels: each gives what Python gives, or leaves it to Python."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.compiler.columns.choose_columns import find_columns
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.runtime.columns import chain as chains
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.program import Program
from tests.compiler.columns.test_fuzz import exactly, interpret

PRICES = {"a": 1.5, "b": 2.5}
BY_NUMBER = {1: "one", 2: "two"}
WEIGHTS = [0.5, 0.25, 4.0]


class Row(NamedTuple):
    i: int
    f: float
    s: str


def raises_with_a_text(t):
    if t.i < 0:
        msg = f"{t.i} of {t!r} is negative"
        raise ValueError(msg)
    return t.i


def raises_an_error_without_a_text(t):
    if t.i >= 0:
        return t.f
    raise AssertionError


def raises_before_another(t):
    if t.i == 2:
        raise KeyError(t.s)
    if t.i == -3:
        raise ValueError(t.i, t.f)
    return t.s


def is_in_a_set(t):
    return t.s in {"a", "c"} or t.i in {1, 2}


def is_in_a_range(t):
    return t.i in range(-3, 8, 2), t.i in range(5, 0, -2), t.i not in range(3)


def is_among_floats(t):
    return t.f in (1.5, 2, -0.0)


def breaks_out_of_a_list(t):
    found = -1.0
    for weight in WEIGHTS:
        if weight * t.i > t.f:
            found = weight
            break
    return found


def skips_parts_of_a_tuple(t):
    total = 0
    for one in (t.i, 3, t.i * 2):
        if one % 2:
            continue
        total += one
    return total


def breaks_or_not(t):
    found = 0
    for divisor in range(2, 6):
        if t.i % divisor == 0:
            found = divisor
            break
    else:
        found = t.i * 100
    return found


def breaks_inside(t):
    n = t.i
    while n < 50:
        for k in (1, 2):
            if n % 7 == k:
                break
        else:
            n += 1
        n += 3
        if n == 40:
            break
    else:
        return n
    return -n


def looks_up_or_none(t):
    return PRICES.get(t.s)


def looks_up_or_a_number(t):
    return PRICES.get(t.s, t.i)


def looks_up_a_number(t):
    return BY_NUMBER.get(t.i, t.s), BY_NUMBER.get(t.i)


def compares_tuples(t):
    one, two = (t.i, t.s, t.f), (2, "b", 1.5)
    return one == two, one != two, one < two, one >= two, (t.i,) < (t.i, 1)


def compares_records(t):
    return t == Row(1, 1.5, "a"), t > (1, 1.5)


def takes_a_logarithm(t):
    return math.log(t.f, 3)


def takes_a_divisor(t):
    return math.gcd(t.i, 12)


def goes_backwards(t):
    x = 0.0
    for weight in reversed(WEIGHTS):
        x = x * t.f + weight
    return x


def forgets_a_name(t):
    x = t.i
    y = x + 1
    del x
    return y


FUNCTIONS = [value for value in list(vars().values()) if type(value) is type(exactly)]
FUNCTIONS = [f for f in FUNCTIONS if f.__module__ == __name__]
ITEMS = [
    Row(i, f, s)
    for i in (-3, 0, 1, 2, 7, 40)
    for f in (-2.5, -0.0, 1.5, 2.0, math.nan, math.inf)
    for s in ("a", "b", "z")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_kernel_gives_what_python_gives(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Row).map(function, name="op")
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    found = find_columns(graph, known)[-1]
    assert found.kernel is not None, found.why
    chain = chains.ColumnChain([graph["op"]], {"op": found.kernel}, {})

    in_columns = 0
    for item in ITEMS:
        try:
            (actual,) = chain.run(chain.of_items([item])).items()
        except UnfitError:
            continue  # which Python runs
        in_columns += 1
        assert exactly(function(item)) == exactly(actual), item

    assert in_columns >= len(ITEMS) // 2


@pytest.mark.parametrize(
    "function",
    [raises_with_a_text, raises_an_error_without_a_text, raises_before_another],
)
def test_a_kernel_gives_up_where_python_raises(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Row).map(function, name="op")
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    kernel = find_columns(graph, known)[-1].kernel
    chain = chains.ColumnChain([graph["op"]], {"op": kernel}, {})

    with pytest.raises(UnfitError):
        chain.run(chain.of_items([Row(-3, 1.0, "a")]))


def makes_a_set_of_items(t):
    return t.i in {t.i + 1, 2}


def test_a_set_of_what_is_not_known_is_refused_with_its_line():
    graph = build_graph([ab.from_iterable([], Row).map(makes_a_set_of_items).to_list()])
    known = {op.name: Traits("stateless") for op in graph}

    found = find_columns(graph, known)[-1]

    line = makes_a_set_of_items.__code__.co_firstlineno + 1
    assert "has a set of values that are not known" in found.why
    assert f"test_python.py:{line}" in found.why


def takes_the_latest(rows):
    return max(rows, key=lambda row: row.i)


def takes_the_least_by_two(rows):
    return min(rows, key=lambda row: (-row.i, row.s)).f


def takes_by_a_string(rows):
    return max(rows, key=lambda row: row.s if row.i > 0 else "b").i


def takes_by_a_price(rows):
    return max(rows, key=lambda row: (PRICES.get(row.s), row.i))


@pytest.mark.parametrize(
    "function",
    [takes_the_latest, takes_the_least_by_two, takes_by_a_string, takes_by_a_price],
)
def test_the_best_item_of_a_window_is_found_by_a_key(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Row).window(count=7).aggregate(function, name="op")
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    found = find_columns(graph, known)[-1]
    assert found.kernel is not None, found.why
    program = Program(graph, ["op"], graph.out_edges(graph.sources[0].name))
    chain = chains.ColumnChain([graph["op"]], {"op": found.kernel}, program.states)
    items = [item for item in ITEMS if item.f == item.f and item.s in PRICES]
    windows = [items[n : n + 7] for n in range(0, len(items) // 7 * 7, 7)]

    made = chain.run(chain.of_items(items)).items()

    assert list(map(function, windows)) == made
