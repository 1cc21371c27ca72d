"""Batches: cutting and joining keep order, positions and marks."""

from __future__ import annotations

import math

import numpy as np

from anabranch.runtime.batch import (
    NOWHERE,
    ArrayItems,
    Batch,
    Origin,
    join_batches,
    mark_at,
)
from anabranch.runtime.compiled.arrays import ItemsOf


class Source:
    def where(self, number):
        return f"item {number} of it"


def test_a_mark_covers_what_follows_from_its_position():
    assert mark_at(3) >= (3, 99, 99)
    assert mark_at(3) < (4,)
    assert mark_at(3, 1) < (3, 2)


def test_the_first_part_of_a_cut_says_how_far_it_has_come():
    batch = Batch(["a", "b", "c"], [[4, 5, 9]], mark_at(12))

    first, rest = batch.cut(2)

    assert (["a", "b"], (5, math.inf)) == (first.items, first.mark)
    assert (["c"], (12, math.inf)) == (rest.items, rest.mark)


def test_equal_positions_are_not_cut_apart():
    batch = Batch(["a", "b", "c", "d"], [[4, 5, 5, 5]], mark_at(5))

    first, rest = batch.cut(2)

    assert ["a", "b", "c", "d"] == first.items
    assert rest is None


def test_without_positions_a_cut_has_no_mark():
    first, rest = Batch(["a", "b"]).cut(1)

    assert (["a"], None, ["b"]) == (first.items, first.mark, rest.items)


def test_joined_batches_have_the_last_mark_and_all_positions():
    one = Batch(["a"], [[1]], mark_at(1))
    two = Batch(["b"], [[2]])
    three = Batch([], [[]], mark_at(7))

    batch = join_batches([one, two, three])

    assert ["a", "b"] == batch.items
    assert [[1, 2]] == batch.columns
    assert (7, math.inf) == batch.mark


def test_even_ranges_stay_a_range():
    one, two = Batch(["a", "b"], [range(0, 4, 2)]), Batch(["c"], [range(4, 6, 2)])

    assert [range(0, 6, 2)] == join_batches([one, two]).columns


def test_uneven_ranges_become_a_list():
    one, two = Batch(["a", "b"], [range(0, 4, 2)]), Batch(["c"], [range(6, 8, 2)])

    assert [[0, 2, 6]] == join_batches([one, two]).columns


def test_an_origin_names_the_item_or_the_stretch():
    source = Source()
    one, two = Origin(5.0, source, 3, 3), Origin(4.0, source, 7, 9)

    both = one.with_(two)

    assert one.text == "item 3 of it"
    assert both.text == "item 3 of it or up to 6 later"
    assert both.born_s == 4.0
    assert both.youngest_s == 5.0
    assert NOWHERE.with_(one) is one


def test_an_origin_was_read_when_the_first_of_its_items_was():
    source = Source()
    one = Origin(5.0, source, 1, 1, spread_s=1.0, waited_s=3.0)
    two = Origin(4.0, source, 2, 2, spread_s=0.5, waited_s=5.0)

    both = one.with_(two)

    assert (4.0, 6.0, 8.0) == (both.born_s, both.youngest_s, both.read_s)


def held(*numbers):
    return ArrayItems([np.array(numbers)], ItemsOf(None))


def test_arrays_stay_arrays_when_batches_are_joined_and_cut():
    joined = join_batches([Batch(held(1.0, 2.0)), Batch(held(3.0))])
    first, rest = joined.cut(2)

    assert isinstance(first.items, ArrayItems)
    assert ([1.0, 2.0], [3.0]) == (list(first.items), list(rest.items))


def test_arrays_of_another_type_and_lists_are_joined_as_items():
    pairs = [Batch(held(1.0)), Batch(held(2))], [Batch(held(1.0)), Batch([2])]
    joined = [join_batches(pair) for pair in pairs]

    assert [[1.0, 2], [1.0, 2]] == [one.items for one in joined]
    assert [[float, int]] * 2 == [[type(n) for n in one.items] for one in joined]


def test_cleared_arrays_are_empty():
    items = held(1, 2)
    left = iter(items)
    items.clear()

    assert ([], 0) == (list(left), len(items))
