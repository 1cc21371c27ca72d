"""Functions that depend on what came before, or on the order, are found."""

from __future__ import annotations

import pytest

import anabranch as ab


def test_a_cache_is_no_state():
    known = {}

    def square(n):
        return known.setdefault(n, n * n)

    ab.testing.assert_stateless(square, [1, 2, 1, 3])


def test_a_running_count_is_found():
    seen = []

    def count(item):
        seen.append(item)
        return len(seen)

    with pytest.raises(AssertionError, match=r"count must give the same.* 'a' .* 1, "):
        ab.testing.assert_stateless(count, ["a"])


def test_a_generator_is_compared_by_what_it_yields():
    ab.testing.assert_stateless(lambda n: (n + i for i in range(3)), [1, 2])


def test_an_item_that_is_changed_is_a_copy():
    items = [[2, 1], [1]]

    ab.testing.assert_stateless(lambda one: one.sort() or one, items)

    assert [[2, 1], [1]] == items


def test_the_last_item_does_not_commute():
    with pytest.raises(AssertionError, match="ended with 3 and with 1"):
        ab.testing.assert_commutative(lambda _, n: n, 0, [1, 2, 3])


def test_the_largest_item_commutes():
    ab.testing.assert_commutative(max, 0, [3, 1, 2])
