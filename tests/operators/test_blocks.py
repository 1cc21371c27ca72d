"""Blocks and the dealing half of a split-join, against slices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.errors import OperatorError
from anabranch.operators.blocks import Block, BlockKernel, Deal, DealKernel
from tests.operators.driving import drive_items

ITEMS = st.lists(st.integers(), max_size=30)


@given(st.integers(1, 4), st.integers(0, 3), ITEMS)
def test_a_block_sees_overlapping_slices_and_leaves_what_is_too_short(pop, more, items):
    peek = pop + more
    kernel = BlockKernel(Block(lambda seen: [tuple(seen)], pop, 1, peek))
    slices = [tuple(items[i : i + peek]) for i in range(0, len(items), pop)]

    assert [s for s in slices if len(s) == peek] == drive_items(kernel, items)


def test_a_block_gives_its_items_in_order():
    kernel = BlockKernel(Block(lambda pair: [pair[1], pair[0], 0], 2, 3, 2))

    assert [2, 1, 0, 4, 3, 0] == drive_items(kernel, [1, 2, 3, 4, 5])


def test_a_block_must_give_what_it_declares():
    kernel = BlockKernel(Block(lambda seen: [1, 2], 1, 1, 1))

    with pytest.raises(OperatorError, match=r"push=1 must give that many items; got 2"):
        kernel.process(kernel.open(), "x", 0)


def test_what_a_failing_block_popped_is_gone():
    def refuse_one(seen):
        if 1 in seen:
            raise ValueError(seen)
        return [tuple(seen)]

    kernel = BlockKernel(Block(refuse_one, 1, 1, 2))
    state = kernel.open()
    kernel.process(state, 1, 0)

    with pytest.raises(ValueError, match="1, 2"):
        kernel.process(state, 2, 0)

    assert [(2, 3)] == kernel.process(state, 3, 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(any), ITEMS)
def test_dealing_gives_each_branch_its_slice_of_every_turn(weights, items):
    dealt = drive_items(DealKernel(Deal(tuple(weights))), items)
    turn = sum(weights)
    for branch, weight in enumerate(weights):
        start = sum(weights[:branch])
        mine = [x for i, x in enumerate(items) if start <= i % turn < start + weight]

        assert mine == [item for port, item in dealt if port == branch]
    assert items == [item for _, item in dealt]


def swap(two):
    return [two[1], two[0]]


def test_a_block_between_maps_of_its_stream_runs_where_items_may_fail():
    source = ab.from_iterable([1, 2, 3, 4], int)
    outs = [
        source.map(lambda n: n + 1).to_list(),
        source.block(swap, pop=2, push=2).to_list(),
        source.map(lambda n: -n).scan(lambda total, n: (total + n, total), 0).to_list(),
    ]
    ab.run(*outs, on="local", degree=2, on_error="skip")

    assert [[2, 3, 4, 5], [2, 1, 4, 3], [0, -1, -3, -6]] == [out.items for out in outs]
