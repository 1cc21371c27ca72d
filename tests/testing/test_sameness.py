"""A program that differs from its sequential run is found; others pass."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError
from anabranch.testing.assertions import (
    SampleRun,
    Setting,
    describe_difference,
    make_graph,
    make_settings,
    run_sample,
    take_sample,
)


class Sale(NamedTuple):
    shop: str
    amount: int


SALES = [Sale("ab"[n % 2], n) for n in range(40)]


def total_sales():
    by_shop = ab.from_iterable(SALES, Sale, name="sales").key_by("shop")
    return by_shop.scan(lambda total, s: (total + s.amount, total + s.amount), 0)


def number_by_declaration():
    """
    Declared to be stateless, which it is not: on several replicas it counts apart.
    """
    seen = []

    @ab.declare(state="stateless")
    def number(sale):
        seen.append(sale)
        return len(seen)

    return ab.from_iterable(SALES, Sale).map(number)


def test_a_program_within_the_contract_is_the_same_everywhere(assert_same_everywhere):
    assert_same_everywhere(total_sales)


@pytest.mark.spark
def test_spark_is_compared_where_it_is_named():
    ab.testing.assert_same_everywhere(
        total_sales, on=("spark",), degrees=(2,), epoch_items=(7,)
    )


@pytest.mark.spark
def test_a_declaration_that_does_not_hold_is_found():
    with pytest.raises(
        AssertionError, match=r"item 21 of 'to_list' must be 21; it is 1"
    ):
        ab.testing.assert_same_everywhere(
            number_by_declaration, on=("spark",), degrees=(2,), epoch_items=(1000,)
        )


def test_sinks_of_the_program_are_left_alone(tmp_path):
    path = tmp_path / "totals.csv"
    calls = []

    def program():
        totals = total_sales()
        return [totals.write_csv(path), totals.for_each(calls.append)]

    ab.testing.assert_same_everywhere(program)

    assert not path.exists()
    assert [] == calls


def test_a_sample_is_the_beginning_of_each_source():
    endless = ab.generate(lambda: iter(int, 1), name="zeros")
    both = make_graph(ab.union(endless, ab.from_iterable([1, 2, 3], name="few")))

    assert {"zeros": [0, 0], "few": [1, 2]} == take_sample(both, 2)


def test_items_that_a_run_changes_are_fresh_in_the_next():
    def program():
        return ab.from_iterable([[1], [2]]).map(lambda one: one.append(0) or len(one))

    graph = make_graph(program)
    sample = take_sample(graph)
    results = [run_sample(graph, sample, Setting("sequential")) for _ in range(2)]

    assert [{"to_list": [2, 2]}] * 2 == [one.items for one in results]


def test_a_program_that_fails_must_fail_alike():
    def inverse():
        return ab.from_iterable([2, 1, 0]).map(lambda n: 2 // n)

    ab.testing.assert_same_everywhere(inverse)

    why = describe_difference(
        SampleRun({}, "OperatorError: no"), SampleRun({"out": []})
    )
    assert "it must fail with 'OperatorError: no'; it does end well here" == why


def test_a_dataframe_is_refused_with_a_way_out():
    graph = make_graph(ab.from_spark(None, int, name="rows"))

    with pytest.raises(ArgumentError, match=r"put ab\.from_iterable\(rows\)"):
        take_sample(graph)


DIFFERENCES = {
    "another item": ([1, 2], [1, 3], "item 2 of 'out' must be 2; it is 3"),
    "another type": ([1], [True], "item 1 of 'out' must be 1; it is True"),
    "another zero": ([0.0], [-0.0], "item 1 of 'out' must be 0.0; it is -0.0"),
    "an item less": ([1, 2], [1], "'out' must have 2 items; it has 1"),
    "an item more": ([1], [1, 1], "'out' must have 1 items; it has 2"),
    "nothing": ([1, float("nan")], [1, float("nan")], None),
}


@pytest.mark.parametrize(
    ("expected", "found", "why"), DIFFERENCES.values(), ids=DIFFERENCES
)
def test_the_first_difference_is_named(expected, found, why):
    assert why == describe_difference(
        SampleRun({"out": expected}), SampleRun({"out": found})
    )


def test_each_engine_has_its_own_settings():
    assert [
        "local, degree 1",
        "local, degree 2",
        "spark, degree 1, epochs of 7 items",
        "spark, degree 2, epochs of 7 items",
    ] == [str(one) for one in make_settings(("local", "spark"), (1, 2), (7,))]
