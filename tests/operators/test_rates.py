"""Balance equations, by literals and by substitution."""

import math

from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.rates import FixedStream, balance

RATES = st.integers(1, 12)


def test_a_conflict_names_the_stream_that_contradicts_the_others():
    flows = [
        FixedStream("a", 1, "b", 1),
        FixedStream("b", 1, "c", 1),
        FixedStream("a", 2, "c", 1),
    ]

    assert (FixedStream("a", 2, "c", 1),) == balance("abc", flows).conflicts


def test_unconnected_operators_are_balanced_apart():
    flows = [FixedStream("a", 1, "b", 4), FixedStream("c", 3, "d", 1)]

    assert {"a": 4, "b": 1, "c": 1, "d": 3} == balance("abcd", flows).repetitions


def test_a_stream_that_carries_nothing_connects_nothing():
    assert {"a": 1, "b": 1} == balance("ab", [FixedStream("a", 0, "b", 2)]).repetitions


@given(st.lists(st.tuples(RATES, RATES, st.booleans()), min_size=1, max_size=12))
def test_repetitions_solve_every_equation_and_share_no_factor(rates):
    names = [str(index) for index in range(len(rates) + 1)]
    flows = [
        FixedStream(names[i], push, names[i + 1], pop)
        if forward
        else FixedStream(names[i + 1], push, names[i], pop)
        for i, (push, pop, forward) in enumerate(rates)
    ]

    solved = balance(names, flows)

    assert () == solved.conflicts
    assert all(
        f.push * solved.repetitions[f.producer]
        == f.pop * solved.repetitions[f.consumer]
        for f in flows
    )
    assert 1 == math.gcd(*solved.repetitions.values())
