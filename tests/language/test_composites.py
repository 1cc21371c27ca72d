"""Composites: pipelines and split-joins as functions of a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.operators.blocks import Collect, Deal


def same(s):
    return s.map(lambda n: n)


def negated(s):
    return s.map(lambda n: -n)


def summed(s):
    return s.block(lambda w: [sum(w)], pop=2, push=1)


def graph_of(composite):
    return build_graph([ab.from_iterable([], int).pipe(composite).to_list()])


def run(composite, items):
    return ab.testing.outputs(ab.from_iterable(items).pipe(composite))


def test_a_pipeline_is_its_stages_in_order():
    both = ab.pipeline(summed, negated)

    assert [-3, -7] == run(both, [1, 2, 3, 4])


def test_an_empty_pipeline_changes_nothing():
    assert [1, 2] == run(ab.pipeline(), [1, 2])


def test_duplicate_gives_every_item_to_every_branch():
    both = ab.split_join(ab.duplicate(), [same, negated], ab.round_robin())

    assert [1, -1, 2, -2] == run(both, [1, 2])


def test_round_robin_deals_by_weight_and_collects_by_weight():
    both = ab.split_join(
        ab.round_robin([2, 1]), [same, negated], ab.round_robin([2, 1])
    )

    assert [1, 2, -3, 4, 5, -6, 7] == run(both, [1, 2, 3, 4, 5, 6, 7])


def test_branches_of_different_rates_are_joined_by_what_they_push():
    both = ab.split_join(ab.duplicate(), [same, summed], ab.round_robin([2, 1]))

    assert [1, 2, 3, 3, 4, 7] == run(both, [1, 2, 3, 4])


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.lists(st.integers()))
def test_dealing_out_and_collecting_by_the_same_weights_changes_nothing(weights, items):
    both = ab.split_join(
        ab.round_robin(weights), [same] * len(weights), ab.round_robin(weights)
    )

    assert items == run(both, items)


WEIGHTS = {
    "none: one item each": (ab.round_robin(), (1, 1, 1)),
    "one number: so many each": (ab.round_robin(4), (4, 4, 4)),
    "one for each branch": (ab.round_robin([1, 2, 3]), (1, 2, 3)),
}


@pytest.mark.parametrize(("turn", "weights"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights(turn, weights):
    graph = graph_of(ab.split_join(turn, [same, same, same], turn))
    kinds = [op.kind for op in graph if isinstance(op.kind, Deal | Collect)]

    assert [weights, weights] == [kind.weights for kind in kinds]


def test_the_halves_are_named_after_the_whole():
    graph = graph_of(
        ab.split_join(ab.round_robin(), [same, same], ab.round_robin(), name="both")
    )

    assert {"both_deal", "both"} <= set(graph.names)


def test_a_joiner_cannot_duplicate():
    with pytest.raises(TypeError, match="cannot come from several branches"):
        ab.split_join(ab.duplicate(), [same, same], ab.duplicate())


def test_composites_nest():
    inner = ab.split_join(ab.duplicate(), [same, negated], ab.round_robin())
    outer = ab.split_join(ab.duplicate(), [inner, same], ab.round_robin([2, 1]))

    assert [1, -1, 1, 2, -2, 2] == run(outer, [1, 2])
