"""Rounds: when they start, when they end, and that each starts afresh."""

from __future__ import annotations

import pytest

import anabranch as ab

NUMBERS = [1, 2, 3, 4]


def rounds_of(body, items=NUMBERS, **options):
    return ab.testing.outputs(ab.from_iterable(items).iterate(body, **options))


def test_rounds_are_counted():
    assert [8, 16, 24, 32] == rounds_of(lambda s: s.map(lambda n: n * 2), rounds=3)


def test_until_is_asked_after_each_round():
    asked = []

    def enough(items):
        asked.append(list(items))
        return len(items) < 3

    assert [4] == rounds_of(lambda s: s.filter(lambda n: n > 3), until=enough)
    assert [[4]] == asked


def test_rounds_bound_until():
    grow = lambda s: s.map(lambda n: n + 1)

    assert [3, 4, 5, 6] == rounds_of(grow, rounds=2, until=lambda _: False)


def test_state_is_fresh_in_each_round():
    sums = lambda s: s.scan(lambda total, n: (total + n, total + n), 0)

    assert [1, 4, 10, 20] == rounds_of(sums, rounds=2)


def test_operators_of_the_body_finish_in_each_round():
    pairs = lambda s: s.window(count=3).aggregate(sum)

    assert [10] == rounds_of(pairs, rounds=2)


def test_nothing_happens_where_nothing_came():
    def never(items):
        pytest.fail("asked about an empty window")

    assert [] == rounds_of(lambda s: s.map(abs), [], until=never)


def test_each_punctuation_ends_a_window_of_rounds():
    words = ab.from_iterable([1, 2, 0, 3]).punctuate(lambda n: n == 0)
    sums = words.iterate(lambda s: s.window(count=9).aggregate(sum), rounds=1)

    assert [3, 3] == ab.testing.outputs(sums)


def test_the_punctuation_goes_on_after_the_results():
    words = ab.from_iterable([1, 2, 0, 3]).punctuate(lambda n: n == 0)
    doubled = words.iterate(lambda s: s.map(lambda n: n * 2), rounds=1)
    lists = doubled.window(punctuation=True).aggregate(list)

    assert [[2, 4, 0], [6]] == ab.testing.outputs(lists)
