"""Which functions become kernels, and why others do not."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.compiler.columns.choose_columns import choose_columns, find_columns
from anabranch.compiler.options import LOCAL, SPARK
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.plan.plan import Element


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    ts: int
    symbol: str
    price: float


class Loose(NamedTuple):
    tags: list


def kernel_of(stream):
    """Return the kernel of the last operator of a stream, or why it has none."""
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    last = find_columns(graph, known)[-1]
    return last.kernel or last.why


def trades():
    return ab.from_iterable([], Trade)


def replace_price(t):
    return t._replace(price=t.price * 2)


def test_attributes_that_are_passed_on_are_not_read():
    kernel = kernel_of(trades().map(replace_price))

    assert (0, 1, None, 3) == kernel.sources
    assert (2,) == kernel.reads


def test_a_string_that_is_passed_on_has_no_code():
    kernel = kernel_of(
        trades().map(lambda t: Price(t.ts, t.symbol, t.price / t.volume))
    )

    assert (0, 1, None) == kernel.sources
    assert 1 not in kernel.reads


def running(state, t):
    return state + t.price, Price(t.ts, t.symbol, state)


def test_a_state_that_begins_as_an_int_and_goes_on_as_a_float_keeps_both_apart():
    def step(state, t):
        new = state + t.price
        return new, Price(t.ts, t.symbol, t.price)

    kernel = kernel_of(trades().scan(step, 0))

    assert ("int", "float") == kernel.state.kinds


def test_functions_of_strings_become_tables():
    kernel = kernel_of(trades().filter(lambda t: t.symbol.upper().startswith("A")))

    assert ["s.upper()", "s.startswith('A')"] == [t.text for t in kernel.tables]


def with_list(t):
    found = [t.price]
    for one in found:
        found.append(one + 1.0)  # noqa: PERF401
    return t._replace(price=found[0])


def with_print(t):
    print(t)  # noqa: T201
    return t


def test_a_function_that_gives_other_types_than_declared_is_taken_at_its_word():
    kernel = kernel_of(trades().map(lambda t: t._replace(price=t.volume)))

    assert [("int",), ("str",), ("int",), ("int",)] == [
        one.kinds for one in kernel.gives.scalars()
    ]
    assert (0, 1, 3, 3) == kernel.sources


def with_finally(t):
    try:
        return t._replace(price=1 / t.volume)
    finally:
        t = None


def with_digits(t):
    return t._replace(price=round(t.price, t.volume))


def recursive(n):
    return recursive(n - 1) if n else 0


def with_recursion(t):
    return t._replace(volume=recursive(t.volume))


def with_hypot(t):
    return t._replace(price=math.hypot(t.price, 2.0))


@pytest.mark.parametrize(
    ("function", "line", "reason"),
    [
        (with_list, 3, "adds to a list while it goes through it"),
        (with_print, 1, "calls print"),
        (with_finally, 1, "has a finally"),
        (with_digits, 1, "rounds to other digits"),
        (with_recursion, 0, "recursive calls itself"),
        (with_hypot, 1, "calls math.hypot"),
    ],
)
def test_what_is_refused_is_refused_with_its_line(function, line, reason):
    why = kernel_of(trades().map(function))

    assert reason in why
    if function is not with_recursion:
        assert f":{function.__code__.co_firstlineno + line})" in why


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (lambda: trades().map(str), "is not a function written in Python"),
        (lambda: trades().punctuate(lambda t: t.ts), "of the kind punctuate"),
        (lambda: ab.from_iterable([], Loose).map(lambda t: t), "plain attributes"),
        (lambda: trades().map(lambda t: None), "gives nothing but None"),
        (lambda: trades().key_by("price").scan(running, 0.0), "has the key price"),
        (lambda: trades().window(time=5, on="ts").aggregate(len), "len"),
        (
            lambda: trades().window(time=0.5, on="ts").aggregate(n=ab.count()),
            "a window by time=0.5 on ts, which does not go with its type",
        ),
    ],
)
def test_operators_that_stay_in_python_say_why(stream, reason):
    assert reason in kernel_of(stream())


def test_a_function_that_is_not_proven_pure_is_refused():
    graph = build_graph([trades().map(replace_price, name="op").to_list()])
    traits = {op.name: Traits("stateless") for op in graph}
    traits["op"] = Traits("global")

    (found,) = find_columns(graph, traits)

    assert "not proven to depend on its items alone" in found.why


def test_explain_says_columns_or_python_for_each_operator(tmp_path):
    (tmp_path / "t.csv").write_text("ts,symbol,price,volume\n1,a,2.0,3\n")
    source = ab.read_csv(tmp_path / "t.csv", Trade)
    sink = source.map(replace_price).write_csv(tmp_path / "out")

    data = ab.compile(sink).to_dict()["operators"]

    assert [("read_csv", "python"), ("map", "columns"), ("write_csv", "python")] == [
        (one["name"], one["runs"]) for one in data
    ]
    assert "map: columns (compiled; 1 of 4 columns are computed)" in ab.explain(sink)


def test_one_operator_in_python_leaves_the_others_in_columns(tmp_path):
    (tmp_path / "t.csv").write_text("ts,symbol,price,volume\n1,a,2.0,3\n")
    source = ab.read_csv(tmp_path / "t.csv", Trade)
    both = source.map(replace_price, name="one").map(with_hypot, name="two")

    ops = ab.compile(both.write_csv(tmp_path / "out")).to_dict()["operators"]
    why = {one["name"]: (one["runs"], one["why"]) for one in ops}

    assert ("columns", "compiled; 1 of 4 columns are computed") == why["one"]
    assert "calls math.hypot" in why["two"][1]


@pytest.mark.parametrize(
    ("together", "effects", "why"),
    [
        ((), (), "compiled; 1 of 4 columns are computed"),
        ((("one", "other"),), (), "compiled; 1 of 4 columns are computed"),
        (
            (("one", "three"),),
            (),
            "one and three, which run with it, must take turns by item",
        ),
        ((), ("one",), "one, which runs with it, runs in the driver"),
    ],
)
def test_operators_that_share_something_run_item_by_item(
    tmp_path, together, effects, why
):
    (tmp_path / "t.csv").write_text("ts,symbol,price,volume\n1,a,2.0,3\n")
    source = ab.read_csv(tmp_path / "t.csv", Trade)
    first = source.map(with_hypot, type=Trade, name="one")
    last = first.map(replace_price, type=Trade, name="two").map(
        with_hypot, name="three"
    )
    graph = build_graph([last.to_list()])
    known = {op.name: Traits("stateless", effects=op.name in effects) for op in graph}
    element = Element("e", ("read_csv", "one", "two", "three"), None)

    chosen = choose_columns(graph, known, [element], SPARK, together=together)
    assert why == chosen["two"].why


@pytest.mark.parametrize(
    ("effects", "why"),
    [
        ((), "compiled; 1 of 4 columns are computed"),
        (("one",), "compiled; 1 of 4 columns are computed"),
        (
            ("one", "three"),
            "operators on both sides of it must take turns item by item",
        ),
    ],
)
def test_effects_on_both_sides_keep_threads_from_batches(effects, why):
    first = trades().map(with_hypot, type=Trade, name="one")
    last = first.map(replace_price, type=Trade, name="two").map(
        with_hypot, name="three"
    )
    graph = build_graph([last.to_list()])
    known = {op.name: Traits("stateless", effects=op.name in effects) for op in graph}
    element = Element("e", ("from_iterable", "one", "two", "three"), None)

    assert why == choose_columns(graph, known, [element], LOCAL)["two"].why


def test_operators_that_punctuations_pass_through_run_in_columns():
    marked = trades().punctuate(lambda t: t.ts > 3).map(replace_price, name="op")
    ops = ab.compile(marked.to_list(), on="local").to_dict()["operators"]

    assert {"op": "columns", "punctuate": "python"} == {
        one["name"]: one["runs"] for one in ops if one["why"]
    }


def test_a_union_between_operators_in_python_stays_there():
    one, two = (
        trades().map(with_hypot, type=Trade, name=name) for name in ("one", "two")
    )
    ops = ab.compile(ab.union(one, two, name="both").to_list()).to_dict()["operators"]

    why = {one["name"]: (one["runs"], one["why"]) for one in ops}
    assert ("python", "its neighbours run in Python") == why["both"]
