"""The interpreter: in which order items, punctuations and ends go through a graph."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import OperatorError


class Pair(NamedTuple):
    k: str
    v: int


def tagged(tag):
    return lambda item: f"{item}{tag}"


def traced(trace, tag):
    """Return a function that notes each item that it sees and passes it on."""

    def note(item):
        trace.append(f"{tag}{item}")
        return item

    return note


class Last(ab.Operator):
    """Passes items on, and repeats the last one at the end in capitals."""

    def setup(self):
        self.last = "nothing"

    def process(self, item):
        self.last = item
        yield item

    def finish(self):
        yield str(self.last).upper()


def test_a_diamond_gives_each_item_by_every_branch_before_the_next():
    s = ab.from_iterable("xy")
    both = ab.union(s.map(tagged(1)), s.map(tagged(2)))

    assert ["x1", "x2", "y1", "y2"] == ab.testing.outputs(both)


def test_the_order_of_branches_is_that_of_writing_not_that_of_the_union():
    s = ab.from_iterable("xy")
    one, two = s.map(tagged(1)), s.map(tagged(2))

    assert ["x1", "x2", "y1", "y2"] == ab.testing.outputs(ab.union(two, one))


def test_nested_fan_outs_are_left_in_the_order_of_the_outer_branch():
    s = ab.from_iterable("x")
    a, b = s.map(tagged("a")), s.map(tagged("b"))
    inner = [t.map(tagged(n)) for n in (1, 2) for t in (a, b)]

    assert ["xa1", "xa2", "xb1", "xb2"] == ab.testing.outputs(ab.union(*inner))


def test_a_short_branch_waits_for_a_long_one_that_was_written_first():
    s = ab.from_iterable("xy")
    long = s.map(tagged(1)).map(tagged(2)).map(tagged(3))
    short = s.map(tagged(9))

    assert ["x123", "x9", "y123", "y9"] == ab.testing.outputs(ab.union(long, short))


def test_a_stream_may_be_united_with_itself():
    s = ab.from_iterable("xy")

    assert ["x", "x", "y", "y"] == ab.testing.outputs(ab.union(s, s))


def test_a_self_join_meets_the_item_itself():
    s = ab.from_iterable([1, 2])
    pairs = s.join(s, left_window=1, right_window=1)

    assert [(1, 1), (2, 1), (2, 2)] == ab.testing.outputs(pairs)


def test_all_outputs_of_an_item_are_made_before_the_first_goes_on():
    trace = []

    def several(item):
        for part in (1, 2):
            trace.append(f"make {part}")
            yield part

    s = ab.from_iterable("x").flat_map(several).map(traced(trace, "see "))
    ab.testing.outputs(s)

    assert ["make 1", "make 2", "see 1", "see 2"] == trace


def test_each_output_goes_to_the_end_of_every_branch_before_the_next():
    trace = []
    s = ab.from_iterable([12]).flat_map(str)
    one = s.map(traced(trace, "a")).for_each(traced(trace, "b"))
    two = s.map(traced(trace, "c")).for_each(traced(trace, "d"))
    ab.run(one, two, on="sequential")

    assert ["a1", "b1", "c1", "d1", "a2", "b2", "c2", "d2"] == trace


def test_sources_take_turns_until_they_end():
    three = ab.from_iterable("abc"), ab.from_iterable("x"), ab.from_iterable("12")

    assert list("ax1b2c") == ab.testing.outputs(ab.union(*three))


def test_split_delivers_in_the_order_of_the_route():
    one, two = ab.from_iterable(["x"]).split(lambda _: (1, 0), 2)
    both = ab.union(one.map(tagged("left")), two.map(tagged("right")))

    assert ["xright", "xleft"] == ab.testing.outputs(both)


def test_a_punctuation_takes_every_branch_of_a_split():
    s = ab.from_iterable([1, 2, 3, 0, 5]).punctuate(lambda n: n == 0)
    even, odd = s.split(lambda n: n % 2, 2)
    lists = [t.window(punctuation=True).aggregate(list) for t in (even, odd)]

    assert [[2, 0], [1, 3], [5]] == ab.testing.outputs(ab.union(*lists))


def test_a_punctuation_survives_the_filter_that_drops_its_item():
    s = ab.from_iterable([1, 0, 2]).punctuate(lambda n: n == 0).filter(bool)

    assert [[1], [2]] == ab.testing.outputs(s.window(punctuation=True).aggregate(list))


def test_at_a_punctuation_keys_come_in_the_order_of_keys():
    items = [Pair("z", 1), Pair("a", 2), Pair("z", 0), Pair("m", 3)]
    s = ab.from_iterable(items).punctuate(lambda p: p.v == 0).key_by("k")
    sums = s.window(punctuation=True).aggregate(lambda w: (w[0].k, len(w)))

    assert [("a", 1), ("z", 2), ("m", 1)] == ab.testing.outputs(sums)


def test_keys_finish_in_the_order_of_keys_not_of_arrival():
    items = [Pair(k, 1) for k in ("b", "c", "a")]
    sums = (
        ab.from_iterable(items).key_by("k").window(count=9).aggregate(lambda w: w[0].k)
    )

    assert ["a", "b", "c"] == ab.testing.outputs(sums)


def test_producers_finish_first_and_consumers_see_what_they_gave():
    s = ab.from_iterable("xy").apply(Last).apply(Last)

    assert ["x", "y", "Y", "Y"] == ab.testing.outputs(s)


def test_branches_finish_one_after_the_other_in_the_order_of_writing():
    s = ab.from_iterable("x")
    one = s.map(tagged(1)).apply(Last)
    two = s.map(tagged(2)).apply(Last)

    assert ["x1", "x2", "X1", "X2"] == ab.testing.outputs(ab.union(two, one))


def test_an_operator_without_a_key_finishes_even_if_no_item_came():
    assert ["NOTHING"] == ab.testing.outputs(ab.from_iterable([]).apply(Last))


def test_an_operator_with_a_key_has_nothing_to_finish_if_no_item_came():
    assert [] == ab.testing.outputs(ab.from_iterable([]).key_by("k").apply(Last))


def test_equal_keys_of_different_types_share_their_state():
    items = [Pair(1, 1), Pair(1.0, 2), Pair(True, 4)]
    sums = ab.from_iterable(items).key_by("k").scan(lambda s, p: (s + p.v, s + p.v), 0)

    assert [1, 3, 7] == ab.testing.outputs(sums)


def test_a_chain_of_two_thousand_operators_does_not_overflow():
    s = ab.from_iterable([0])
    for _ in range(2000):
        s = s.map(lambda n: n + 1)

    assert [2000] == ab.testing.outputs(s)


def test_a_setup_that_fails_stops_the_job_and_names_the_operator():
    class Broken(ab.Operator):
        def setup(self):
            raise RuntimeError("no licence")  # noqa: EM101, TRY003 - the user's own

        def process(self, item):
            return [item]

    out = ab.from_iterable([1]).apply(Broken, name="broken").to_list()

    with pytest.raises(OperatorError, match=r"'broken' .* its setup.*no licence"):
        ab.run(out, on="sequential", on_error="skip")
