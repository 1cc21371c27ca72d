"""Regions that part and meet: the sequential result at any degree, also while it changes."""

from __future__ import annotations

import random

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from tests.engines.local.shaking import (
    any_configuration,
    ended,
    keep_changing,
    started,
    stumble,
)
from tests.programs.functions import (
    Event,
    bump,
    events,
    is_even,
    pair_up,
    plain,
    running_total,
)
from tests.programs.generate import Program, assert_same, program, run_sequential

LONG = pytest.param(range(12, 3000), marks=pytest.mark.long)


def run_anyhow(seed, *, changing=False):
    """Run the program of a seed under any configuration; check its results."""
    rng = random.Random(seed)

    def run(sinks):
        running = started(sinks, lambda *made: any_configuration(rng, *made))
        if changing:
            keep_changing(running, rng)
        ended(running)

    assert_same(program(seed, graphs=True), run)


@pytest.mark.parametrize("seeds", [range(12), LONG], ids=["some", "many"])
def test_any_ports_and_degrees_give_the_sequential_result(seeds):
    for seed in seeds:
        run_anyhow(seed)


@pytest.mark.parametrize(
    "seeds",
    [range(5000, 5005), pytest.param(range(5005, 6000), marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_changes_while_it_runs_give_the_sequential_result(seeds, monkeypatch):
    stumble(monkeypatch, seeds[0])
    for seed in seeds:
        run_anyhow(seed, changing=True)


def diamond():
    """Two sources, a fan-out, a fan-in, a keyed join, and sinks on the way."""
    one = ab.from_iterable(events(1, 200), Event)
    two = ab.from_iterable(events(2, 90), Event)
    raised = one.map(bump, name="raised")
    even = raised.filter(is_even, name="even")
    both = ab.union(even, raised, name="both").key_by("key")
    sums = both.scan(running_total, 0, name="sums")
    pairs = sums.join(two, on="key", left_window=3, right_window=2, name="pairs")
    return [even.to_list(), sums.to_list(), pairs.to_list()]


def test_one_region_takes_in_what_parts_and_meets():
    made = ab.compile(*diamond(), on="local")

    [first, second] = made.to_dict()["regions"]

    assert ["raised", "even"] == first["operators"][:2]
    assert {"both", "sums", "pairs"} <= {*first["operators"], *second["operators"]}
    assert [] == [s.operator for s in made.plan.sequential if s.operator == "pairs"]


def in_any_order(*, ordered):
    """A region without a key, and one with a key behind it."""
    kept = ab.from_iterable(events(1, 400), Event).filter(is_even, name="kept")
    sums = kept.map(bump, name="bumped").key_by("key").scan(running_total, 0)
    called = []
    return called, [
        kept.map(plain, name="plain").for_each(called.append, ordered=ordered),
        sums.to_list(ordered=ordered),
    ]


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_sinks_in_any_order_get_the_same_items(degree):
    expected, sinks = in_any_order(ordered=True)
    ab.run(*sinks, on="sequential")
    actual, others = in_any_order(ordered=False)

    ab.run(*others, on="local", degree=degree)

    assert sorted(expected) == sorted(actual)
    assert sorted(sinks[1].items) == sorted(others[1].items)
    assert len(actual) > 100


@pytest.mark.parametrize(
    "seeds",
    [range(8000, 8006), pytest.param(range(8006, 9000), marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_any_program_gives_sinks_in_any_order_the_same_items(seeds):
    for seed in seeds:
        ordered = program(seed, graphs=True)
        anyhow = Program(ordered.text.replace("to_list()", "to_list(ordered=False)"))
        rng, sinks = random.Random(seed), anyhow.build()
        running = started(sinks, lambda *made, rng=rng: any_configuration(rng, *made))

        keep_changing(running, rng)
        ended(running)

        for expected, sink in zip(run_sequential(ordered), sinks, strict=True):
            assert sorted(map(repr, expected)) == sorted(map(repr, sink.items)), ordered


def test_a_region_whose_order_nobody_asks_for_has_none():
    _, sinks = in_any_order(ordered=False)
    made = ab.compile(sinks[1], on="local")

    assert ["strict", "none"] == [region.ordering for region in made.plan.regions]
    assert "ends with a merge: items are passed on as they arrive" in made.explain()


def test_the_failure_that_is_first_is_told_where_no_order_is_kept():
    def quotient(n: int) -> int:
        return 10 // (n - 613) // (n - 702)

    for _ in range(5):
        sink = ab.from_iterable(range(1000), int).map(quotient).to_list(ordered=False)

        with pytest.raises(OperatorError, match="failed on item 614 of"):
            ab.run(sink, on="local", degree=3)


def in_pairs():
    """Streams that meet key by key, and branches that meet item by item."""
    one = ab.from_iterable(events(1, 200), Event)
    two = ab.from_iterable(events(2, 90), Event)
    low, high = one.map(bump, name="low"), one.map(plain, name="high")
    pairs = ab.barrier(low, high, into=pair_up, name="pairs").map(bump, name="behind")
    merged = ab.merge(pairs, two, by="ts", on="key", name="merged")
    keyed = ab.barrier(low, two, on="key", into=pair_up, name="keyed").key_by("key")
    sums = keyed.scan(running_total, 0, name="sums")
    return [pairs.to_list(), merged.to_list(), sums.to_list()]


def test_barriers_and_merges_are_in_regions():
    plan = ab.compile(*in_pairs(), on="local").plan

    found = {region.operators: region.key for region in plan.regions}

    assert ("low", "high", "pairs", "behind") in found
    assert ("key",) == found["merged",]
    assert ("key",) == found["keyed", "sums"]


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_barriers_and_merges_in_regions_give_the_sequential_result(degree):
    expected = in_pairs()
    ab.run(*expected, on="sequential")
    sinks = in_pairs()

    ab.run(*sinks, on="local", degree=degree)

    assert [sink.items for sink in expected] == [sink.items for sink in sinks]
    assert [200, 290, 90] >= [len(sink.items) for sink in sinks] > [0, 0, 50]


def test_pairs_hold_while_the_number_of_replicas_changes(monkeypatch):
    expected = in_pairs()
    ab.run(*expected, on="sequential")
    stumble(monkeypatch, 1)
    rng, sinks = random.Random(1), in_pairs()

    running = started(sinks, lambda *made: any_configuration(rng, *made))
    keep_changing(running, rng)
    ended(running)

    assert [sink.items for sink in expected] == [sink.items for sink in sinks]


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_a_join_by_key_of_what_parts_and_meets(degree):
    expected = diamond()
    ab.run(*expected, on="sequential")
    sinks = diamond()

    ab.run(*sinks, on="local", degree=degree)

    assert [sink.items for sink in expected] == [sink.items for sink in sinks]
    assert len(sinks[2].items) > 100


@pytest.mark.parametrize("seeds", [range(9), LONG], ids=["some", "many"])
def test_punctuations_are_where_one_thread_has_them(seeds):
    for seed in seeds:
        generated = program(seed, marked=True)
        degree = 2 + seed % 3
        assert_same(
            generated, lambda sinks, n=degree: ab.run(*sinks, on="local", degree=n)
        )


class Marks(ab.Operator):
    """Passes items on, and gives "|" at each punctuation."""

    def process(self, n: int) -> list[object]:
        return [n]

    def punctuation(self) -> list[object]:
        return ["|"]


@pytest.mark.parametrize("degree", [2, 3])
def test_all_punctuations_that_a_region_makes_for_one_item_arrive(degree):
    numbers = ab.from_iterable(range(1, 7), int)
    marked = numbers.punctuate(lambda n: n % 2 == 0).punctuate(lambda n: n % 3 == 0)
    out = marked.apply(Marks).to_list()

    assert "relaxed" == ab.compile(out, on="local").plan.regions[0].ordering
    ab.run(out, on="local", degree=degree)

    assert [1, 2, "|", 3, "|", 4, "|", 5, 6, "|", "|"] == out.items
