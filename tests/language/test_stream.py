"""`Stream`: what a chain of calls builds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError
from anabranch.graph.graph import Output
from anabranch.language.drafts import build_graph


class Trade(NamedTuple):
    symbol: str
    price: float


class Total(NamedTuple):
    symbol: str
    price: float


def price(t: Trade) -> float:
    return t.price


def halves(t: Trade) -> Iterator[float]:
    yield t.price / 2


def step(n: int, t: Trade) -> tuple[int, str]:
    return n + 1, t.symbol


def total(trades: list[Trade]) -> Total:
    return Total(trades[0].symbol, sum(t.price for t in trades))


def pair(left: Trade, right: Trade) -> Total:
    return Total(left.symbol, right.price)


class Fees(ab.Operator):
    def process(self, item: Trade) -> Iterator[float]:
        yield item.price


def trades(name=None):
    return ab.from_iterable([], Trade, name=name)


def graph_of(*streams):
    return build_graph([stream.to_list() for stream in streams])


TYPES = {
    "map by annotation": (lambda: trades().map(price), float),
    "map by type=": (lambda: trades().map(lambda t: t.price, type=float), float),
    "map without a word": (lambda: trades().map(lambda t: t.price), None),
    "filter keeps it": (lambda: trades().filter(bool), Trade),
    "flat_map": (lambda: trades().flat_map(halves), float),
    "scan": (lambda: trades().scan(step, 0), str),
    "apply": (lambda: trades().apply(Fees), float),
    "aggregate by function": (lambda: trades().window(count=2).aggregate(total), Total),
    "aggregate into": (
        lambda: trades().window(count=2).aggregate(
            symbol=ab.any("symbol"), price=ab.sum("price"), into=Total
        ),
        Total,
    ),
    "split keeps it": (lambda: trades().split(len, 2)[1], Trade),
    "punctuate keeps it": (lambda: trades().punctuate(bool), Trade),
    "union of one type": (lambda: ab.union(trades(), trades()), Trade),
    "union of two types": (lambda: ab.union(trades(), trades().map(price)), None),
    "merge": (lambda: ab.merge(trades(), trades(), by="price"), Trade),
    "barrier of a type": (lambda: ab.barrier(trades(), trades(), into=Total), Total),
    "barrier of pairs": (lambda: ab.barrier(trades(), trades()), None),
    "join into": (
        lambda: trades().join(trades(), left_window=1, right_window=1, into=pair),
        Total,
    ),
    "iterate": (lambda: trades().iterate(lambda s: s.map(price), rounds=1), float),
}  # fmt: skip


@pytest.mark.parametrize(("stream", "made"), TYPES.values(), ids=TYPES)
def test_types_come_from_annotations(stream, made):
    assert made is stream().type


def test_a_key_stays_until_another():
    keyed = trades().key_by("symbol").map(price).filter(bool)

    assert ("symbol",) == keyed.key
    assert ("a", "b") == keyed.key_by("a", "b").key
    assert () == keyed.key_by().key


def test_only_operators_that_can_keep_state_apart_have_a_state_key():
    scanned = trades().key_by("symbol").map(abs, name="m").scan(step, 0, name="s")
    graph = graph_of(scanned)

    assert ((), ("symbol",)) == (graph["m"].state_key, graph["s"].state_key)


def test_fan_in_keeps_a_key_that_all_inputs_share():
    one, two = trades().key_by("symbol"), trades()

    assert ("symbol",) == ab.union(one, one).key
    assert () == ab.union(one, two).key


def test_a_join_keeps_state_by_what_it_is_on():
    joined = trades().join(
        trades(), on="symbol", left_window=1, right_window=1, name="j"
    )

    assert ("symbol",) == graph_of(joined)["j"].state_key


def test_operators_stand_in_the_order_in_which_they_were_written():
    source = trades(name="source")
    late = source.map(price, name="late")
    early = source.filter(bool, name="early")
    both = ab.union(early, late, name="both")

    graph = build_graph([both.to_list(name="out")])

    assert ("source", "late", "early", "both", "out") == graph.names
    assert ("late", "early") == graph.consumers("source")
    assert (Output("early"), Output("late")) == graph["both"].inputs


def test_only_what_leads_to_a_sink_is_in_the_graph():
    source = trades(name="source")
    source.map(price, name="dangling")

    assert ("source", "out") == build_graph([source.to_list(name="out")]).names


def test_unnamed_operators_are_numbered_by_kind():
    graph = graph_of(trades().map(abs).map(abs).filter(bool).map(abs))

    assert (
        "from_iterable",
        "map",
        "map_2",
        "filter",
        "map_3",
        "to_list",
    ) == graph.names


def test_a_given_name_is_not_given_again():
    graph = graph_of(trades().map(abs).map(abs, name="map"))

    assert ("from_iterable", "map_2", "map", "to_list") == graph.names


def test_every_operator_knows_the_line_that_made_it():
    stream = trades().map(abs, name="here")

    site = graph_of(stream)["here"].site

    assert site.file.endswith("test_stream.py")
    assert (
        test_every_operator_knows_the_line_that_made_it.__code__.co_firstlineno + 1
        == (site.line)
    )


def test_split_streams_are_ports_of_one_operator():
    _, odd = trades().split(len, 2, name="parts")

    assert (Output("parts", 1),) == graph_of(odd)["to_list"].inputs


def test_fused_operators_know_each_other():
    one = trades().map(abs, name="one")
    two = one.map(abs, name="two")
    ab.fuse(one, two)

    assert "one" == graph_of(two)["two"].fuse_with


def test_only_a_list_sink_has_items():
    assert [] == trades().to_list().items
    with pytest.raises(AttributeError, match="this is for_each"):
        trades().for_each(print).items  # noqa: B018 - the access is the test


def test_streams_of_one_program_can_end_in_several_sinks():
    source = trades(name="source")
    graph = graph_of(source.map(abs), source.filter(bool))

    assert ["to_list", "to_list_2"] == [op.name for op in graph.sinks]
    assert ["source"] == [op.name for op in graph.sources]


def test_a_misspelt_method_gets_the_one_that_was_meant():
    with pytest.raises(AttributeError, match=r"did you mean 'filter'.*to_list"):
        trades().filer(bool)
    assert not hasattr(trades(), "port_of")


@pytest.mark.parametrize("look", [list, lambda stream: stream[0], sorted])
def test_a_stream_that_is_taken_for_a_list_says_how_to_look_at_it(look):
    with pytest.raises(ArgumentError, match=r"ab\.testing\.outputs"):
        look(trades())


def test_a_stream_is_no_collection():
    with pytest.raises(ArgumentError, match="is a stream already; use it as it is"):
        ab.from_iterable(trades())
    assert not isinstance(trades(), Iterable)
    assert trades()
