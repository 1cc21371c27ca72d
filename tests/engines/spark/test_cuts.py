"""Cuts: where they are possible, and that they change nothing but who does the work."""

from random import Random

import pytest

import anabranch as ab
from anabranch.epochs.layout import lay_out, parts_of, why_not_cut
from anabranch.job import compile_sinks
from tests import needs
from tests.engines.spark.items import Trade, note, traded, trades, vwap
from tests.programs.generate import assert_same, program


def layout(*sinks):
    made = compile_sinks(*sinks)
    return lay_out(made.graph, made.plan)


def chain() -> ab.Stream:
    source = ab.generate(lambda: iter(trades(50)), Trade, name="src")
    total = source.scan(vwap, (0.0, 1), name="total")
    return total.scan(lambda n, price: (n + 1, (n, price)), 0, name="number")


def test_a_cut_divides_an_element_at_one_stream():
    made = layout(chain().to_list())

    first, second = parts_of(made, made.unit_of["number"], {"number"})

    assert ("src", "total") == first.operators
    assert ("number",) == second.operators
    assert [("total", "number")] == ends(first.sent) == ends(second.entries)


def ends(edges) -> list[tuple[str, str]]:
    return [(edge.producer.operator, edge.consumer.operator) for edge in edges]


def meeting() -> ab.Stream:
    one = chain()
    side = one.scan(lambda n, x: (n + 1, n), 0, name="side")
    both = ab.union(one, side, name="both")
    return both.scan(lambda n, x: (n + 1, (n, x)), 0, name="last")


def test_a_cut_may_have_several_streams():
    made = layout(meeting().to_list())

    first, second = parts_of(made, made.unit_of["both"], {"both"})

    assert ("both", "last") == second.operators
    assert [("number", "both"), ("side", "both")] == ends(first.sent)


def test_a_stream_passes_by_the_parts_that_do_not_read_it():
    made = layout(meeting().to_list())

    parts = parts_of(made, made.unit_of["both"], {"both", "side", "number"})

    assert [("src", "total"), ("number",), ("side",), ("both", "last")] == [
        part.operators for part in parts
    ]
    passing = [("number", "side"), ("number", "both")]
    assert passing == ends(parts[1].sent) == ends(parts[2].received)
    assert passing[:1] == ends(parts[2].entries)
    assert [("number", "both"), ("side", "both")] == ends(parts[3].entries)


def test_cuts_that_do_not_follow_one_another_are_parts_in_a_row():
    """Two branches, each with a cut: the second branch waits behind the first."""
    one = chain()
    left = one.scan(lambda n, x: (n + 1, n), 0, name="left")
    right = one.scan(lambda n, x: (n + 1, n), 0, name="right")
    made = layout(ab.union(left, right, name="both").to_list())

    parts = parts_of(made, made.unit_of["both"], {"left", "right"})

    assert [("src", "total", "number"), ("left",), ("right", "both")] == [
        part.operators for part in parts
    ]


def test_there_is_no_cut_before_the_first_operator():
    assert "nothing before it" in why_not_cut(layout(meeting().to_list()), "src")


def test_there_is_no_cut_if_something_else_leads_behind_it():
    """
    The other source is an element of its own; its items would have to pass the first half.
    """
    one = ab.from_iterable(trades(50), Trade, name="one").scan(vwap, (0.0, 1))
    other = ab.from_iterable(trades(50), Trade, name="other")
    both = ab.union(one.scan(lambda n, x: (n + 1, n), 0, name="two"), other)
    made = layout(both.scan(lambda n, x: (n + 1, n), 0, name="last").to_list())

    assert "also read other elsewhere" in why_not_cut(made, "two")
    assert why_not_cut(made, "last") is None


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("cuts", ["both", "side", "last", "number side both last"])
def test_streams_that_meet_behind_cuts_keep_their_order(cuts):
    expected, out = meeting().to_list(), meeting().to_list()
    ab.run(expected, on="sequential")
    job = ab.start(out, on="spark", degree=2, epoch_items=20)
    job._running.set_cuts(cuts.split())
    job.wait()

    assert expected.items == out.items


@pytest.mark.spark
def test_both_halves_keep_their_states_when_cuts_come_and_go():
    expected = chain().to_list()
    ab.run(expected, on="sequential")
    out = chain().to_list()

    job = ab.start(out, on="spark", epoch_items=4)
    running = job._running
    for cuts in [{"number"}, set(), {"total", "number"}, {"total"}] * 50:
        running.set_cuts(cuts)
        if job.wait(timeout=0.15):
            break
    job.wait()

    assert expected.items == out.items


@pytest.mark.long
@pytest.mark.spark
def test_a_keyed_element_is_cut_in_every_channel():
    def keyed() -> ab.Stream:
        source = ab.from_iterable(trades(300), Trade).filter(traded)
        prices = source.key_by("symbol").scan(vwap, (0.0, 0), name="vwap")
        return prices.map(lambda p: p._replace(vwap=p.vwap + 1), name="add")

    expected, out = keyed().to_list(), keyed().to_list()
    ab.run(expected, on="sequential")
    job = ab.start(out, on="spark", degree=3, epoch_items=90)
    job._running.set_cuts({"add"})
    job.wait()

    assert expected.items == out.items


@pytest.mark.spark
@pytest.mark.parametrize("seed", needs.quick(1, range(700, 708)))
def test_any_cut_gives_the_sequential_result(seed):
    rng = Random(seed)

    def run(sinks):
        made = layout(*sinks)
        possible = [n for n in made.graph.names if why_not_cut(made, n) is None]
        job = ab.start(*sinks, on="spark", degree=2, epoch_items=60)
        job._running.set_cuts(rng.sample(possible, min(3, len(possible))))
        job.wait()

    assert_same(program(seed), run)


@pytest.mark.spark
def test_an_impossible_cut_is_refused_with_the_reason():
    job = ab.start(chain().map(note, name="n").to_list(), on="spark", on_error="skip")

    with pytest.raises(ValueError, match="nothing before it"):
        job._running.set_cuts({"src"})

    job.stop()
