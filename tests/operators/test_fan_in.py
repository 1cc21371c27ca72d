"""Merge, barrier and collect: what goes on, and which arrival lets it go."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.operators.blocks import Collect, CollectKernel
from anabranch.operators.fan_in import Barrier, BarrierKernel, Merge, MergeKernel
from tests.operators.driving import Point, drive, on_ports, points
from tests.programs import definitions

PORTS = st.lists(st.integers(0, 2), max_size=25)
ARRIVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=25)


def spread(ports, items):
    """Return arrivals and what came in on each of three ports."""
    arrivals = on_ports(zip(ports, items, strict=False))
    return arrivals, [[a.item for a in arrivals if a.port == p] for p in range(3)]


@given(PORTS, st.lists(st.integers(0, 9)).map(sorted))
def test_merge_of_sorted_inputs_is_sorted_with_the_earlier_input_first(ports, times):
    arrivals, inputs = spread(ports, points(times))

    merged = [item for _, item in drive(MergeKernel(Merge("t"), 3), arrivals)]

    assert list(heapq.merge(*inputs, key=lambda p: p.t)) == merged


@given(ARRIVALS)
def test_merge_follows_the_definition_on_any_input(pairs):
    arrivals = on_ports((port, Point(t, n)) for n, (port, t) in enumerate(pairs))
    defined = definitions.merge(Merge("t"), arrivals, 3)

    assert [(o.trigger, o.item) for o in defined] == drive(
        MergeKernel(Merge("t"), 3), arrivals
    )


def test_merge_waits_until_every_input_has_an_item():
    arrivals = on_ports([(0, Point(1)), (0, Point(2)), (1, Point(9))])

    assert [(2, Point(1)), (2, Point(2)), (math.inf, Point(9))] == drive(
        MergeKernel(Merge("t"), 2), arrivals
    )


def test_merge_refuses_an_item_without_the_attribute_and_goes_on():
    kernel = MergeKernel(Merge("t"), 2)
    state = kernel.open()

    with pytest.raises(AttributeError):
        kernel.process(state, "no time", 0)

    kernel.process(state, Point(1), 0)
    assert [Point(1)] == kernel.process(state, Point(2), 1)


@given(ARRIVALS)
def test_barrier_zips_and_leaves_the_rest(pairs):
    arrivals, inputs = spread(*zip(*pairs, strict=True)) if pairs else ([], [[]] * 3)

    outputs = drive(BarrierKernel(Barrier(), 3), arrivals)

    assert list(zip(*inputs, strict=False)) == [item for _, item in outputs]
    assert math.inf not in [trigger for trigger, _ in outputs]


def test_barrier_gives_a_set_when_its_last_item_has_come():
    arrivals = on_ports([(1, "x"), (1, "y"), (0, "a"), (0, "b")])
    kernel = BarrierKernel(Barrier(lambda left, right: left + right), 2)

    assert [(2, "ax"), (3, "by")] == drive(kernel, arrivals)


@given(st.tuples(*[st.integers(0, 3)] * 3).filter(any), ARRIVALS)
def test_collect_follows_the_definition(weights, pairs):
    arrivals = on_ports(pairs)
    defined = definitions.collect(Collect(weights), arrivals)

    assert [(o.trigger, o.item) for o in defined] == drive(
        CollectKernel(Collect(weights)), arrivals
    )


COLLECTED = {
    "whole turns": ((2, 1), "aabaab", "aabaab"),
    "out of turn waits": ((1, 1), "bbaa", "abab"),
    "at the end branches that have nothing are passed over": ((1, 1), "aab", "aba"),
    "the rest of a turn that was begun comes first": ((2, 1), "abb", "abb"),
    "a branch of weight nothing is left": ((1, 0), "abab", "aa"),
}


@pytest.mark.parametrize(
    ("weights", "arriving", "collected"), COLLECTED.values(), ids=COLLECTED
)
def test_collect_examples(weights, arriving, collected):
    arrivals = on_ports(("ab".index(letter), letter) for letter in arriving)

    outputs = drive(CollectKernel(Collect(weights)), arrivals)

    assert collected == "".join(item for _, item in outputs)


class Tick(NamedTuple):
    t: int
    key: str


def ticks(*marks: str) -> ab.Stream:
    """A stream of ticks, each written as its key and its time: `a1`."""
    return ab.from_iterable([Tick(int(mark[1:]), mark[0]) for mark in marks], Tick)


def marks_of(stream: ab.Stream) -> list[str]:
    return [f"{tick.key}{tick.t}" for tick in ab.testing.outputs(stream)]


def test_merge_by_key_waits_for_items_of_the_same_key_only():
    left, right = ticks("a1", "b9", "a5"), ticks("a4", "a6", "b2")

    merged = marks_of(ab.merge(left, right, by="t", on="key"))

    assert ["a1", "a4", "a5", "b2", "a6", "b9"] == merged


def test_barrier_by_key_pairs_items_of_the_same_key():
    left, right = ticks("a1", "b2", "a3", "c4"), ticks("b5", "a6", "a7")

    pairs = ab.testing.outputs(
        ab.barrier(left, right, on="key", into=lambda x, y: f"{x.key}{x.t}{y.t}")
    )

    assert ["b25", "a16", "a37"] == pairs
