"""Layouts: what is carried, and how each merger keeps order."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration, lay_out
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks


class Pair(NamedTuple):
    a: int
    b: int


def numbered(state: int, pair: Pair) -> tuple[int, Pair]:
    return state + 1, pair._replace()


def laid(sink, *, ports=(), degree=1, on_error="stop"):
    made = compile_sinks(sink, on="local", on_error=on_error)
    degrees = {region.name: degree for region in made.plan.regions}
    places = frozenset(Input(name) for name in ports)
    configuration = Configuration(places, degrees)
    resilient = on_error != "stop"
    return lay_out(made.graph, made.plan, configuration, resilient=resilient)


def merged(layout, operator):
    return layout.element_of(operator).strategy


def source():
    return ab.from_iterable([Pair(1, 2)], Pair)


PROGRAMS = {
    "one to one without state: turns": (
        lambda: source().map(lambda p: p),
        "round_robin",
    ),
    "dropping items: strict numbers": (
        lambda: source().filter(lambda p: p.a),
        "strict",
    ),
    "several outputs: relaxed numbers": (
        lambda: source().flat_map(lambda p: [p] * p.a),
        "relaxed",
    ),
    "one to one by key: numbers": (
        lambda: source().key_by("a").scan(numbered, 0),
        "seqno",
    ),
}


@pytest.mark.parametrize(("program", "strategy"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_region_that_meets_nothing_follows_the_plan(program, strategy):
    layout = laid(program().to_list(name="out"), degree=2)

    assert strategy == merged(layout, "out")


def test_items_that_may_fail_need_pulses():
    layout = laid(
        source().map(lambda p: p).to_list(name="out"), degree=2, on_error="skip"
    )

    assert merged(layout, "out") == "strict"


def test_a_region_of_one_channel_is_fused_with_its_neighbours():
    layout = laid(source().map(lambda p: p, name="m").to_list(name="out"))

    assert ["from_iterable"] == list(layout.elements)


def test_where_threads_meet_every_stream_that_leads_there_carries_positions():
    left = source().map(lambda p: p, name="left")
    right = left.map(lambda p: p, name="right")
    both = ab.union(left, right, name="both")
    layout = laid(both.map(lambda p: p, name="after").to_list(), ports=["right"])

    assert merged(layout, "both") == "position"
    assert layout.element_of("left").carried == "positions"
    assert layout.element_of("right").carried == "positions"
    assert layout.element_of("after").carried == "nothing"


def test_a_shuffle_passes_numbers_on_and_needs_pulses():
    by_a = source().key_by("a").scan(numbered, 0, name="by_a")
    by_b = by_a.key_by("b").scan(numbered, 0, name="by_b")
    layout = laid(by_b.to_list(name="out"), degree=2)

    assert ("numbers", "numbers") == (
        layout.element_of("by_a").carried,
        layout.element_of("by_b").carried,
    )
    assert merged(layout, "by_b") in ("strict", "relaxed")
    assert merged(layout, "out") in ("strict", "relaxed")


def test_a_shuffle_behind_several_outputs_needs_positions():
    several = source().key_by("a").flat_map(lambda p: [p] * p.a, name="several")
    by_a = several.scan(numbered, 0, name="by_a")
    by_b = by_a.key_by("b").scan(numbered, 0, name="by_b")
    layout = laid(by_b.to_list(name="out"), degree=2)

    if layout.element_of("by_a").part != layout.element_of("by_b").part:
        assert merged(layout, "out") == "position"


def by_two_keys():
    by_a = source().key_by("a").scan(numbered, 0, name="by_a")
    by_b = by_a.key_by("b").scan(numbered, 0, name="by_b")
    return compile_sinks(by_b.to_list(name="out"), on="local")


def test_a_region_needs_less_while_its_neighbour_has_one_channel():
    made = by_two_keys()
    orders = []
    for degrees in ({"r0": 2, "r1": 2}, {"r0": 2}, {"r1": 2}):
        layout = lay_out(made.graph, made.plan, Configuration(degrees=degrees))
        orders.append(dict(layout.orders))

    assert [
        {"r0": ("strict", "split", "shuffle"), "r1": ("strict", "shuffle", "merge")},
        {"r0": ("seqno", "split", "merge")},
        {"r1": ("seqno", "split", "merge")},
    ] == orders


def test_a_region_of_groups_waits_for_the_region_before_it():
    large = source().filter(lambda p: p.a > 1)
    pairs = large.block(lambda items: items[:1], pop=2, push=1, name="pairs")
    made = compile_sinks(pairs.to_list(), on="local")
    orders = []
    for degrees in ({"r0": 2, "r1": 2}, {"r1": 2}):
        layout = lay_out(made.graph, made.plan, Configuration(degrees=degrees))
        orders.append({name: order.ordering for name, order in layout.orders.items()})

    assert [{"r0": "strict"}, {"r1": "strict"}] == orders
    said = " ".join(made.explain().split())
    assert "several replicas only while the region before it has one" in said
